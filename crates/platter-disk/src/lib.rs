//! Part of Platter, a block I/O layer in user space.

#![deny(unsafe_code)]

pub mod drivers;
pub mod sys;
