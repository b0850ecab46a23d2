//! Why processes could not run.

use crate::load::Stuck;
use crate::report::units::bytes;
use platter_block::fault;
use platter_disk::pool::BadPool;

/// Why processes could not run to their end.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// The device gave no channel, or an I/O of a process failed.
    #[error(transparent)]
    Device(#[from] fault::Error),
    /// A buffer could not be had.
    #[error(transparent)]
    Buffer(BadPool),
    /// Processes wait for I/Os that a simulated device will never complete.
    #[error(transparent)]
    Stuck(#[from] Stuck),
    /// The device is too small for the files.
    #[error(
        "the files of the processes need {}, the device has {}; give a larger one",
        bytes(*needed),
        bytes(*size)
    )]
    TooSmall {
        /// Bytes that are needed.
        needed: u64,
        /// Bytes of the device.
        size: u64,
    },
}
