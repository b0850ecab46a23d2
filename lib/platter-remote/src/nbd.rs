//! The Network Block Device protocol: the bytes, which servers use too, and a client as a disk.
//!
//! [`wire`], [`uri`], [`handshake`] and [`reply`] do no I/O. [`client`] is the disk.

pub mod client;
pub mod handshake;
pub mod reply;
pub mod uri;
pub mod wire;
