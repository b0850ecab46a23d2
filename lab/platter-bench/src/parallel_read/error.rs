//! Why a run failed.

use platter_block::fault;
use platter_disk::pool::BadPool;

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParallelReadError {
    /// An option is invalid regardless of the devices; the message has the allowed values.
    #[error("{0}")]
    Option(String),
    /// An option does not fit the devices or files, such as a size beyond their end.
    #[error("{0}")]
    Unfit(String),
    /// A device cannot be opened.
    #[error(transparent)]
    Open(Box<dyn std::error::Error + Send + Sync>),
    /// A read failed.
    #[error(transparent)]
    Device(#[from] fault::Error),
    /// A buffer could not be had.
    #[error("{0}; lower --block or --normal-block")]
    Buffer(#[from] BadPool),
    /// The system gave no thread.
    #[error("the system gives no more threads: {0}; name fewer devices")]
    Thread(#[source] std::io::Error),
    /// It was interrupted before anything was measured.
    #[error("interrupted before anything was measured")]
    Interrupted,
}
