//! NVMe commands of disks: submission queue entries, completions, and the data that controllers return about themselves.
//!
//! Layouts are data ([`layout::Field`]): the same rows decode, encode and print. A decoded value keeps the bytes that it
//! came from, so that fields which no layout names survive. [`controller::Controller`] is the device's side: it answers
//! commands for any block device, without doing I/O itself.
//! Commands and structures are those of the NVM Express Base Specification 2.0 and of the NVM Command Set Specification 1.0.
//! Fields have the specifications' abbreviations in lower case, as nvme-cli prints them.
//!
//! ```
//! use platter_nvme::command::{self, Entry};
//!
//! let read = Entry::new(&command::READ).with("nsid", 1).with("slba", 2048).with("nlb", 7);
//! assert_eq!((read.bytes()[0], &read.bytes()[40..50]), (0x02, &[0, 8, 0, 0, 0, 0, 0, 0, 7, 0][..]));
//! assert_eq!(read.data_len(512), Some(4096));
//! ```

#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub use platter_protocol::{layout, step, structure};

pub mod bits;
pub mod command;
pub mod controller;

pub mod data;
pub mod filter;
pub mod identify;
pub mod log;
mod queued;
pub mod status;
