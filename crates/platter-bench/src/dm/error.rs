//! Why the benchmark could not be run.

use platter_block::fault;
use platter_disk::sys::SysError;
use std::fmt;

/// Why the benchmark could not be run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum DmError {
    /// An option is invalid regardless of the devices; the message has the allowed values.
    Option(String),
    /// An option does not fit the devices or files, such as a size beyond their end.
    Unfit(String),
    /// The disks cannot be made or opened.
    Open(String),
    /// A read failed, or a channel could not be opened.
    Device(fault::Error),
    /// The run was stopped before anything was measured.
    Interrupted,
}

impl fmt::Display for DmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DmError::Option(message) | DmError::Unfit(message) | DmError::Open(message) => {
                f.write_str(message)
            }
            DmError::Device(error) => error.fmt(f),
            DmError::Interrupted => f.write_str("interrupted before anything was measured"),
        }
    }
}

impl std::error::Error for DmError {}

impl From<fault::Error> for DmError {
    fn from(error: fault::Error) -> DmError {
        DmError::Device(error)
    }
}

impl From<SysError> for DmError {
    fn from(error: SysError) -> DmError {
        DmError::Open(error.to_string())
    }
}
