//! SCSI disks of the system as disks whose reads and writes are commands: `/dev/sgN`, `/dev/bsg/H:C:T:L`, and block devices,
//! by the kernel's generic interface (`scsi/sg.h`, `linux/bsg.h`).
//!
//! - `/dev/sgN`, open for writing: several commands at once on one descriptor, by `write`, `read` and `poll`;
//! - all others: the ioctl `SG_IO` on threads, in its version 3, of which bsg has version 4.
//!
//! Which commands are sent and what answers mean is decided by `platter_scsi::host`. Inside:
//! `node` finds out what a path is, `header` has the kernel's structures, `work` the system calls, `protocol` the commands;
//! the driver is `passed`, with threads or `asynchronous` as its carrier.

mod asynchronous;
mod disk;
mod header;
mod node;
mod protocol;
mod shared;
mod verdict;
mod work;

pub use crate::passed::PassedError as SgError;
pub use disk::SgDisk;

use platter_block::time::Span;

/// Options of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SgOptions {
    /// Open it for writing.
    pub write: bool,
    /// Most threads of a channel, where commands block: 1 and more.
    pub threads: u32,
    /// Time after which the kernel aborts a command of a read or write, in whole milliseconds.
    pub command_timeout: Span,
}

platter_block::setters! {
    SgOptions {
        write, with_write: bool;
        threads, with_threads: u32;
        command_timeout, with_command_timeout: Span;
    }
}

impl Default for SgOptions {
    fn default() -> SgOptions {
        SgOptions { write: false, threads: 4, command_timeout: Span::from_secs(60) }
    }
}
