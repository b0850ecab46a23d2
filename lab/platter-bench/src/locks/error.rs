//! Why a measurement failed.

use platter_block::fault;
use platter_disk::pool::BadPool;

/// Why a measurement failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LocksError {
    /// An option is invalid; the message has the allowed values.
    #[error("{0}")]
    Option(String),
    /// An option does not fit a device.
    #[error("{0}")]
    Unfit(String),
    /// A read failed.
    #[error(transparent)]
    Device(#[from] fault::Error),
    /// A buffer could not be had.
    #[error("{0}; lower --block")]
    Buffer(#[from] BadPool),
    /// The system gave no thread.
    #[error("the system gives no more threads: {0}; lower --threads")]
    Thread(#[source] std::io::Error),
    /// The process has a lock meter already.
    #[error("another lock meter is running in this process; wait until it is finished")]
    Metered,
    /// It was interrupted before anything was measured.
    #[error("interrupted before anything was measured")]
    Interrupted,
}
