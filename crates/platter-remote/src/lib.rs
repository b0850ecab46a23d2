//! Disks behind a network, as disks of the block I/O layer Platter.
//!
//! - [`nbd`]: the Network Block Device protocol;
//! - `control`: the control socket of a server (feature `control`).

#[cfg(feature = "control")]
pub mod control;
pub mod nbd;
