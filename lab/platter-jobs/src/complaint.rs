//! What is wrong with a job file, and where.

use core::fmt;
use platter_block::text::{excerpt, printable};
use std::path::PathBuf;

/// Longest piece of a file that a message repeats.
const MOST: usize = 80;

/// A line of a job file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1; 0 for the file as a whole.
    pub line: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", printable(&self.file.display().to_string()))?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        Ok(())
    }
}

/// Why a job file is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobFileError {
    /// Where.
    pub place: Place,
    /// The option, as the line has it; `None` when the line as a whole is wrong.
    pub option: Option<String>,
    /// What is wrong.
    pub problem: String,
    /// What to do instead.
    pub instead: String,
}

impl JobFileError {
    pub(crate) fn new(place: Place, problem: impl Into<String>, instead: impl Into<String>) -> Self {
        Self { place, option: None, problem: problem.into(), instead: instead.into() }
    }

    pub(crate) fn of(mut self, option: &str) -> Self {
        self.option = Some(quote(option));
        self
    }
}

impl fmt::Display for JobFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        if let Some(option) = &self.option {
            write!(f, "{option}: ")?;
        }
        write!(f, "{}; {}", self.problem, self.instead)
    }
}

impl core::error::Error for JobFileError {}

/// A line that fio would read in another way than it was meant, or that does less than it seems to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Where.
    pub place: Place,
    /// The option, as the line has it.
    pub option: Option<String>,
    /// What the line means here, and what fio would have done.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        if let Some(option) = &self.option {
            write!(f, "{option}: ")?;
        }
        f.write_str(&self.message)
    }
}

/// A piece of a file for a message: short, and safe for a terminal.
pub(crate) fn quote(text: &str) -> String {
    excerpt(text, MOST)
}
