//! The current values of an elevator's parameters.

use crate::params::{self, Param, ParamError};

/// One value for each row of a table of parameters, in the order of the table.
#[derive(Clone, Copy, Debug)]
pub struct Settings<const N: usize> {
    owner: &'static str,
    table: &'static [Param; N],
    values: [i64; N],
}

impl<const N: usize> Settings<N> {
    /// The defaults of `table`; `owner` is the name used in errors.
    pub fn new(owner: &'static str, table: &'static [Param; N]) -> Settings<N> {
        Settings { owner, table, values: core::array::from_fn(|row| table[row].default) }
    }

    /// The value of a row, in the unit of its [`Param`].
    #[inline]
    pub fn at(&self, row: usize) -> i64 {
        self.values[row]
    }

    /// The value of a row that is never negative.
    #[inline]
    pub fn unsigned(&self, row: usize) -> u64 {
        self.values[row].max(0).unsigned_abs()
    }

    /// Sets the value of a row; the caller has checked that it is in range.
    pub fn put(&mut self, row: usize, value: i64) {
        self.values[row] = value;
    }

    /// The value of a parameter.
    pub fn get(&self, name: &str) -> Option<i64> {
        let row = self.table.iter().position(|p| p.name == name)?;
        Some(self.values[row])
    }

    /// Sets a parameter.
    ///
    /// # Errors
    /// The name is unknown or the value out of range. The old value stays.
    pub fn set(&mut self, name: &str, value: i64) -> Result<(), ParamError> {
        let row = params::check(self.owner, self.table, name, value)?;
        self.values[row] = value;
        Ok(())
    }
}
