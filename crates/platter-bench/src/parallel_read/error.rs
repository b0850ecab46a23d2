//! Why a run failed.

use platter_block::fault;
use platter_disk::pool::BadPool;
use std::fmt;

/// Why a run failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum ParallelReadError {
    /// An option is invalid regardless of the devices; the message has the allowed values.
    Option(String),
    /// An option does not fit the devices or files, such as a size beyond their end.
    Unfit(String),
    /// A device cannot be opened.
    Open(Box<dyn std::error::Error + Send + Sync>),
    /// A read failed.
    Device(fault::Error),
    /// A buffer could not be had.
    Buffer(BadPool),
    /// The system gave no thread.
    Thread(std::io::Error),
    /// It was interrupted before anything was measured.
    Interrupted,
}

impl fmt::Display for ParallelReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParallelReadError::Option(message) | ParallelReadError::Unfit(message) => f.write_str(message),
            ParallelReadError::Open(error) => error.fmt(f),
            ParallelReadError::Device(error) => error.fmt(f),
            ParallelReadError::Buffer(error) => write!(f, "{error}; lower --block or --normal-block"),
            ParallelReadError::Thread(error) => {
                write!(f, "the system gives no more threads: {error}; name fewer devices")
            }
            ParallelReadError::Interrupted => f.write_str("interrupted before anything was measured"),
        }
    }
}

impl std::error::Error for ParallelReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ParallelReadError::Open(error) => Some(error.as_ref()),
            ParallelReadError::Device(error) => Some(error),
            ParallelReadError::Buffer(error) => Some(error),
            ParallelReadError::Thread(error) => Some(error),
            ParallelReadError::Option(_) | ParallelReadError::Unfit(_) | ParallelReadError::Interrupted => {
                None
            }
        }
    }
}

impl From<fault::Error> for ParallelReadError {
    fn from(error: fault::Error) -> ParallelReadError {
        ParallelReadError::Device(error)
    }
}

impl From<BadPool> for ParallelReadError {
    fn from(error: BadPool) -> ParallelReadError {
        ParallelReadError::Buffer(error)
    }
}
