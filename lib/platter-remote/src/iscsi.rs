//! The iSCSI protocol (RFC 7143): the parts that both sides use, and a client of it as a disk.

#[cfg(feature = "iscsi")]
pub mod client;
pub mod text;
pub mod wire;
