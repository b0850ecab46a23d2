//! Tests of the request queue through its public face, on a scripted disk.

mod barrier;
mod disk;
mod errors;
mod flush;
mod memory;
mod merge;
mod odd;
mod plug;
mod pool;
mod property;
mod rig;
mod simulation;
mod switch;
mod timeout;
mod trace;
