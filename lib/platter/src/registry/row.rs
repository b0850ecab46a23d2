//! A row of the table of devices.

use super::{OpenError, Opening};
use crate::spec::{Args, Argument, Signature};
use platter_disk::device::Device;
use std::ops::RangeInclusive;

/// The shape of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A disk with its own request queues.
    Disk,
    /// A device built on other devices.
    Layer,
}

/// A device.
pub struct DeviceType {
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
    pub tables: &'static [&'static [Argument]],
    /// Number of devices below.
    pub devices: RangeInclusive<usize>,
    pub(super) open: Open,
}

/// Opens a device with these arguments.
pub(super) type Open = Box<dyn Fn(&mut Args<'_>, &Opening) -> Result<Device, OpenError> + Send + Sync>;

impl DeviceType {
    /// Its arguments, in the form that [`Args`] takes.
    pub fn signature(&self) -> Signature {
        Signature { unnamed: self.unnamed, tables: self.tables, devices: self.devices.clone() }
    }

    /// All of its parameters.
    pub fn params(&self) -> impl Iterator<Item = &'static Argument> + use<> {
        self.tables.iter().copied().flatten()
    }
}
