//! The block layer itself: bios, requests, queues, elevators, plugging, merging and barriers.
//!
//! This crate does no I/O. It makes no system call, starts no thread and reads no clock: it is told what
//! happened and what time it is, and answers with what to dispatch and when it wants to be woken. The same
//! code therefore runs against a real disk in real time and against a simulated one in virtual time.

#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod allocation;
pub mod backend;
pub mod bio;
#[allow(unsafe_code)]
pub mod buf;
#[allow(unsafe_code)]
pub mod build;
pub mod capability;
mod cell;
pub mod command;
pub mod counters;
pub mod defect;
#[allow(unsafe_code)]
pub mod deferred;
pub mod disk;
pub mod driver;
pub mod elevator;
pub mod event;
pub mod fault;
mod features;
pub mod handle;
pub mod hint;
pub mod histogram;
pub mod lane;
pub mod limits;
mod op;
#[allow(unsafe_code)]
pub mod owner;
pub mod params;
pub mod planted;
pub mod queue;
pub mod register;
pub mod request;
#[allow(unsafe_code)]
pub mod resident;
#[allow(unsafe_code)]
pub mod segment;
mod setters;
pub mod statistics;
pub mod status;
pub mod text;
pub mod time;
pub mod trace;
pub mod whole;
