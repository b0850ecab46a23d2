//! Why a disk cannot be opened.

use std::path::PathBuf;
use std::{fmt, io};

/// Why a disk cannot be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum PassedError {
    /// The node cannot be opened, or takes no commands.
    Open {
        /// The node.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// It is no disk that can be used, and why.
    Unfit(String),
}

impl fmt::Display for PassedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PassedError::Open { path, source } => write!(f, "{}: {source}", path.display()),
            PassedError::Unfit(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for PassedError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            PassedError::Open { source, .. } => Some(source),
            PassedError::Unfit(_) => None,
        }
    }
}
