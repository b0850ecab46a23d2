//! Part of Platter, a block I/O layer in user space.

#![deny(unsafe_code)]

pub mod adapters;
mod aligned;
mod aside;
mod background;
pub mod bounce;
mod byte_range;
mod callers;
pub mod channel;
pub mod clock;
mod closed;
mod deferred;
pub mod device;
pub mod disk_backend;
pub mod drivers;
pub mod elevators;
pub mod fiemap;
pub mod future;
pub mod handle;
mod lane_pool;
pub mod lock_meter;
mod ofd;
pub mod open;
pub mod pool;
pub mod service;
mod submitter;
mod sync;
pub mod sync_io;
pub mod sys;
mod thread_number;
pub mod trace_output;
mod tuning;
mod wake;
