//! Drivers: one file for each, and the table that names them.

#[allow(unsafe_code)]
pub mod memory;
pub mod null;
