//! What is wrong with a trace, and where.

use core::fmt;
use platter_block::text::{excerpt, printable};

/// A place in an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The input as a whole.
    Whole,
    /// A line, from 1.
    Line(u64),
    /// A record, from 1, and the byte at which it begins.
    Record(u64, u64),
}

/// Why a record, or the rest of an input, cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    /// The input.
    pub input: String,
    /// Where in it.
    pub place: Place,
    /// What is wrong: the field, its value, and what is allowed.
    pub problem: String,
    /// Whether nothing behind it can be read.
    pub is_end: bool,
}

impl TraceError {
    pub(crate) fn new(input: &str, place: Place, problem: impl Into<String>, is_end: bool) -> TraceError {
        TraceError { input: input.to_owned(), place, problem: problem.into(), is_end }
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", printable(&self.input))?;
        match self.place {
            Place::Whole => {}
            Place::Line(line) => write!(f, ":{line}")?,
            Place::Record(record, byte) => write!(f, ": record {record} (at byte {byte})")?,
        }
        write!(f, ": {}", self.problem)
    }
}

impl core::error::Error for TraceError {}

/// A piece of an input for a message: short, and safe for a terminal.
pub(crate) fn quote(text: &str) -> String {
    excerpt(text, 60)
}
