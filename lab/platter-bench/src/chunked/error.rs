//! Why a run failed.

use crate::load::Stuck;
use platter_block::fault::Error as DeviceError;

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChunkedError {
    /// An option is invalid regardless of the devices; the message has the allowed values.
    #[error("{0}")]
    Option(String),
    /// An option does not fit the devices or files, such as a size beyond their end.
    #[error("{0}")]
    Unfit(String),
    /// A device cannot be opened.
    #[error(transparent)]
    Open(Box<dyn std::error::Error + Send + Sync>),
    /// An I/O failed, or a channel could not be had.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Processes wait for I/Os that a simulated device will never complete.
    #[error(transparent)]
    Stuck(#[from] Stuck),
}
