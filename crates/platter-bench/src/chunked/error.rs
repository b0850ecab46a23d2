//! Why a run failed.

use platter_block::fault::Error as DeviceError;
use std::fmt;

/// Why a run failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum ChunkedError {
    /// An option is invalid regardless of the devices; the message has the allowed values.
    Option(String),
    /// An option does not fit the devices or files, such as a size beyond their end.
    Unfit(String),
    /// A device cannot be opened.
    Open(Box<dyn std::error::Error + Send + Sync>),
    /// An I/O failed, or a channel could not be had.
    Device(DeviceError),
    /// I/Os are out and nothing will ever happen.
    Stuck,
}

impl fmt::Display for ChunkedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChunkedError::Option(message) | ChunkedError::Unfit(message) => f.write_str(message),
            ChunkedError::Open(error) => error.fmt(f),
            ChunkedError::Device(error) => error.fmt(f),
            ChunkedError::Stuck => f.write_str(
                "I/Os are out and nothing happens on the device any more; this is a mistake in its driver",
            ),
        }
    }
}

impl std::error::Error for ChunkedError {}

impl From<DeviceError> for ChunkedError {
    fn from(error: DeviceError) -> ChunkedError {
        ChunkedError::Device(error)
    }
}
