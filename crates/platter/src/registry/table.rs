//! The table: a row for each device that a spec can name.

use super::{Access, OpenError, leaf, queue};
use crate::spec::{Args, Param, Signature};
use platter_disk::device::Device;
use std::ops::RangeInclusive;

/// What a device is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A disk with request queues of its own.
    Leaf,
    /// A device that stands on others.
    Layer,
}

/// A device.
#[derive(Clone, Debug)]
pub struct Row {
    /// Name in specs.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// What it is made of.
    pub shape: Shape,
    /// A spec of it.
    pub example: &'static str,
    /// Parameters that may be given without their names, in order.
    pub unnamed: &'static [&'static str],
    /// Its own parameters, and those that it shares with others.
    pub tables: &'static [&'static [Param]],
    /// How many devices it stands on.
    pub devices: RangeInclusive<usize>,
    /// Opens one.
    pub open: fn(&mut Args<'_>, Access) -> Result<Device, OpenError>,
}

impl Row {
    /// Its arguments, as [`Args`] wants them.
    pub fn signature(&self) -> Signature {
        Signature { unnamed: self.unnamed, tables: self.tables, devices: self.devices.clone() }
    }

    /// All of its parameters.
    pub fn params(&self) -> impl Iterator<Item = &'static Param> + use<> {
        self.tables.iter().copied().flatten()
    }
}

/// Every device.
pub static TABLE: &[Row] = &[
    Row {
        name: "file",
        summary: "a regular file or a block device",
        shape: Shape::Leaf,
        example: "file(/dev/sdb, elevator=deadline, depth=64)",
        unnamed: &["path"],
        tables: &[leaf::FILE, queue::PARAMS],
        devices: 0..=0,
        open: leaf::file,
    },
    Row {
        name: "ram",
        summary: "a disk in memory, filled with zeroes, gone when it is closed",
        shape: Shape::Leaf,
        example: "ram(2G)",
        unnamed: &["size"],
        tables: &[leaf::SIZE, queue::PARAMS],
        devices: 0..=0,
        open: leaf::ram,
    },
    Row {
        name: "null",
        summary: "a disk that does nothing: reads leave memory as it was, writes are forgotten",
        shape: Shape::Leaf,
        example: "null(1T, elevator=deadline)",
        unnamed: &["size"],
        tables: &[leaf::SIZE, queue::PARAMS],
        devices: 0..=0,
        open: leaf::null,
    },
];

/// The names of all devices.
pub fn names() -> Vec<&'static str> {
    TABLE.iter().map(|row| row.name).collect()
}

/// The row of a device.
pub fn find(name: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.name == name)
}
