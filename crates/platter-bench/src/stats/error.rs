//! Invalid input of statistics.

use core::fmt;

/// Why a statistic could not be computed.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum StatsError {
    /// There was no value at all.
    Empty,
    /// A value was NaN or infinite.
    NotFinite {
        /// Position of the value in the input.
        index: usize,
        /// The value.
        value: f64,
    },
    /// A value was below the smallest one allowed.
    TooSmall {
        /// Position of the value in the input.
        index: usize,
        /// The value.
        value: f64,
        /// The allowed values, in words.
        allowed: &'static str,
    },
    /// Two lists that must be paired differ in length.
    Unpaired {
        /// Length of the first list.
        left: usize,
        /// Length of the second list.
        right: usize,
    },
    /// A parameter of the method is outside its range.
    Parameter {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: f64,
        /// The allowed values, in words.
        allowed: &'static str,
    },
}

impl fmt::Display for StatsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("no values: at least one run is needed"),
            Self::NotFinite { index, value } => {
                write!(f, "value {index} is {value}: only finite numbers can be summarised")
            }
            Self::TooSmall { index, value, allowed } => {
                write!(f, "value {index} is {value}: it must be {allowed}")
            }
            Self::Unpaired { left, right } => {
                write!(f, "{left} values cannot be paired with {right}: both lists need the same length")
            }
            Self::Parameter { name, value, allowed } => {
                write!(f, "{name} is {value}: it must be {allowed}")
            }
        }
    }
}

impl core::error::Error for StatsError {}
