//! Disks behind a network, as disks of the block I/O layer Platter.
//!
//! - [`nbd`]: the Network Block Device protocol.

pub mod nbd;
