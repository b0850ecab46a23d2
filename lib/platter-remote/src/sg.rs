//! SCSI disks of the system as disks whose reads and writes are commands: `/dev/sgN`, `/dev/bsg/H:C:T:L`, and block devices,
//! by the kernel's generic interface (`scsi/sg.h`, `linux/bsg.h`).
//!
//! - `/dev/sgN`, open for writing: several commands at once on one descriptor, by `write`, `read` and `poll`;
//! - all others: the ioctl `SG_IO` on threads, in its version 3, of which bsg has version 4.
//!
//! Which commands are sent and what answers mean is decided by `platter_scsi::host`. Inside:
//! `node` finds out what a path is, `header` has the kernel's structures, `work` the system calls, `channel` the driver.

mod channel;
mod disk;
mod header;
mod node;
mod shared;
mod verdict;
mod work;

pub use disk::SgDisk;

use platter_block::time::Span;
use std::fmt;
use std::io;
use std::path::PathBuf;

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

/// Why a disk cannot be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum SgError {
    /// The node cannot be opened, or takes no commands.
    Open {
        /// The node.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// It is no disk that can be used, and why.
    Unfit(String),
}

impl fmt::Display for SgError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SgError::Open { path, source } => write!(f, "{}: {source}", path.display()),
            SgError::Unfit(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for SgError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SgError::Open { source, .. } => Some(source),
            SgError::Unfit(_) => None,
        }
    }
}
