//! Why a server, an export or a device of a server cannot be had.

use std::fmt;

/// An error for an operator: what is wrong with which thing, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeError {
    message: String,
    usage: bool,
}

impl ServeError {
    /// The request itself is wrong: an address, a name or an option.
    pub fn usage(message: impl Into<String>) -> ServeError {
        ServeError { message: message.into(), usage: true }
    }

    /// The system does not allow it: an address in use, a missing permission.
    pub fn system(message: impl Into<String>) -> ServeError {
        ServeError { message: message.into(), usage: false }
    }

    /// Whether the request itself is wrong, regardless of the system's state.
    pub fn is_usage(&self) -> bool {
        self.usage
    }
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ServeError {}
