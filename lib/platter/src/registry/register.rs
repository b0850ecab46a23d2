//! Layers and drivers that the program registers.

use super::driver::{self, DriverType};
#[cfg(feature = "layers")]
use super::layer;
use super::row::DeviceType;
use super::table;
use crate::spec::check_table;
use platter_block::params::Param;
use platter_block::register::{self, RegisterError};

/// Registers a layer of the program under its name. From then on device specs, lists and errors know it for the life
/// of the process: `open("my_layer(size=4K, a.img)")`.
///
/// # Errors
/// The name is in use or cannot be written in a device spec, the layer can have no device below, or a parameter has no
/// valid name, range or help.
#[cfg(feature = "layers")]
pub fn register_layer(row: &'static platter_stack::LayerType) -> Result<(), RegisterError> {
    const KIND: &str = "layer";
    register::check(KIND, row.name, row.summary, row.params)?;
    if row.members.is_empty() || *row.members.end() == 0 {
        return Err(RegisterError::new(KIND, row.name, "`members` allows no device below it"));
    }
    if row.params.iter().any(|param| param.name == super::params::READAHEAD) {
        let what = "the parameter `readahead` is that of the cache; choose another name for it";
        return Err(RegisterError::new(KIND, row.name, what));
    }
    add(KIND, row.name, row.params, || layer::row(row))
}

/// Registers a driver of the program under its name. From then on device specs, lists and errors know the disks that it
/// drives, for the life of the process: `open("my_disk(1G, elevator=deadline)")`. Such a disk has the parameters of
/// every queue besides its own.
///
/// # Errors
/// The name is in use or cannot be written in a device spec, or a parameter has no valid name, range or help, or the
/// name of a parameter that every disk has.
pub fn register_driver(row: &'static DriverType) -> Result<(), RegisterError> {
    const KIND: &str = "driver";
    register::check(KIND, row.name, row.summary, row.params)?;
    if platter_disk::drivers::table::find(row.name).is_some() {
        return Err(RegisterError::taken(KIND, row.name));
    }
    add(KIND, row.name, row.params, || driver::row(row))
}

/// Adds a row whose parameters have been checked, if its name is free.
fn add(
    kind: &str,
    name: &str,
    params: &[Param],
    row: impl FnOnce() -> DeviceType,
) -> Result<(), RegisterError> {
    // Before the parameters, so that the error is about the name. `add` decides.
    if table::find(name).is_some() {
        return Err(RegisterError::taken(kind, name));
    }
    let row = row();
    for param in params {
        if row.params().filter(|other| other.name == param.name).count() > 1 {
            let what =
                format!("every disk has a parameter `{}` already; choose another name for it", param.name);
            return Err(RegisterError::new(kind, name, what));
        }
    }
    check_table(row.tables).map_err(|what| RegisterError::new(kind, name, what))?;
    if table::add(row) { Ok(()) } else { Err(RegisterError::taken(kind, name)) }
}
