//! The system side of opening a disk: what a path is, who else uses it, what it already holds,
//! and descriptors that are safe to do I/O on. Nothing here knows bios or queues.

#![forbid(unsafe_code)]

pub mod errno;
mod error;

pub use error::SysError;
