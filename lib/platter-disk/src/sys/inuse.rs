//! Other users of a block device or a file: mounts, devices built on it, swap, loop devices.

use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Stat};

use super::mounts::{Mount, mounts, swaps};
use super::node::{Kind, Node};
use super::sysfs::{BlockDir, Sysfs};
use super::{DeviceNumber, lock};

/// The major number of loop devices.
const LOOP_MAJOR: u32 = 7;

/// The users of `node`, as phrases such as `sda1 is mounted on /home (ext4)`; empty if this process can see
/// none.
pub(super) fn users(node: &Node) -> Vec<String> {
    let sysfs = Sysfs::default();
    match node.kind {
        Kind::Block => {
            let swaps: Vec<DeviceNumber> = swaps().iter().filter_map(|p| device_at(p)).collect();
            device_users(&sysfs, DeviceNumber::from_dev(node.stat.st_rdev), &mounts(), &swaps)
        }
        Kind::Regular => file_users(&sysfs, &node.stat, &swaps()),
    }
}

/// Whether no running process is known to use or to have locked `node`.
pub(super) fn is_unclaimed(node: &Node) -> bool {
    users(node).is_empty() && lock::is_unlocked(&node.stat)
}

/// The block device that a path names.
fn device_at(path: &Path) -> Option<DeviceNumber> {
    // A mount source need not be a path, such as `tmpfs`.
    let stat = rustix::fs::stat(Some(path).filter(|p| p.is_absolute())?).ok()?;
    let block = FileType::from_raw_mode(stat.st_mode).is_block_device();
    block.then(|| DeviceNumber::from_dev(stat.st_rdev))
}

/// A whole disk is in use if one of its partitions is, and a partition if its disk is.
fn device_users(sysfs: &Sysfs, dev: DeviceNumber, mounts: &[Mount], swaps: &[DeviceNumber]) -> Vec<String> {
    let Some(dir) = sysfs.device(dev) else { return Vec::new() };
    let mut related = vec![dir.clone()];
    if dir.is_partition() {
        related.push(dir.whole_disk());
    } else {
        related.extend(dir.partitions());
    }
    related.iter().flat_map(|dir| uses_of_one(dir, mounts, swaps)).collect()
}

fn uses_of_one(dir: &BlockDir, mounts: &[Mount], swaps: &[DeviceNumber]) -> Vec<String> {
    let name = dir.name();
    let Some(number) = dir.number() else { return Vec::new() };
    // btrfs mounts have device numbers of their own; the mount source identifies the device.
    let is_here = |m: &&Mount| m.device == number || device_at(&m.source) == Some(number);
    let mut uses: Vec<String> = mounts
        .iter()
        .filter(is_here)
        .map(|m| format!("{name} is mounted on {} ({})", m.mount_point.display(), m.fs_type))
        .collect();
    uses.extend(dir.holders().into_iter().map(|holder| {
        let alias = dir.attr(&format!("holders/{holder}/dm/name"));
        match alias {
            Some(alias) => format!("{name} is part of {holder} ({alias})"),
            None => format!("{name} is part of {holder}"),
        }
    }));
    if swaps.contains(&number) {
        uses.push(format!("{name} is swap space in use"));
    }
    uses
}

fn file_users(sysfs: &Sysfs, stat: &Stat, swaps: &[PathBuf]) -> Vec<String> {
    let is_this = |path: &Path| {
        let other = rustix::fs::stat(path);
        other.is_ok_and(|other| (other.st_dev, other.st_ino) == (stat.st_dev, stat.st_ino))
    };
    let mut uses = Vec::new();
    if swaps.iter().any(|path| is_this(path)) {
        uses.push("it is swap space in use".to_owned());
    }
    let mut loops: Vec<DeviceNumber> = sysfs.devices();
    loops.retain(|dev| dev.major == LOOP_MAJOR);
    loops.sort_unstable();
    for dir in loops.into_iter().filter_map(|dev| sysfs.device(dev)) {
        if dir.attr("loop/backing_file").is_some_and(|path| is_this(Path::new(&path))) {
            uses.push(format!("it is the backing file of {}", dir.name()));
        }
    }
    uses
}

#[cfg(test)]
mod tests {
    use super::super::sysfs::fixture;
    use super::*;

    fn mount(device: (u32, u32), mount_point: &str) -> Mount {
        Mount {
            id: 1,
            device: DeviceNumber { major: device.0, minor: device.1 },
            mount_point: mount_point.into(),
            fs_type: "ext4".into(),
            source: "none".into(),
        }
    }

    fn disk() -> tempfile::TempDir {
        fixture::sysfs(
            &[
                ("devices/sda/dev", "8:0\n"),
                ("devices/sda/sda1/partition", "1\n"),
                ("devices/sda/sda1/dev", "8:1\n"),
                ("devices/sda/sda2/partition", "2\n"),
                ("devices/sda/sda2/dev", "8:2\n"),
                ("devices/sda/sda2/holders/dm-0/dm/name", "vg-root\n"),
                ("devices/sda/sda2/holders/md0/x", ""),
            ],
            &[("8:0", "devices/sda"), ("8:1", "devices/sda/sda1"), ("8:2", "devices/sda/sda2")],
        )
    }

    #[test]
    fn a_disk_is_in_use_when_a_partition_is() {
        let root = disk();
        let sysfs = Sysfs::at(root.path());
        let sda = DeviceNumber { major: 8, minor: 0 };
        let mounts = [mount((8, 1), "/home"), mount((8, 17), "/other")];
        let swaps = [DeviceNumber { major: 8, minor: 1 }];
        assert_eq!(
            device_users(&sysfs, sda, &mounts, &swaps),
            [
                "sda1 is mounted on /home (ext4)",
                "sda1 is swap space in use",
                "sda2 is part of dm-0 (vg-root)",
                "sda2 is part of md0"
            ]
        );
    }

    #[test]
    fn a_partition_is_in_use_when_its_disk_is_but_not_its_neighbour() {
        let root = disk();
        let sysfs = Sysfs::at(root.path());
        let sda1 = DeviceNumber { major: 8, minor: 1 };
        assert!(device_users(&sysfs, sda1, &[mount((8, 2), "/x")], &[]).is_empty());
        assert_eq!(device_users(&sysfs, sda1, &[mount((8, 0), "/x")], &[]), ["sda is mounted on /x (ext4)"]);
        let unknown = DeviceNumber { major: 9, minor: 9 };
        assert!(device_users(&sysfs, unknown, &[mount((9, 9), "/x")], &[]).is_empty());
    }

    #[test]
    fn a_file_can_be_swap_or_behind_a_loop_device() {
        let dir = tempfile::tempdir().unwrap();
        let (file, other) = (dir.path().join("a file"), dir.path().join("other"));
        std::fs::write(&file, b"x").unwrap();
        std::fs::write(&other, b"x").unwrap();
        let backing = format!("{}\n", file.display());
        let root = fixture::sysfs(
            &[("devices/loop3/loop/backing_file", &backing), ("devices/sda/loop/backing_file", &backing)],
            &[("7:3", "devices/loop3"), ("8:0", "devices/sda")],
        );
        let sysfs = Sysfs::at(root.path());
        let users =
            |path: &Path, swaps: &[PathBuf]| file_users(&sysfs, &rustix::fs::stat(path).unwrap(), swaps);
        assert_eq!(users(&file, &[]), ["it is the backing file of loop3"]);
        assert_eq!(users(&other, std::slice::from_ref(&other)), ["it is swap space in use"]);
        assert!(users(&other, std::slice::from_ref(&file)).is_empty());
    }
}
