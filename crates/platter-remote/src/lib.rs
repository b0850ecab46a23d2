//! Disks behind a network, as disks of the block I/O layer Platter.
//!
//! - [`nbd`]: the Network Block Device protocol;
//! - [`iscsi`]: the units and the text of the iSCSI protocol, and with the feature `iscsi` an initiator;
//! - `nvme`: commands to the system's NVMe devices (feature `nvme`);
//! - `control`: the control socket of a server (feature `control`).

#[cfg(feature = "control")]
pub mod control;
mod ears;
pub mod iscsi;
pub mod nbd;
#[cfg(feature = "nvme")]
pub mod nvme;
mod unflushed;
