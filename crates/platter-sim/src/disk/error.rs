//! What is wrong with a disk's parameters.

use core::fmt;

/// A parameter that no disk can have, or that contradicts another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamsError {
    /// The parameter, with its zone where it has one.
    pub what: String,
    /// Its value.
    pub found: String,
    /// What it may be.
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
