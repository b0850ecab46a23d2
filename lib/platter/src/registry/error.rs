//! Why a device could not be opened.

use crate::spec::{SpecError, SpecErrorKind};
use platter_block::fault;
use platter_disk::sys::SysError;
use std::fmt;

/// Why a device could not be opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The spec is invalid, or the devices or files that it names do not fit it
    /// ([`SpecErrorKind::Unfit`](crate::spec::SpecErrorKind::Unfit)).
    Spec(SpecError),
    /// A file or block device cannot be opened.
    Sys(SysError),
    /// Another device cannot be made.
    Device(fault::Error),
}

impl OpenError {
    /// Whether the spec is invalid regardless of the devices present.
    pub fn is_usage(&self) -> bool {
        matches!(self, OpenError::Spec(error) if error.kind() != SpecErrorKind::Unfit)
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Spec(error) => error.fmt(f),
            OpenError::Sys(error) => error.fmt(f),
            OpenError::Device(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<SpecError> for OpenError {
    fn from(error: SpecError) -> OpenError {
        OpenError::Spec(error)
    }
}

impl From<SysError> for OpenError {
    fn from(error: SysError) -> OpenError {
        OpenError::Sys(error)
    }
}

impl From<fault::Error> for OpenError {
    fn from(error: fault::Error) -> OpenError {
        OpenError::Device(error)
    }
}
