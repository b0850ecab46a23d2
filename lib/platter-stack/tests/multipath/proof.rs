//! Paths are one device only if it is shown that they lead to one disk.

use crate::{SIZE, rig, text};
use platter_block::backend::Backend;
use platter_disk::device::Device;
use platter_disk::disk_backend::{DiskBackend, DiskSettings};
use platter_scsi::disk::{Options, ScsiTarget};
use platter_stack::by_name;
use std::sync::Arc;

fn ram(size: u64) -> Arc<dyn Backend> {
    Arc::clone(Device::ram(size).unwrap().backend())
}

fn scsi(device: Arc<dyn Backend>, serial: &str) -> Arc<dyn Backend> {
    let disk = ScsiTarget::with_serial(device, serial).port(Options::default()).unwrap();
    Arc::new(DiskBackend::new(disk, DiskSettings::default(), None).unwrap())
}

fn refusal(paths: Vec<Arc<dyn Backend>>) -> String {
    by_name("multipath").unwrap().make(&[], paths).err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn different_disks_are_refused_by_name() {
    let told = refusal(vec![ram(SIZE), ram(SIZE)]);
    assert!(told.contains("paths 0 (ram) and 1 (ram) lead to different disks"), "{told}");
    let told = refusal(vec![scsi(ram(SIZE), "one"), scsi(ram(SIZE), "two")]);
    assert!(told.contains("\"PLATTER one\"") && told.contains("\"PLATTER two\""), "{told}");
    // What they have in common is compared: one of them takes no commands.
    let told = refusal(vec![scsi(ram(SIZE), "one"), ram(SIZE)]);
    assert!(told.contains("different disks"), "{told}");
    let told = refusal(vec![scsi(ram(SIZE), "one"), scsi(ram(2 * SIZE), "one")]);
    assert!(told.contains("1048576 bytes in blocks of 512") && told.contains("2097152 bytes"), "{told}");
}

#[test]
fn two_targets_over_one_device_are_one_disk() {
    let disk = ram(SIZE);
    let port = || -> Arc<dyn Backend> {
        let port = ScsiTarget::new(Arc::clone(&disk)).port(Options::default()).unwrap();
        Arc::new(DiskBackend::new(port, DiskSettings::default(), None).unwrap())
    };
    assert_eq!(refusal(vec![port(), port()]), "");
    let other = ScsiTarget::new(ram(SIZE)).port(Options::default()).unwrap();
    let other: Arc<dyn Backend> = Arc::new(DiskBackend::new(other, DiskSettings::default(), None).unwrap());
    assert!(refusal(vec![port(), other]).contains("different disks"));
    // The same device twice, without commands.
    let device =
        Device::new(by_name("multipath").unwrap().make(&[], vec![disk.clone(), disk.clone()]).unwrap());
    device.write_at(&[1; 512], 0).unwrap();
    assert!(text(&device, "disk").contains("from byte 0 to 1048576"));
}

#[test]
fn the_disk_is_told_in_the_status() {
    let rig = rig(&[]);
    assert!(text(&rig.device, "disk").starts_with("the logical unit 1:\"PLATTER "));
    assert_eq!(rig.paths.len(), 2);
}
