//! Simulated disks in virtual time: models of disks, what is stored on them, what goes wrong with them.
//!
//! Everything here is a pure state machine: told what was asked and what time it is, a model answers when it
//! is done. One seed decides all that is random.

#![forbid(unsafe_code)]

pub mod model;
