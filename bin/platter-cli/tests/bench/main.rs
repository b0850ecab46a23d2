//! `platter bench` from outside.

mod chunked;
mod compare;
mod dm;
mod dsw;
mod ends;
mod fileio;
mod io;
mod jobs;
mod jobs_of_fio;
mod locks;
mod nbd;
mod parallel_read;
#[path = "../shared/partitioned.rs"]
mod partitioned;
#[allow(dead_code, reason = "each suite uses a part of it")]
#[path = "../shared/running.rs"]
mod running;
mod schedulers;
