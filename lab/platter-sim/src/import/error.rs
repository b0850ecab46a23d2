//! Errors in a parameter file.

use core::fmt;
use platter_block::text::{excerpt, printable};
use std::path::{Path, PathBuf};

/// An error in a parameter file: file, line, what was expected there and what was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportError {
    /// The file.
    pub file: PathBuf,
    /// Its line, from 1; 0 for the file as a whole.
    pub line: u32,
    /// The expected contents.
    pub expected: String,
    /// The contents found.
    pub found: String,
    /// The file, or one that it names, is missing or cannot be read; this is not an error of its contents.
    pub unreadable: bool,
}

impl ImportError {
    pub(crate) fn new(
        file: &Path,
        line: u32,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> ImportError {
        ImportError {
            file: file.to_path_buf(),
            line,
            expected: expected.into(),
            found: found.into(),
            unreadable: false,
        }
    }

    /// A file that cannot be read, with the place that names it.
    pub(crate) fn unreadable(file: &Path, line: u32, found: impl Into<String>) -> ImportError {
        ImportError { unreadable: true, ..ImportError::new(file, line, "a file that can be read", found) }
    }
}

/// Most characters of a value that a message quotes.
const LONGEST: usize = 500;

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", printable(&self.file.display().to_string()))?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": expected {}, found {}", printable(&self.expected), excerpt(&self.found, LONGEST))
    }
}

impl std::error::Error for ImportError {}
