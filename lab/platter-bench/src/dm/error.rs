//! Why the benchmark could not be run.

use platter_block::fault;
use platter_disk::sys::SysError;

/// Why the benchmark could not be run.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DmError {
    /// An option is invalid regardless of the devices; the message has the allowed values.
    #[error("{0}")]
    Option(String),
    /// An option does not fit the devices or files, such as a size beyond their end.
    #[error("{0}")]
    Unfit(String),
    /// The disks cannot be made or opened.
    #[error("{0}")]
    Open(String),
    /// A read failed, or a channel could not be opened.
    #[error(transparent)]
    Device(#[from] fault::Error),
    /// The run was stopped before anything was measured.
    #[error("interrupted before anything was measured")]
    Interrupted,
}

impl From<SysError> for DmError {
    fn from(error: SysError) -> DmError {
        DmError::Open(error.to_string())
    }
}
