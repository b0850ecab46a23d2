//! SCSI commands of disks: command descriptor blocks, sense data, and the data that disks return about themselves.
//!
//! Layouts are data ([`layout::Field`]): the same rows decode, encode, print a table and point at the byte of a command
//! that was wrong. A decoded value keeps the bytes that it came from, so that fields which no layout names survive.
//! [`unit::Unit`] is the device's side: it answers commands for any block device, without doing I/O itself.
//! [`host`] is the other side, for drivers.
//! [`effect::of`] tells which blocks a command may read or change.
//! [`target::Target`] adds what several initiators at one unit need: order, reservations, unit attentions.
//! Names of commands and fields are those of the standards SPC-4 (commands of all devices) and SBC-3 (of disks).
//!
//! ```
//! use platter_scsi::cdb::{self, Cdb};
//!
//! let read = Cdb::new(&cdb::READ_16).with("LOGICAL BLOCK ADDRESS", 2048).with("TRANSFER LENGTH", 8);
//! assert_eq!(read.bytes()[..10], [0x88, 0, 0, 0, 0, 0, 0, 0, 8, 0]);
//! assert_eq!(Cdb::decode(read.bytes())?.get("TRANSFER LENGTH"), Some(8));
//! # Ok::<(), cdb::Error>(())
//! ```

#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(any(test, feature = "disk"))]
extern crate std;

pub use platter_protocol::{layout, structure};

pub mod cdb;
#[cfg(feature = "disk")]
#[allow(unsafe_code)]
pub mod disk;
pub mod effect;
pub mod filter;
pub mod host;
pub mod page;
pub mod sense;
pub mod target;
pub mod unit;
