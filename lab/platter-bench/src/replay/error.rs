//! Why a replay cannot go on.

use platter_block::fault::Error as DeviceError;
use platter_disk::pool::BadPool;
use platter_traces::TraceError;

use crate::io::IoError;
use crate::load::Stuck;

/// Why a trace cannot be replayed, or not to its end. An I/O that fails is counted in the report instead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// A record of the trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The options do not go together, or the trace lacks what they need.
    #[error("{0}")]
    Options(String),
    /// The devices do not allow what the trace has.
    #[error("{0}")]
    Unfit(String),
    /// The devices cannot be driven together, or a device gave no channel.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The memory for data could not be had.
    #[error("{0}; lower depth")]
    Buffers(#[from] BadPool),
}

impl From<Stuck> for ReplayError {
    fn from(stuck: Stuck) -> Self {
        ReplayError::Io(stuck.into())
    }
}

impl From<DeviceError> for ReplayError {
    fn from(error: DeviceError) -> Self {
        ReplayError::Io(error.into())
    }
}
