//! The disks that can be simulated by name.

use crate::ideal::Ideal;
use crate::model::Model;
use platter_block::time::Span;

/// A disk of the catalogue.
pub struct Row {
    /// Name in device specs: `sim(NAME)`.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Makes one.
    pub make: fn() -> Box<dyn Model>,
}

/// Every disk.
pub static TABLE: &[Row] = &[Row {
    name: "ideal",
    summary: "1 TiB, 100 us for everything, 32 commands side by side",
    make: || Ideal { size: 1 << 40, latency: Span::from_micros(100), depth: 32, write_cache: false }.into(),
}];

/// Looks a disk up by name.
pub fn by_name(name: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.name == name)
}
