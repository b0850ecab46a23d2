//! Disks behind a network, as disks of the block I/O layer Platter.
//!
//! - [`nbd`]: the Network Block Device protocol;
//! - [`iscsi`]: the units and the text of the iSCSI protocol, and with the feature `iscsi` an initiator;
//! - `nvme`: commands to the system's NVMe devices (feature `nvme`), and namespaces as disks (`nvme-disk`);
//! - `sg`: SCSI disks of the system, by commands (feature `sg`);
//! - `control`: the control socket of a server (feature `control`).

#[cfg(any(feature = "iscsi", feature = "sg", feature = "nvme-disk"))]
mod buffers;
#[cfg(feature = "control")]
pub mod control;
pub mod iscsi;
pub mod nbd;
#[cfg(feature = "nvme")]
pub mod nvme;
mod options;
#[cfg(any(feature = "sg", feature = "nvme-disk"))]
mod passed;
mod reach;
mod reconnect;
#[cfg(feature = "sg")]
pub mod sg;
mod slots;
mod trouble;
mod unflushed;
mod waiter;
#[cfg(any(feature = "sg", feature = "nvme-disk"))]
mod workers;
