//! Invalid input of statistics.

/// Why a statistic could not be computed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StatsError {
    /// There was no value at all.
    #[error("no values: at least one run is needed")]
    Empty,
    /// A value was NaN or infinite.
    #[error("value {index} is {value}: only finite numbers can be summarised")]
    NotFinite {
        /// Position of the value in the input.
        index: usize,
        /// The value.
        value: f64,
    },
    /// A value was below the smallest one allowed.
    #[error("value {index} is {value}: it must be {allowed}")]
    TooSmall {
        /// Position of the value in the input.
        index: usize,
        /// The value.
        value: f64,
        /// The allowed values, in words.
        allowed: &'static str,
    },
    /// Two lists that must be paired differ in length.
    #[error("{left} values cannot be paired with {right}: both lists need the same length")]
    Unpaired {
        /// Length of the first list.
        left: usize,
        /// Length of the second list.
        right: usize,
    },
    /// A parameter of the method is outside its range.
    #[error("{name} is {value}: it must be {allowed}")]
    Parameter {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: f64,
        /// The allowed values, in words.
        allowed: &'static str,
    },
}
