//! Platter: a block I/O layer in user space.

pub mod spec;
