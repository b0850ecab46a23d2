//! Parsers of the kernel's text files, for the fuzzer. Not part of the API.

use super::sysfs::{self, Sysfs};
use super::{BlockDevice, DeviceLimits, DeviceNumber, KernelQueue, lock, mounts};
use std::path::{Path, PathBuf};

/// A line of `/proc/self/mountinfo`.
#[derive(Debug)]
pub struct Mount {
    /// The number of the file system's device.
    pub device: DeviceNumber,
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// What is mounted.
    pub source: PathBuf,
    /// Number of the mount, and type of the file system.
    pub id_and_type: (u64, String),
}

/// Reads `/proc/self/mountinfo`.
pub fn mounts(text: &[u8]) -> Vec<Mount> {
    let all = mounts::parse_mounts(text).into_iter();
    let shown = |mount: mounts::Mount| Mount {
        device: mount.device,
        mount_point: mount.mount_point,
        source: mount.source,
        id_and_type: (mount.id, mount.fs_type),
    };
    all.map(shown).collect()
}

/// Reads `/proc/swaps`.
pub fn swaps(text: &[u8]) -> Vec<PathBuf> {
    mounts::parse_swaps(text)
}

/// Reads `/proc/locks`: the processes that hold an inode.
pub fn lock_holders(text: &str, device: DeviceNumber, inode: u64) -> Vec<u32> {
    lock::parse_holders(text, device, inode)
}

/// Reads `/proc/PID/stat`: whether the process is exiting.
pub fn is_exiting(stat: &str) -> bool {
    lock::is_exiting(stat)
}

/// Reads `MAJOR:MINOR`.
pub fn device_number(text: &str) -> Option<DeviceNumber> {
    DeviceNumber::parse(text)
}

/// All block devices in the sysfs at `root`.
pub fn block_devices(root: &Path) -> Vec<BlockDevice> {
    sysfs::list(&Sysfs::at(root))
}

/// What the sysfs at `root` contains about a device.
pub fn queue(root: &Path, device: DeviceNumber) -> Option<(DeviceLimits, KernelQueue)> {
    KernelQueue::of(&Sysfs::at(root), device)
}
