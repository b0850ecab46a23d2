//! The arrays of Linux' md as data.
//!
//! | module | has |
//! |---|---|
//! | [`superblock`] | superblocks 1.0, 1.1 and 1.2 |
//! | [`bitmap`], [`bad_blocks`] | what else lies beside the data of a member |
//! | [`create`] | what to write to which device, to make an array |
//! | [`update`], [`intent`] | superblocks and bitmap of an array that is being written |
//! | [`ppl`], [`journal`] | logs: their formats, what is in them, and what that makes of an array that was being written |
//! | [`geometry`], [`rows`], [`mirrors`], [`zones`], [`layouts`] | where each byte of an array is, for every level and layout |
//! | [`gf`] | parity, and what it recovers |
//! | [`assembly`], [`sources`] | which of the members at hand form an array, and which of them can be read where |
//!
//! This crate does no I/O: bytes in, decisions and bytes out.

#![deny(unsafe_code)]

pub mod assembly;
pub mod bad_blocks;
pub mod bitmap;
mod bytes;
pub mod create;
pub mod geometry;
pub mod gf;
pub mod intent;
pub mod journal;
pub mod layouts;
pub mod mirrors;
pub mod ppl;
pub mod rows;
pub mod sources;
pub mod superblock;
pub mod update;
mod uuid;
pub mod zones;

pub use uuid::Uuid;
