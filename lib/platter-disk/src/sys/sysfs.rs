//! Reads sysfs for information about block devices.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// A device number, displayed as `MAJOR:MINOR`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceNumber {
    /// The driver.
    pub major: u32,
    /// The device within that driver.
    pub minor: u32,
}

impl DeviceNumber {
    /// Splits a `dev_t` from `stat(2)`.
    pub fn from_dev(dev: u64) -> Self {
        DeviceNumber { major: rustix::fs::major(dev), minor: rustix::fs::minor(dev) }
    }

    /// Reads `MAJOR:MINOR`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.trim().split_once(':')?;
        Some(DeviceNumber { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// A block device that the kernel knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockDevice {
    /// The usual path of its node: `/dev/sda1`. It may be missing, for example in a container.
    pub path: PathBuf,
    /// Its number.
    pub number: DeviceNumber,
    /// Size in bytes; 0 without a medium.
    pub size: u64,
    /// The names of the devices that are built on it, such as `dm-0` and `md127`.
    pub holders: Vec<String>,
}

/// All block devices in sysfs, whole disks and partitions, sorted by name; empty without sysfs.
pub fn block_devices() -> Vec<BlockDevice> {
    list(&Sysfs::default())
}

pub(super) fn list(sysfs: &Sysfs) -> Vec<BlockDevice> {
    let of = |number: DeviceNumber| {
        let dir = sysfs.device(number)?;
        // The kernel writes the slash of a name such as `cciss/c0d0` as an exclamation mark.
        let path = Path::new("/dev").join(dir.name().replace('!', "/"));
        // The attribute counts sectors of 512 bytes, whatever the device's block size is.
        let size = dir.number_attr("size").unwrap_or(0).saturating_mul(512);
        Some(BlockDevice { path, number, size, holders: dir.holders() })
    };
    let mut all: Vec<BlockDevice> = sysfs.devices().into_iter().filter_map(of).collect();
    all.sort_by(|a, b| a.path.cmp(&b.path));
    all
}

/// A sysfs tree; tests make their own.
#[derive(Debug, Clone)]
pub(super) struct Sysfs {
    root: PathBuf,
}

impl Default for Sysfs {
    fn default() -> Self {
        Sysfs { root: PathBuf::from("/sys") }
    }
}

impl Sysfs {
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn at(root: &Path) -> Self {
        Sysfs { root: root.to_path_buf() }
    }

    /// The directory of a block device; `None` if sysfs does not have it.
    pub(super) fn device(&self, dev: DeviceNumber) -> Option<BlockDir> {
        let dir = self.root.join(format!("dev/block/{dev}"));
        fs::canonicalize(dir).ok().map(|dir| BlockDir { dir })
    }

    /// All block device numbers, in no particular order.
    pub(super) fn devices(&self) -> Vec<DeviceNumber> {
        names(&self.root.join("dev/block")).iter().filter_map(|n| DeviceNumber::parse(n)).collect()
    }
}

/// The sysfs directory of one block device: a whole disk or a partition.
#[derive(Debug, Clone)]
pub(super) struct BlockDir {
    dir: PathBuf,
}

impl BlockDir {
    /// The kernel's name of the device, such as `sda1`.
    pub(super) fn name(&self) -> String {
        self.dir.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Its device number.
    pub(super) fn number(&self) -> Option<DeviceNumber> {
        DeviceNumber::parse(&self.attr("dev")?)
    }

    /// Whether this is a partition.
    pub(super) fn is_partition(&self) -> bool {
        self.dir.join("partition").exists()
    }

    /// The disk that a partition is on; a whole disk is its own.
    pub(super) fn whole_disk(&self) -> BlockDir {
        match self.dir.parent() {
            Some(parent) if self.is_partition() => BlockDir { dir: parent.to_path_buf() },
            _ => self.clone(),
        }
    }

    /// The partitions of a whole disk.
    pub(super) fn partitions(&self) -> Vec<BlockDir> {
        let mut all: Vec<BlockDir> =
            names(&self.dir).iter().map(|name| BlockDir { dir: self.dir.join(name) }).collect();
        all.retain(|part| part.is_partition());
        all.sort_by(|a, b| a.dir.cmp(&b.dir));
        all
    }

    /// The names of the devices built on this one: dm, md, bcache.
    pub(super) fn holders(&self) -> Vec<String> {
        names(&self.dir.join("holders"))
    }

    /// The attribute `name`, without surrounding white space; `None` where missing or empty.
    pub(super) fn attr(&self, name: &str) -> Option<String> {
        let text = fs::read_to_string(self.dir.join(name)).ok()?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// The numeric attribute `name`.
    pub(super) fn number_attr(&self, name: &str) -> Option<u64> {
        self.attr(name)?.parse().ok()
    }
}

fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[cfg(test)]
pub(super) mod fixture {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A fake sysfs: each path relative to the root, with its contents.
    pub(crate) fn sysfs(files: &[(&str, &str)], links: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, contents) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, contents).unwrap();
        }
        fs::create_dir_all(root.path().join("dev/block")).unwrap();
        for (number, device) in links {
            symlink(format!("../../{device}"), root.path().join("dev/block").join(number)).unwrap();
        }
        root
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_lead_to_their_disk_and_back() {
        let root = fixture::sysfs(
            &[
                ("devices/pci/sda/dev", "8:0\n"),
                ("devices/pci/sda/queue/rotational", "1\n"),
                ("devices/pci/sda/sda1/partition", "1\n"),
                ("devices/pci/sda/sda1/dev", "8:1\n"),
                ("devices/pci/sda/sda1/holders/dm-0/dev", "252:0\n"),
                ("devices/pci/sda/sda2/partition", "2\n"),
                ("devices/pci/sda/sda2/dev", "8:2\n"),
            ],
            &[("8:0", "devices/pci/sda"), ("8:1", "devices/pci/sda/sda1")],
        );
        let sys = Sysfs::at(root.path());
        let part = sys.device(DeviceNumber { major: 8, minor: 1 }).unwrap();
        assert!(part.is_partition());
        assert_eq!(part.holders(), ["dm-0"]);
        let disk = part.whole_disk();
        assert_eq!((disk.name(), disk.number_attr("queue/rotational")), ("sda".into(), Some(1)));
        assert_eq!(disk.whole_disk().name(), "sda");
        let parts: Vec<_> = disk.partitions().iter().map(|p| (p.name(), p.number().unwrap().minor)).collect();
        assert_eq!(parts, [("sda1".to_owned(), 1), ("sda2".to_owned(), 2)]);
        assert_eq!(sys.devices().len(), 2);
    }

    #[test]
    fn block_devices_are_listed_with_size_and_holders() {
        let root = fixture::sysfs(
            &[
                ("devices/sda/dev", "8:0\n"),
                ("devices/sda/size", "2048\n"),
                ("devices/sda/sda1/partition", "1\n"),
                ("devices/sda/sda1/size", "1024\n"),
                ("devices/sda/sda1/holders/md0/x", ""),
                ("devices/cciss!c0d0/size", "0\n"),
            ],
            &[("8:1", "devices/sda/sda1"), ("8:0", "devices/sda"), ("104:0", "devices/cciss!c0d0")],
        );
        let found = list(&Sysfs::at(root.path()));
        let told: Vec<_> = found
            .iter()
            .map(|device| (device.path.to_str().unwrap(), device.size, device.holders.len()))
            .collect();
        assert_eq!(told, [("/dev/cciss/c0d0", 0, 0), ("/dev/sda", 1 << 20, 0), ("/dev/sda1", 1 << 19, 1)]);
    }

    #[test]
    fn what_is_not_there_is_none() {
        let root = fixture::sysfs(&[("devices/x/queue/iosched", "\n")], &[("9:9", "devices/x")]);
        let sys = Sysfs::at(root.path());
        assert!(sys.device(DeviceNumber { major: 1, minor: 1 }).is_none());
        let dir = sys.device(DeviceNumber { major: 9, minor: 9 }).unwrap();
        assert_eq!(dir.attr("queue/iosched"), None);
        assert_eq!(dir.attr("queue/nothing"), None);
        assert!(dir.holders().is_empty());
    }

    #[test]
    fn device_numbers_parse_and_print() {
        let dev = DeviceNumber::parse("259:17\n").unwrap();
        assert_eq!(dev.to_string(), "259:17");
        assert_eq!(DeviceNumber::from_dev(rustix::fs::makedev(259, 17)), dev);
        assert_eq!(DeviceNumber::parse("259"), None);
    }
}
