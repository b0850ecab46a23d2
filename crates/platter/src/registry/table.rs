//! The table: a row for each device that a spec can name, and those that the program has registered.

use super::driver::DriverRow;
use super::{OpenError, Opening, driver, layer, leaf, raid, register, simulated};
use crate::spec::{Args, Param, Signature};
use platter_disk::device::Device;
use std::ops::RangeInclusive;
use std::sync::LazyLock;

/// The shape of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A disk with its own request queues.
    Leaf,
    /// A device built on other devices.
    Layer,
}

/// A device.
pub struct Row {
    /// Name in specs.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Its shape.
    pub shape: Shape,
    /// A spec of it.
    pub example: String,
    /// Parameters that may be given without their names, in order.
    pub unnamed: &'static [&'static str],
    /// Its own parameters, and those that it shares with others.
    pub tables: &'static [&'static [Param]],
    /// Number of devices below.
    pub devices: RangeInclusive<usize>,
    pub(super) build: Build,
}

/// How a device is opened.
#[derive(Clone, Copy)]
pub(super) enum Build {
    Leaf(fn(&mut Args<'_>, &Opening) -> Result<Device, OpenError>),
    Layer(&'static platter_stack::Row),
    Driver(&'static DriverRow),
}

impl Row {
    /// Its arguments, in the form that [`Args`] takes.
    pub fn signature(&self) -> Signature {
        Signature { unnamed: self.unnamed, tables: self.tables, devices: self.devices.clone() }
    }

    /// All of its parameters.
    pub fn params(&self) -> impl Iterator<Item = &'static Param> + use<> {
        self.tables.iter().copied().flatten()
    }

    pub(super) fn open(&self, args: &mut Args<'_>, opening: &Opening) -> Result<Device, OpenError> {
        match self.build {
            Build::Leaf(open) => open(args, opening),
            Build::Layer(layer) => layer::open(layer, args, opening),
            Build::Driver(row) => driver::open(row, args, opening),
        }
    }
}

/// The devices of the library: leaves, then layers.
static TABLE: LazyLock<Vec<Row>> = LazyLock::new(|| {
    leaf::rows().into_iter().chain([simulated::row()]).chain(layer::rows()).chain(raid::rows()).collect()
});

/// Every device: leaves, then layers, then what the program has registered.
pub fn table() -> Vec<&'static Row> {
    TABLE.iter().chain(register::registered()).collect()
}

/// The names of all devices.
pub fn names() -> Vec<&'static str> {
    table().into_iter().map(|row| row.name).collect()
}

/// The row of a device.
pub fn find(name: &str) -> Option<&'static Row> {
    table().into_iter().find(|row| row.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::parse;
    use crate::spec::check_table;

    #[test]
    fn rows_are_unique_and_their_tables_are_sound() {
        for (i, row) in table().iter().enumerate() {
            assert!(table()[..i].iter().all(|other| other.name != row.name), "{}", row.name);
            check_table(row.tables).unwrap_or_else(|wrong| panic!("{}: {wrong}", row.name));
            for unnamed in row.unnamed {
                assert!(row.params().any(|param| param.name == *unnamed), "{}: {unnamed}", row.name);
            }
        }
    }

    #[test]
    fn examples_are_specs_of_their_own_device() {
        for row in table() {
            let spec = parse(&row.example).unwrap();
            assert_eq!(spec.name(), row.name);
            Args::new(&spec, &row.signature()).unwrap();
        }
    }
}
