//! A device of every kind with every elevator.

use platter_block::elevator::Elevator;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_disk::drivers::{Choice, FileDriver};
use platter_disk::open::DiskOptions;
use std::path::Path;
use tempfile::NamedTempFile;

pub(crate) const SIZE: u64 = 1 << 20;

/// `none` and every elevator of the table.
pub(crate) fn elevators() -> Vec<&'static str> {
    platter_disk::elevators::register_table(platter_elevators::TABLE);
    ["none"].into_iter().chain(platter_elevators::TABLE.iter().map(|row| row.name)).collect()
}

pub(crate) fn make(elevator: &str) -> Option<Box<dyn Elevator>> {
    platter_elevators::by_name(elevator).map(|row| (row.make)())
}

/// A sparse file, in the target directory: the temporary directory may be in memory.
pub(crate) fn file(size: u64) -> NamedTempFile {
    let file = NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    file.as_file().set_len(size).unwrap();
    file
}

/// Opens a file for reading and writing. `None`, after printing why, if the driver is unavailable.
pub(crate) fn open(path: &Path, driver: FileDriver, elevator: &str) -> Option<Device> {
    let mut options = DiskOptions::read_write();
    options.file.driver = Choice::Only(driver);
    options.elevator = make(elevator);
    match Device::open(path, options) {
        Ok(device) => Some(device),
        Err(error) => {
            eprintln!("skipped {driver}: {error}");
            None
        }
    }
}

/// Runs a test on each driver of files.
pub(crate) fn on_files(elevators: &[&str], test: impl Fn(&str, &Device, &NamedTempFile)) {
    for driver in FileDriver::ALL {
        for elevator in elevators {
            let file = file(SIZE);
            if let Some(device) = open(file.path(), driver, elevator) {
                test(&format!("{driver} {elevator}"), &device, &file);
            }
        }
    }
}

/// Runs a test on a zero-filled device of every kind that stores data, with every elevator.
pub(crate) fn on_all(test: impl Fn(&str, &Device)) {
    for elevator in elevators() {
        let ram = Device::ram_with(SIZE, DiskSettings::default(), make(elevator)).unwrap();
        test(&format!("ram {elevator}"), &ram);
    }
    on_files(&elevators(), |name, device, _| test(name, device));
}

/// Devices for tests with many threads.
pub(crate) fn in_memory() -> Vec<(&'static str, Device)> {
    vec![("ram", Device::ram(SIZE).unwrap())]
}
