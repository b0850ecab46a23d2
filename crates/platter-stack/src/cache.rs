//! A page cache: pages of a device kept in frames of memory.

pub mod replace;
