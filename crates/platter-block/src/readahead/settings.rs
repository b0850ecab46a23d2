//! What a policy is made with.

use super::Row;
use crate::params::{self, ParamError};
use alloc::vec::Vec;

/// What a policy is made with: the sizes of windows and its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Pages of the largest window.
    pub max: u32,
    /// Pages of the device's optimum: what it likes to be asked for at once. Less than `max` counts as `max`.
    pub optimal: u32,
    /// The values of the row's parameters, in their order. Those at the end that are left out have their defaults.
    pub values: Vec<i64>,
}

impl Default for Settings {
    /// 128 KiB, as in Linux, and nothing known of the device.
    fn default() -> Settings {
        Settings { max: 32, optimal: 32, values: Vec::new() }
    }
}

impl Settings {
    /// Sets a parameter of `row`.
    ///
    /// # Errors
    /// An unknown name or a value out of range; the old value stands.
    pub fn set(&mut self, row: &Row, name: &str, value: i64) -> Result<(), ParamError> {
        let index = params::check(row.name, row.params, name, value)?;
        let missing = row.params.iter().skip(self.values.len());
        self.values.extend(missing.map(|param| param.default));
        self.values[index] = value;
        Ok(())
    }

    /// The value of a parameter of `row`, by its place.
    pub fn value(&self, row: &Row, index: usize) -> i64 {
        self.values.get(index).copied().or_else(|| row.params.get(index).map(|p| p.default)).unwrap_or(0)
    }
}
