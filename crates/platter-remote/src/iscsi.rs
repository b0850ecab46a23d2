//! The iSCSI protocol (RFC 7143): the parts that both sides use.

pub mod text;
pub mod wire;
