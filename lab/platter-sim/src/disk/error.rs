//! Errors in a disk's parameters.

use core::fmt;

/// An invalid parameter, or one that contradicts another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamsError {
    /// The parameter, with its zone where it has one.
    pub what: String,
    /// Its value.
    pub found: String,
    /// The allowed values.
    pub expected: String,
}

impl ParamsError {
    pub(crate) fn new(
        what: impl Into<String>,
        found: impl fmt::Display,
        expected: impl Into<String>,
    ) -> ParamsError {
        ParamsError { what: what.into(), found: found.to_string(), expected: expected.into() }
    }
}

impl fmt::Display for ParamsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}: expected {}", self.what, self.found, self.expected)
    }
}

impl core::error::Error for ParamsError {}
