//! The devices that are served.

use crate::loops::{Loop, Shape};
use crate::ways::served;
use platter::registry::{self, Access};
use platter_disk::device::Device;
use std::fs::File;
use std::path::Path;

/// Bytes of each.
pub(crate) const SIZE: u64 = 2 << 20;

/// `DISK` stands for a file of that size, `LOOP` for a loop device over one, where there are loop devices.
pub(crate) const SPECS: [&str; 7] = [
    "DISK",
    "LOOP",
    "ram(2M)",
    "cache(size=512K, DISK)",
    "raid0(chunk=64K, ram(1M), ram(1M))",
    "partition(length=2M, sim(nvme_ssd))",
    "snapshot(chunk=16K, ram(2M), ram(4M))",
];

/// Those, each under a layer that fails some of the I/O; errors also come from below an array.
pub(crate) fn failing() -> Vec<String> {
    let above = SPECS.iter().map(|spec| format!("error(chance=30000, {spec})"));
    above.chain(["raid0(chunk=64K, error(chance=30000, ram(1M)), ram(1M))".to_owned()]).collect()
}

/// Opens a device. Its file, if it has one, is made of zeroes.
pub(crate) fn open(spec: &str, folder: &Path) -> Device {
    let disk = folder.join("disk");
    if spec.contains("DISK") || spec.contains("LOOP") {
        File::create(&disk).unwrap().set_len(SIZE).unwrap();
    }
    // It stays attached for as long as the device is open.
    let node = if spec.contains("LOOP") { Loop::over(&disk, Shape::PLAIN) } else { None };
    let node_path = node.as_ref().map_or(&disk, |node| &node.path);
    let spec = spec.replace("DISK", disk.to_str().unwrap()).replace("LOOP", node_path.to_str().unwrap());
    let device = registry::open(&spec, Access::read_write()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(device.size(), SIZE, "{spec}");
    device
}

/// Calls a test for each device behind each export.
pub(crate) fn on_all(test: impl Fn(&str, &dyn crate::ways::Way, &Device)) {
    for (kind, start) in crate::ways::all() {
        for spec in SPECS {
            let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
            let device = open(spec, folder.path());
            let Some(way) = start(served(device.clone())) else { continue };
            test(&format!("{kind} {spec}"), &*way, &device);
        }
    }
}
