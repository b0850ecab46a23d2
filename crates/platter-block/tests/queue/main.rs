//! Tests of the request queue through its public face, on a scripted disk.

mod atomic;
mod barrier;
mod cancel;
mod deadline;
mod direct;
mod disk;
mod doubt;
mod errors;
mod flush;
mod memory;
mod merge;
mod odd;
mod plug;
mod pool;
mod prebuilt;
mod property;
mod rig;
mod simulation;
mod statistics;
mod stuck;
mod switch;
mod timeout;
mod trace;
mod transient;
mod zeroes;
