//! The Network Block Device protocol.

pub mod wire;
