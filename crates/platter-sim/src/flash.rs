//! Flash disks: dies behind channels, pages mapped by a translation layer, garbage collection.
//!
//! Modelled: a controller that takes one command after the other, a host link, a buffer in DRAM that collects
//! writes into program units (a page of every plane of a die), channels that several dies share, dies that do
//! one operation at a time, and a translation layer that maps sectors in units of 4 KiB to any place and
//! collects garbage. Not modelled: wear, errors, read-ahead of the controller, suspended programs.
//!
//! Memory: a unit of 4 KiB that was ever written takes 4 bytes for its place and 4 for the reverse mapping,
//! so a full terabyte takes 2 GB. Units that were never touched take none, in a steady state as well.

mod buffer;
mod collect;
mod event;
mod events;
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
