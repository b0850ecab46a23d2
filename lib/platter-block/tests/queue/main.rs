//! Tests of the request queue through its public face, on a scripted disk.

mod atomic;
mod barrier;
mod cancel;
mod direct;
mod disk;
mod errors;
mod failed;
mod flush;
mod late;
mod memory;
mod merge;
mod odd;
mod plug;
mod pool;
mod prebuilt;
mod property;
mod rig;
mod silence;
mod simulation;
mod statistics;
mod switch;
mod trace;
mod transient;
mod zeroes;
