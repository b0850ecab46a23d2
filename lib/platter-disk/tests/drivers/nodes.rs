//! Block devices for the suites: loop devices of several kinds and zram, where root has them, or those that
//! `PLATTER_TEST_NODES` names, separated by commas. `scripts/check-devices` names them.

use crate::loops::{Loop, Shape};
use crate::zram::Zram;
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Bytes of each, or at least as many.
pub(crate) const SIZE: u64 = 1 << 20;

/// The first byte of the partition.
const PARTITION: u64 = 1 << 20;

/// Devices that the environment names. If there are any, the suites run on these alone.
pub(crate) fn given() -> Vec<PathBuf> {
    let given = std::env::var("PLATTER_TEST_NODES").unwrap_or_default();
    given.split(',').filter(|path| !path.is_empty()).map(PathBuf::from).collect()
}

/// A file in memory, without a name: flushes cost nothing, and nothing is left behind.
pub(crate) struct InMemory(File);

impl InMemory {
    pub(crate) fn new(size: u64) -> InMemory {
        let file = File::from(memfd_create("platter-test", MemfdFlags::CLOEXEC).unwrap());
        file.set_len(size).unwrap();
        InMemory(file)
    }

    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }

    pub(crate) fn file(&self) -> &File {
        &self.0
    }
}

/// A loop device over memory. The path is that of its partition if it has one.
pub(crate) fn over_memory(shape: Shape, contents: u8) -> Option<(PathBuf, Loop, InMemory)> {
    let memory = InMemory::new(SIZE + if shape.partitioned { PARTITION } else { 0 });
    if contents != 0 {
        let start = if shape.partitioned { PARTITION } else { 0 };
        memory.file().write_all_at(&vec![contents; SIZE as usize], start).unwrap();
    }
    let device = Loop::over(&memory.path(), shape)?;
    if !shape.partitioned {
        return Some((device.path.clone(), device, memory));
    }
    let path = device.add_partition(PARTITION, SIZE).ok().filter(|path| path.exists());
    if path.is_none() {
        println!("skipped, no partitions of loop devices");
    }
    Some((path?, device, memory))
}

/// Makes the first bytes of a device zero.
#[allow(dead_code, reason = "not all suites need it")]
pub(crate) fn zero(path: &Path) {
    let mut device = OpenOptions::new().write(true).open(path).unwrap();
    device.write_all(&vec![0; SIZE as usize]).unwrap();
    device.sync_all().unwrap();
}

/// Calls a test with name and path of each block device, one after the other.
pub(crate) fn on_nodes(mut test: impl FnMut(&str, &Path)) {
    /// A device that is named has one user at a time.
    static IN_USE: Mutex<()> = Mutex::new(());
    let named = given();
    if !named.is_empty() {
        let _in_use = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
        return named.iter().for_each(|path| test(&path.display().to_string(), path));
    }
    for (name, shape) in [
        ("loop", Shape::PLAIN),
        ("direct loop of 4096", Shape { block: 4096, direct: true, ..Shape::PLAIN }),
        ("partition", Shape { partitioned: true, direct: true, ..Shape::PLAIN }),
    ] {
        match over_memory(shape, 0) {
            Some((path, _device, _memory)) => test(name, &path),
            None if !shape.partitioned => break,
            None => {}
        }
    }
    if let Some(zram) = Zram::new(SIZE) {
        test("zram", &zram.path);
    }
}
