//! Tests of the request queue through its public face, on a scripted disk.

mod disk;
mod errors;
mod flush;
mod memory;
mod property;
mod rig;
