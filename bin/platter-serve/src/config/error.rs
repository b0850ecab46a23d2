//! Errors of a configuration, with their positions.

use platter::spec::conceal;
use std::fmt;
use std::ops::Range;

/// Most errors that are reported of one file.
const MOST_ERRORS: usize = 20;

/// An error of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The line, from 1; 0: the file as a whole.
    pub line: usize,
    /// The column in characters, from 1; 0: the file as a whole.
    pub column: usize,
    /// What is wrong, and what is allowed.
    pub message: String,
}

/// All errors of a configuration, by position. `Display` prints one a line, without a line feed at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors {
    /// The name of the file; empty: not known.
    pub file: String,
    /// At least one.
    pub errors: Vec<ConfigError>,
}

impl ConfigErrors {
    /// An error of the file as a whole.
    pub(super) fn of_file(file: &str, message: String) -> ConfigErrors {
        ConfigErrors { file: file.to_owned(), errors: vec![ConfigError { line: 0, column: 0, message }] }
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, ConfigError { line, column, message }) in self.errors.iter().take(MOST_ERRORS).enumerate()
        {
            let gap = if index == 0 { "" } else { "\n" };
            match self.file.as_str() {
                "" if *line == 0 => write!(f, "{gap}{message}")?,
                "" => write!(f, "{gap}line {line}, column {column}: {message}")?,
                file if *line == 0 => write!(f, "{gap}{file}: {message}")?,
                file => write!(f, "{gap}{file}:{line}:{column}: {message}")?,
            }
        }
        match self.errors.len().saturating_sub(MOST_ERRORS) {
            0 => Ok(()),
            more => write!(f, "\n{more} more errors"),
        }
    }
}

impl std::error::Error for ConfigErrors {}

/// Errors, as they are found in a text.
pub(super) struct Found<'t> {
    text: &'t str,
    errors: Vec<ConfigError>,
}

impl<'t> Found<'t> {
    pub(super) fn new(text: &'t str) -> Found<'t> {
        Found { text, errors: Vec::new() }
    }

    /// Adds an error at bytes of the text.
    pub(super) fn add(&mut self, span: &Range<usize>, message: impl Into<String>) {
        let message = conceal(&message.into()).into_owned();
        let mut at = span.start.min(self.text.len());
        while !self.text.is_char_boundary(at) {
            at -= 1;
        }
        let before = &self.text[..at];
        let line = before.matches('\n').count() + 1;
        let column = before[before.rfind('\n').map_or(0, |feed| feed + 1)..].chars().count() + 1;
        self.errors.push(ConfigError { line, column, message });
    }

    /// The value, if there are no errors.
    pub(super) fn done<T>(mut self, value: T) -> Result<T, ConfigErrors> {
        if self.errors.is_empty() {
            return Ok(value);
        }
        self.errors.sort_by_key(|error| (error.line, error.column));
        Err(ConfigErrors { file: String::new(), errors: self.errors })
    }
}
