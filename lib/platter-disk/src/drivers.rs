//! Drivers: one file for each, and the table that lists them.

pub mod aio;
mod choose;
pub mod descriptor_opener;
#[allow(unsafe_code)]
pub mod descriptors;
mod file;
mod file_target;
#[allow(unsafe_code)]
mod iovec;
#[allow(unsafe_code)]
pub mod memory;
pub mod null;
mod pause;
mod side;
mod slots;
pub mod table;
mod tally;
#[cfg(test)]
mod testing;
pub mod threads;
mod unavailable;
pub mod uring;

pub use choose::{Choice, Chosen, FileDriver, WITHOUT};
pub use file::{FileDisk, FileOptions};
