//! Flash disks: dies behind channels, pages mapped by a translation layer, garbage collection.
//!
//! Modelled: a controller that takes one command after the other, a host link, a buffer in DRAM that collects
//! writes into program units (a page of every plane of a die), channels that several dies share, dies that do
//! one operation at a time, and a translation layer that maps sectors in units of 4 KiB to any place and
//! collects garbage. Not modelled: wear, errors, read-ahead of the controller, suspended programs.
//!
//! Memory: a unit of 4 KiB that was ever written takes 4 bytes for its place, a place of a block that was written 4 for
//! the reverse mapping: at most 8 bytes for each 4 KiB and 4 for each 4 KiB of the over-provisioning, 2.2 GB for a
//! terabyte written in full. Units that were never touched take none, in a steady state as well, and a block of these that
//! was collected takes 4 bytes for each place until the host has written its units.

mod buffer;
mod collect;
mod event;
mod events;
mod extent;
mod ftl;
mod map;
mod meter;
mod moved;
mod nand;
mod params;
mod ssd;
mod start;

#[cfg(test)]
mod collect_tests;
#[cfg(test)]
mod tests;

pub use meter::SsdMeter;
pub use params::{Buffer, Control, Link, Slc, SsdError, SsdParams, Start};
pub use ssd::Ssd;
