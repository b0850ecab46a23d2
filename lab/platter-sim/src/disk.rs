//! A mechanical disk: zones and tracks, arm and platters, a segmented buffer with read-ahead and write-back,
//! command overheads, and a queue in the drive.
//!
//! The parameters and what they mean are those of DiskSim 4.0 (Bucy, Schindler, Schlosser, Ganger: *The DiskSim
//! Simulation Environment*, CMU-PDL-08-101); [`crate::import`] reads its files. Where DiskSim steps from sector to
//! sector, a disk here works out an access as a few passes over tracks, so a command costs a fraction of a
//! microsecond. Integers throughout.

mod cache;
pub mod error;
mod large;
pub mod layout;
#[cfg(test)]
mod layout_tests;
mod machine;
pub(crate) mod mech;
mod medium;
pub mod params;
mod read;
mod sched;
pub mod seek;
#[cfg(test)]
mod seek_tests;
mod shared;
mod synthetic;
mod transfer;
mod write;
mod zones;

#[cfg(test)]
mod service_tests;

pub use error::ParamsError;
pub use machine::{MechanicalDisk, Options};
pub use params::DiskParams;
pub use sched::Policy;
pub use synthetic::SyntheticDisk;
