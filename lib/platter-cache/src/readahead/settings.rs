//! Settings of a readahead policy.

use super::ReadaheadType;
use platter_block::params::{self, ParamError};

/// Settings of a policy: window sizes and parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Pages of the largest window.
    pub max: u32,
    /// The device's optimal I/O size in pages. A value less than `max` counts as `max`.
    pub optimal: u32,
    /// Values of the row's parameters, in order. Parameters left out at the end have their defaults.
    pub values: Vec<i64>,
}

impl Default for Settings {
    /// 128 KiB, as in Linux, and no known optimum of the device.
    fn default() -> Settings {
        Settings { max: 32, optimal: 32, values: Vec::new() }
    }
}

impl Settings {
    /// Sets a parameter of `row`.
    ///
    /// # Errors
    /// The name is unknown or the value out of range. The old value stays.
    pub fn set(&mut self, row: &ReadaheadType, name: &str, value: i64) -> Result<(), ParamError> {
        let index = params::check(row.name, row.params, name, value)?;
        let missing = row.params.iter().skip(self.values.len());
        self.values.extend(missing.map(|param| param.default));
        self.values[index] = value;
        Ok(())
    }

    /// The value of a parameter of `row`, by index.
    pub fn value(&self, row: &ReadaheadType, index: usize) -> i64 {
        self.values.get(index).copied().or_else(|| row.params.get(index).map(|p| p.default)).unwrap_or(0)
    }
}
