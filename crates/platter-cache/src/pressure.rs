//! Memory pressure: caches with a least size give memory back while tasks stall on memory, and take it again afterwards.
//!
//! The kernel tells of stalls by PSI (`Documentation/accounting/psi.rst`, Linux 4.20): a file for the machine and one for each
//! cgroup of version 2, which a thread polls. One thread of the process does it for all caches, and ends when there are none.

use super::shared::Shared;
use crate::sync::{Mutex, lock};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// Tasks have stalled on memory for 100 ms within 2 s. Programs without privileges may ask for windows of 2 s only (6.6).
const TRIGGER: &str = "some 100000 2000000";

/// So long without an event a cache takes memory again.
const CALM: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// The pressure of the whole machine.
const MACHINE: &str = "/proc/pressure/memory";

/// A cache, until it is closed.
type Entry = Arc<Mutex<Option<Weak<Shared>>>>;

#[derive(Default)]
struct Watch {
    runs: bool,
    entries: Vec<Entry>,
}

static WATCH: Mutex<Watch> = Mutex::new(Watch { runs: false, entries: Vec::new() });

/// A cache that is watched. The thread does not use it any more after this is dropped.
pub(super) struct Watched(Entry);

impl Drop for Watched {
    fn drop(&mut self) {
        *lock(&self.0) = None;
    }
}

/// Has a cache squeezed under memory pressure.
///
/// # Errors
/// The kernel does not tell of it: why, with the file.
pub(super) fn watch(shared: &Arc<Shared>) -> Result<Watched, String> {
    let entry = Arc::new(Mutex::new(Some(Arc::downgrade(shared))));
    let mut watch = lock(&WATCH);
    if !watch.runs {
        let file = open(&source())?;
        let builder = std::thread::Builder::new().name("platter-pressure".to_string());
        builder.spawn(move || run(&file)).map_err(|error| format!("no thread to watch it: {error}"))?;
        watch.runs = true;
    }
    watch.entries.push(Arc::clone(&entry));
    Ok(Watched(entry))
}

/// The file for the cgroup of this process if there is one, else that for the machine.
fn source() -> PathBuf {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let own = cgroup_file(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"));
    own.filter(|path| path.exists()).unwrap_or_else(|| PathBuf::from(MACHINE))
}

/// The file for the cgroup of version 2 that these tables of mounts and of cgroups name.
fn cgroup_file(mounts: &str, cgroups: &str) -> Option<PathBuf> {
    let mount = mounts.lines().find_map(|line| {
        let (of_mount, of_system) = line.split_once(" - ")?;
        of_system.starts_with("cgroup2 ").then(|| of_mount.split(' ').nth(4)).flatten()
    })?;
    let group = cgroups.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some(Path::new(mount).join(group.trim_start_matches('/')).join("memory.pressure"))
}

/// Opens the file and asks for events.
fn open(path: &Path) -> Result<File, String> {
    let wrong = |error| format!("the kernel does not report memory pressure ({}: {error})", path.display());
    let mut file = OpenOptions::new().read(true).write(true).open(path).map_err(wrong)?;
    // With its final zero, as the kernel's documentation asks for.
    file.write_all(format!("{TRIGGER}\0").as_bytes()).map_err(wrong)?;
    Ok(file)
}

fn run(file: &File) {
    loop {
        let mut files = [PollFd::new(file, PollFlags::PRI)];
        let is_under = match poll(&mut files, Some(&CALM)) {
            Ok(0) => false,
            // The cgroup is gone.
            Ok(_) if files[0].revents().contains(PollFlags::ERR) => return end(),
            Ok(_) => true,
            Err(Errno::INTR) => continue,
            Err(_) => return end(),
        };
        if !tell(is_under) {
            return;
        }
    }
}

/// Forgets all caches, which keep their sizes.
fn end() {
    *lock(&WATCH) = Watch::default();
}

/// Tells all caches. Returns whether there are any.
fn tell(is_under: bool) -> bool {
    let entries = {
        let mut watch = lock(&WATCH);
        watch.entries.retain(|entry| lock(entry).is_some());
        watch.runs = !watch.entries.is_empty();
        watch.entries.clone()
    };
    for entry in &entries {
        // The lock is kept, so that a cache that is dropped meanwhile is not dropped here.
        let open = lock(entry);
        if let Some(shared) = open.as_ref().and_then(Weak::upgrade) {
            shared.adapt(is_under);
        }
    }
    !entries.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_the_own_cgroup_is_found() {
        let mounts = "24 1 0:22 / /proc rw - proc proc rw\n30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
        let path = cgroup_file(mounts, "1:name=systemd:/x\n0::/system.slice/a.service\n").unwrap();
        assert_eq!(path, Path::new("/sys/fs/cgroup/system.slice/a.service/memory.pressure"));
        let root = cgroup_file(mounts, "0::/\n").unwrap();
        assert_eq!(root, Path::new("/sys/fs/cgroup/memory.pressure"));
        assert_eq!(cgroup_file("24 1 0:22 / /proc rw - proc proc rw\n", "0::/\n"), None);
        assert_eq!(cgroup_file(mounts, "4:memory:/x\n"), None);
    }

    #[test]
    fn a_kernel_without_pressure_is_named() {
        let error = open(Path::new("/nowhere/memory.pressure")).unwrap_err();
        assert!(error.contains("/nowhere/memory.pressure"), "{error}");
    }
}
