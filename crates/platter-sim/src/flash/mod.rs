//! Flash disks: dies behind channels, pages mapped by a translation layer, garbage collection.
//!
//! What is modelled: a controller that takes one command after the other, a host link, a buffer in DRAM that
//! collects writes into program units (a page of every plane of a die), channels that several dies share,
//! dies that do one thing at a time, and a translation layer that maps sectors in units of 4 KiB, writes
//! where it likes and collects garbage. What is not: wear, errors, read-ahead of the controller, suspended
//! programs.
//!
//! Memory: a unit of 4 KiB that was ever written costs 4 bytes for its place and 4 for the way back, so a
//! full terabyte costs 2 GB; what was never touched costs nothing, in a steady state as well.

mod agenda;
mod buffer;
mod collect;
mod extent;
mod ftl;
mod map;
mod meter;
mod nand;
mod params;
mod ssd;
mod start;

#[cfg(test)]
mod tests;

pub use meter::SsdMeter;
pub use params::{Buffer, Control, Link, SsdError, SsdParams, Start};
pub use ssd::Ssd;
