//! What a child process inherits: nothing.

use platter_disk::device::Device;
use platter_disk::drivers::{Choice, FileDriver};
use platter_disk::open::DiskOptions;
use std::collections::BTreeSet;
use std::fs;

/// Open descriptors of this process, without the one that lists them.
fn descriptors() -> BTreeSet<i32> {
    let listed: Vec<i32> = fs::read_dir("/proc/self/fd")
        .expect("a process can see its descriptors")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    listed.into_iter().filter(|fd| fs::read_link(format!("/proc/self/fd/{fd}")).is_ok()).collect()
}

/// Whether a descriptor is closed by exec.
fn closes(fd: i32) -> Option<bool> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
    let flags = u32::from_str_radix(flags.trim(), 8).ok()?;
    Some(flags & 0o2_000_000 != 0)
}

#[test]
fn every_descriptor_is_closed_by_exec() {
    let dir = tempfile::tempdir().expect("a directory");
    let before = descriptors();
    for driver in FileDriver::ALL {
        let mut options = DiskOptions::read_write();
        options.open.create = Some((1 << 20) + 100);
        options.file.driver = Choice::Only(driver);
        let path = dir.path().join(driver.name());
        let device = match Device::open(&path, options) {
            Ok(device) => device,
            Err(error) => {
                eprintln!("skipped {driver}: {error}");
                continue;
            }
        };
        device.write_at(&[1; 4096], 0).expect("a write");
        device.flush().expect("a flush");
        let channel = device.channel(4).expect("a channel");
        let open: Vec<i32> = descriptors().difference(&before).copied().collect();
        assert!(!open.is_empty(), "{driver} has a descriptor");
        for fd in open {
            assert_ne!(closes(fd), Some(false), "{driver}: descriptor {fd} would be inherited");
        }
        drop(channel);
    }
}
