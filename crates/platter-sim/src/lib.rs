//! Simulated disks in virtual time: models of disks, their contents and their faults.
//!
//! Everything here is a state machine: a disk gets commands and the time, and reports when they complete. One seed
//! determines all random numbers, and times are integers, so the same seed gives the same run on every machine.
//!
//! ```
//! use platter_block::time::{Span, Time};
//! use platter_sim::ideal::Ideal;
//! use platter_sim::{SimDisk, World};
//!
//! let world = World::new(7);
//! let model = Ideal { size: 1 << 30, latency: Span::from_micros(100), depth: 32, write_cache: false };
//! let disk = SimDisk::new(&world, model.into(), None);
//! assert_eq!(disk.geometry().size, 1 << 30);
//! // No command was submitted, so no time has passed.
//! assert_eq!(world.clock().now(), Time(0));
//! ```

#![deny(unsafe_code)]

mod attached;
pub mod bus;
pub mod catalogue;
pub mod cd_writer;
mod channel;
#[cfg(test)]
mod closed_loop;
pub mod cloud;
pub mod disk;
mod disk_state;
pub mod fault;
pub mod flash;
pub mod host;
pub mod ideal;
pub mod import;
pub mod medium;
pub mod model;
pub mod oracle;
pub mod power;
pub mod rng;
pub mod validate;
mod world;
pub mod wrong;

pub use attached::Attached;
pub use disk_state::{Inside, Options, SimDisk};
pub use world::{Stalled, World};
