//! The cgroup of version 2 that this process is in.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// A cgroup.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cgroup {
    /// The directory of the topmost one that this process can see.
    top: PathBuf,
    pub(super) directory: PathBuf,
}

/// The cgroup of this process; `None` without cgroups of version 2.
pub(super) fn own() -> Option<Cgroup> {
    let read = |path| read_to_string(path).unwrap_or_default();
    find(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"))
}

/// The cgroup of version 2 that these tables of mounts and of cgroups name.
fn find(mounts: &str, cgroups: &str) -> Option<Cgroup> {
    let (root, top) = mounts.lines().find_map(|line| {
        let (of_mount, of_system) = line.split_once(" - ")?;
        let mut fields = of_mount.split(' ').skip(3);
        of_system.starts_with("cgroup2 ").then_some((fields.next()?, fields.next()?))
    })?;
    let group = Path::new(cgroups.lines().find_map(|line| line.strip_prefix("0::"))?);
    // A container may see a part of the tree only.
    let below = group.strip_prefix(root).or_else(|_| group.strip_prefix("/")).unwrap_or(group);
    Some(Cgroup { top: PathBuf::from(top), directory: Path::new(top).join(below) })
}

/// Bytes of memory that this process' cgroup of version 2 and those above it may still use (`memory.max`), page cache counted
/// as unused, since the kernel gives it up first. `None`: none of them has a limit.
pub fn memory_left() -> Option<u64> {
    own()?.memory_left()
}

impl Cgroup {
    fn memory_left(&self) -> Option<u64> {
        self.directory.ancestors().take_while(|group| group.starts_with(&self.top)).filter_map(left_in).min()
    }
}

/// The same for a single cgroup.
fn left_in(group: &Path) -> Option<u64> {
    let read = |file| read_to_string(group.join(file)).ok();
    let number = |text: String| text.trim().parse::<u64>().ok();
    // The word `max` is no number: there is no limit.
    let most = number(read("memory.max")?)?;
    let used = number(read("memory.current")?)?;
    let stat = read("memory.stat").unwrap_or_default();
    let cached = ["active_file ", "inactive_file "].map(|name| {
        let value = stat.lines().find_map(|line| line.strip_prefix(name));
        value.and_then(|value| value.parse::<u64>().ok()).unwrap_or(0)
    });
    Some(most.saturating_sub(used.saturating_sub(cached.iter().sum())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_own_cgroup_is_found() {
        let mounts = "24 1 0:22 / /proc rw - proc proc rw\n30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
        let directory = |mounts, cgroups| find(mounts, cgroups).map(|found| found.directory);
        let service = Some(PathBuf::from("/sys/fs/cgroup/system.slice/a.service"));
        assert_eq!(directory(mounts, "1:name=systemd:/x\n0::/system.slice/a.service\n"), service);
        assert_eq!(directory(mounts, "0::/\n"), Some(PathBuf::from("/sys/fs/cgroup")));
        assert_eq!(directory("24 1 0:22 / /proc rw - proc proc rw\n", "0::/\n"), None);
        assert_eq!(directory(mounts, "4:memory:/x\n"), None);
        // Of the tree only a part is mounted.
        let part = "30 25 0:26 /pods/a /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n";
        assert_eq!(directory(part, "0::/pods/a/b\n"), Some(PathBuf::from("/sys/fs/cgroup/b")));
        assert_eq!(directory(part, "0::/pods/a\n"), Some(PathBuf::from("/sys/fs/cgroup")));
        assert_eq!(directory(part, "0::/b\n"), Some(PathBuf::from("/sys/fs/cgroup/b")));
    }

    #[test]
    fn the_least_that_a_limit_leaves_counts() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("top");
        let inner = top.join("middle/inner");
        fs::create_dir_all(&inner).unwrap();
        let cgroup = Cgroup { top: top.clone(), directory: inner.clone() };
        let set = |group: &Path, most: &str, used: u64| {
            fs::write(group.join("memory.max"), format!("{most}\n")).unwrap();
            fs::write(group.join("memory.current"), format!("{used}\n")).unwrap();
        };
        // Above what the process can see.
        set(dir.path(), "1", 0);
        assert_eq!(cgroup.memory_left(), None, "no controller of memory");
        set(&inner, "max", 500);
        assert_eq!(cgroup.memory_left(), None);
        set(&top.join("middle"), "10000", 9000);
        assert_eq!(cgroup.memory_left(), Some(1000));
        set(&top, "9600", 9100);
        assert_eq!(cgroup.memory_left(), Some(500));
        // Page cache counts as unused.
        fs::write(top.join("memory.stat"), "anon 9000\ninactive_file 60\nactive_file 40\nfile 7\n").unwrap();
        assert_eq!(cgroup.memory_left(), Some(600));
        set(&inner, "300", 400);
        assert_eq!(cgroup.memory_left(), Some(0));
    }
}
