//! The table: a row for each device that a spec can name, and those that the program has registered.

use super::disks;
use super::row::DeviceType;
#[cfg(feature = "layers")]
use super::{extents, layer, raid};
use std::sync::{LazyLock, PoisonError, RwLock};

/// The devices of the library: disks, then layers.
static TABLE: LazyLock<Vec<DeviceType>> = LazyLock::new(|| {
    let disks = disks::rows().into_iter();
    #[cfg(feature = "sim")]
    let disks = disks.chain([super::simulated::row()]);
    #[cfg(feature = "nbd")]
    let disks = disks.chain(super::remote::rows());
    #[cfg(feature = "scsi")]
    let disks = disks.chain([super::scsi::row()]);
    #[cfg(feature = "iscsi")]
    let disks = disks.chain([super::iscsi::row()]);
    #[cfg(feature = "nvme")]
    let disks = disks.chain([super::nvme::row()]);
    #[cfg(feature = "sg")]
    let disks = disks.chain([super::sg::row()]);
    #[cfg(feature = "layers")]
    let disks = disks.chain(layer::rows()).chain([extents::row()]).chain(raid::rows());
    disks.collect()
});

/// The devices that the program has registered, in that order.
static REGISTERED: RwLock<Vec<&'static DeviceType>> = RwLock::new(Vec::new());

/// Every device: disks, then layers, then what the program has registered.
pub fn table() -> Vec<&'static DeviceType> {
    let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
    TABLE.iter().chain(registered.iter().copied()).collect()
}

/// Adds a row for the life of the process. Returns `false` if there is one with its name.
pub(super) fn add(row: DeviceType) -> bool {
    let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
    let mut all = TABLE.iter().chain(registered.iter().copied());
    let is_free = all.all(|other| other.name != row.name);
    if is_free {
        registered.push(Box::leak(Box::new(row)));
    }
    is_free
}

/// The names of all devices.
pub fn names() -> Vec<&'static str> {
    table().into_iter().map(|row| row.name).collect()
}

/// The row of a device.
pub fn find(name: &str) -> Option<&'static DeviceType> {
    table().into_iter().find(|row| row.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::parse;
    use crate::spec::{Args, check_table};

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
