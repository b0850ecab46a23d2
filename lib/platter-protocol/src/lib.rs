//! What the command sets of disks share: [`layout`] and [`structure`] describe bytes as tables of fields, and [`step`] has the
//! operations on a device that a command becomes. Nothing here knows SCSI or NVMe; `platter-scsi` and `platter-nvme` are
//! built on it.
//!
//! ```
//! use platter_protocol::layout::{self, little};
//!
//! // The same number in both orders of bytes.
//! let (big, small) = (layout::number("LENGTH", 0, 2), little::number("length", 0, 2));
//! assert_eq!((big.get(&[1, 2]), small.get(&[1, 2])), (Some(0x102), Some(0x201)));
//! ```

#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod layout;
pub mod step;
pub mod structure;
