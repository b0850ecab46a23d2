//! The system side of opening a disk: what a path names, who else uses it, whether it has contents, and
//! descriptors that are safe for I/O. This module knows no bios or queues.

#![forbid(unsafe_code)]

mod buffer;
mod direct;
pub mod errno;
mod error;
mod explain;
mod fsname;
mod inuse;
mod lock;
mod mounts;
mod node;
mod open;
mod opened;
mod pattern;
mod probe;
mod queue;
pub mod signature;
mod space;
mod sysfs;
mod tempdisk;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod texts;

pub use error::SysError;
pub use lock::{LockGuard, LockState};
pub use node::Kind;
pub use open::{Direct, OpenOptions, Sharing};
pub use opened::OpenedDisk;
pub use pattern::Pattern;
pub use probe::{AlignSource, Filesystem, Probe};
pub use queue::{DeviceLimits, KernelQueue, WriteCache};
pub use signature::SignaturePolicy;
pub use sysfs::{BlockDevice, DeviceNumber, block_devices};
pub use tempdisk::{Progress, TempFiles, TempSpec};

#[cfg(test)]
mod open_tests;
#[cfg(test)]
mod probe_tests;
#[cfg(test)]
mod testing;
