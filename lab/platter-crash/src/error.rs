//! Why a program could not be recorded.

use std::{fmt, io};

/// Why there is no recording.
#[derive(Debug)]
pub enum RecordError {
    /// The program or the directory cannot be used.
    CannotStart(String),
    /// The program did what is not recorded.
    Unseen(String),
    /// The program failed, or tracing it did.
    Failed(String),
    /// The user asked to stop.
    Stopped,
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordError::CannotStart(why) | RecordError::Unseen(why) | RecordError::Failed(why) => {
                f.write_str(why)
            }
            RecordError::Stopped => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for RecordError {}

pub(crate) fn failed(error: &io::Error) -> RecordError {
    RecordError::Failed(format!("cannot trace the program: {error}"))
}
