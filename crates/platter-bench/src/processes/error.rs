//! Why processes could not run.

use crate::report::units::bytes;
use platter_block::fault;
use platter_disk::pool::BadPool;
use std::fmt;

/// Why processes could not run to their end.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ProcessError {
    /// The device gave no channel, or an I/O of a process failed.
    Device(fault::Error),
    /// A buffer could not be had.
    Buffer(BadPool),
    /// Processes wait for I/Os that a simulated device will never complete.
    Stuck {
        /// I/Os that were waited for.
        ios: usize,
    },
    /// The device is too small for the files.
    TooSmall {
        /// Bytes that are needed.
        needed: u64,
        /// Bytes of the device.
        size: u64,
    },
}

impl fmt::Display for ProcessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProcessError::Device(error) => error.fmt(f),
            ProcessError::Buffer(error) => error.fmt(f),
            ProcessError::Stuck { ios } => {
                write!(
                    f,
                    "{ios} I/Os are out and no device will ever complete them; give the device a timeout"
                )
            }
            ProcessError::TooSmall { needed, size } => {
                write!(
                    f,
                    "the files of the processes need {}, the device has {}; give a larger one",
                    bytes(*needed),
                    bytes(*size)
                )
            }
        }
    }
}

impl std::error::Error for ProcessError {}

impl From<fault::Error> for ProcessError {
    fn from(error: fault::Error) -> ProcessError {
        ProcessError::Device(error)
    }
}
