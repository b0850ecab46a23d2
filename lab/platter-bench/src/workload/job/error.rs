//! An invalid option.

use core::fmt;

/// A refused option: its name, its value, the allowed values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{option}={value} is not allowed: {allowed}")]
pub struct JobError {
    /// The option's name, as on the command line.
    pub option: &'static str,
    /// Its value, as on the command line (`unset` when it is missing).
    pub value: String,
    /// The allowed values, and advice.
    pub allowed: String,
    /// Whether it is refused only because of the device: a larger one, for instance, might take it.
    pub unfit: bool,
}

impl JobError {
    pub(super) fn new(option: &'static str, value: impl fmt::Display, allowed: impl Into<String>) -> Self {
        Self { option, value: value.to_string(), allowed: allowed.into(), unfit: false }
    }

    /// The same, because of the device.
    pub(super) fn unfit(self) -> Self {
        Self { unfit: true, ..self }
    }
}
