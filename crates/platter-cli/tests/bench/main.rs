//! `platter bench` from outside.

mod cd;
mod chunked;
mod dm;
mod dsw;
mod ends;
mod fileio;
mod io;
mod locks;
mod nbd;
mod parallel_read;
mod schedulers;
