//! Memory pressure: caches with a least size give memory back while tasks stall on memory, and take it again afterwards.
//!
//! The kernel tells of stalls by PSI (`Documentation/accounting/psi.rst`, Linux 4.20): a file for the machine and one for each
//! cgroup of version 2, which a thread polls. Where the process may only read the file, the thread reads the time stalled every 2 s
//! instead. One thread of the process does it for all caches, and ends when there are none.

use super::cgroup;
use super::shared::Shared;
use crate::sync::{Mutex, lock};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Tasks have stalled on memory for 100 ms within 2 s. Programs without privileges may ask for windows of 2 s only (6.6).
const TRIGGER: &str = "some 100000 2000000";

/// The same for a process that reads the file.
const STALLED: u64 = 100_000;
const INTERVAL: Duration = Duration::from_secs(2);

/// So long without an event a cache takes memory again.
const CALM: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };
/// The same in readings.
const CALM_READINGS: u32 = 5;

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
        let file = open_any()?;
        let builder = std::thread::Builder::new().name("platter-pressure".to_string());
        builder.spawn(move || run(file)).map_err(|error| format!("no thread to watch it: {error}"))?;
        watch.runs = true;
    }
    watch.entries.push(Arc::clone(&entry));
    Ok(Watched(entry))
}

/// The file for the cgroup of this process if there is one, else that for the machine.
fn source() -> PathBuf {
    let own = cgroup::own().map(|own| own.directory.join("memory.pressure"));
    own.filter(|path| path.exists()).unwrap_or_else(|| PathBuf::from(MACHINE))
}

/// How the thread learns of pressure.
enum Pressure {
    /// The kernel tells when tasks have stalled.
    Events(File),
    /// The time stalled is read.
    Readings(Readings),
}

/// Opens the file of the cgroup, or else that of the machine.
fn open_any() -> Result<Pressure, String> {
    let source = source();
    open(&source)
        .or_else(|error| if source == Path::new(MACHINE) { Err(error) } else { open(Path::new(MACHINE)) })
}

/// Opens a file and asks for events if that is allowed.
fn open(path: &Path) -> Result<Pressure, String> {
    let ask = || {
        let mut file = OpenOptions::new().read(true).write(true).open(path)?;
        // With its final zero, as the kernel's documentation asks for.
        file.write_all(format!("{TRIGGER}\0").as_bytes())?;
        Ok(file)
    };
    choose(path, ask())
}

/// Events if the kernel has agreed to them, or else readings.
fn choose(path: &Path, events: std::io::Result<File>) -> Result<Pressure, String> {
    match (events, Readings::open(path)) {
        (Ok(file), _) => Ok(Pressure::Events(file)),
        (Err(_), Some(readings)) => Ok(Pressure::Readings(readings)),
        (Err(error), None) => {
            let file = path.display();
            Err(format!(
                "the kernel does not report memory pressure ({file}: {error}); leave out min_size, or boot with psi=1"
            ))
        }
    }
}

impl Pressure {
    /// Waits for pressure, or until there has been none for a while. Returns whether there was, or `None` if there is nothing to
    /// learn it from any more.
    fn wait(&mut self) -> Option<bool> {
        loop {
            let found = match self {
                Pressure::Events(file) => wait_for_event(file),
                Pressure::Readings(readings) => readings.wait(),
            };
            match found {
                Some(is_under) => return Some(is_under),
                // The cgroup is gone: the process is in another one. The pause keeps a file that fails at once from
                // taking a processor.
                None => {
                    std::thread::sleep(INTERVAL);
                    *self = open_any().ok()?;
                }
            }
        }
    }
}

/// Waits for an event. Returns whether there was one, or `None` if the file is gone.
fn wait_for_event(file: &File) -> Option<bool> {
    loop {
        let mut files = [PollFd::new(file, PollFlags::PRI)];
        match poll(&mut files, Some(&CALM)) {
            Ok(0) => return Some(false),
            Ok(_) => return (!files[0].revents().contains(PollFlags::ERR)).then_some(true),
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

/// The time for which tasks have stalled, read from a file.
struct Readings {
    path: PathBuf,
    /// The last one, in microseconds.
    last: u64,
    /// Readings since one that said that tasks stall.
    calm: u32,
}

impl Readings {
    fn open(path: &Path) -> Option<Readings> {
        let last = stalled(&std::fs::read_to_string(path).ok()?)?;
        Some(Readings { path: path.to_path_buf(), last, calm: 0 })
    }

    /// As [`wait_for_event`].
    fn wait(&mut self) -> Option<bool> {
        loop {
            std::thread::sleep(INTERVAL);
            if let Some(is_under) = self.read()? {
                return Some(is_under);
            }
        }
    }

    /// Reads the file. Returns whether tasks stall if that is so now, or has not been so for a while; `None` outside if the file
    /// is gone.
    fn read(&mut self) -> Option<Option<bool>> {
        let now = stalled(&std::fs::read_to_string(&self.path).ok()?)?;
        let is_under = now.saturating_sub(std::mem::replace(&mut self.last, now)) >= STALLED;
        self.calm = if is_under { 0 } else { self.calm + 1 };
        let is_calm = self.calm == CALM_READINGS;
        if is_calm {
            self.calm = 0;
        }
        Some((is_under || is_calm).then_some(is_under))
    }
}

/// The microseconds for which some tasks have stalled, in the text of such a file.
fn stalled(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    line.split(' ').find_map(|word| word.strip_prefix("total="))?.parse().ok()
}

fn run(mut pressure: Pressure) {
    while let Some(is_under) = pressure.wait() {
        if !tell(is_under) {
            return;
        }
    }
    end();
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
    use crate::readahead::PAGE;
    use crate::{Prefault, Settings};
    use platter_disk::device::Device;

    const MIB: u64 = 1 << 20;

    /// Under pressure a cache that is open becomes smaller, down to its least size, and afterwards as large as it was; with several
    /// shards each of them its part.
    #[test]
    fn a_cache_that_is_open_adapts() {
        let below = Device::null(1 << 30).unwrap();
        for shards in [1, 4] {
            // No thread is started: the test tells.
            lock(&WATCH).runs = true;
            let (size, min_size) = (64 * MIB, 52 * MIB);
            let settings =
                Settings { size, min_size, shards, prefault: Prefault::Off, ..Settings::default() };
            let cache = crate::new(Arc::clone(below.backend()), &settings).unwrap();
            let after = |is_under| {
                assert!(tell(is_under));
                let status = &cache.layers()[0];
                let number = |name| status.number(name).unwrap();
                (number("cache pages") * PAGE / MIB, number("cache squeezed"))
            };
            assert_eq!(after(true), (56, 1), "{shards} shards");
            assert_eq!(after(true), (52, 2), "an eighth less is less than its least size");
            assert_eq!(after(true), (52, 2));
            assert_eq!(after(false), (60, 2));
            assert_eq!(after(false), (64, 2));
            assert_eq!(after(false), (64, 2));
            drop(cache);
            assert!(!tell(true) && !lock(&WATCH).runs, "the thread ends with the last cache");
        }
    }

    #[test]
    fn a_file_that_may_only_be_read_says_when_tasks_stall() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("memory.pressure");
        let says = |total: u64| {
            let text =
                format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={total}\nfull avg10=0.00 total=0\n");
            std::fs::write(&path, text).unwrap();
        };
        says(7);
        let refused = std::io::ErrorKind::PermissionDenied.into();
        let Ok(Pressure::Readings(mut readings)) = choose(&path, Err(refused)) else { panic!("no readings") };
        says(7 + STALLED - 1);
        assert_eq!(readings.read(), Some(None));
        says(7 + 2 * STALLED);
        assert_eq!(readings.read(), Some(Some(true)));
        (1..CALM_READINGS).for_each(|_| assert_eq!(readings.read(), Some(None)));
        assert_eq!(readings.read(), Some(Some(false)));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(readings.read(), None);
    }

    #[test]
    fn a_kernel_without_pressure_is_named() {
        let error = open(Path::new("/nowhere/memory.pressure")).err().unwrap();
        assert!(error.contains("/nowhere/memory.pressure"), "{error}");
        assert!(error.contains("leave out min_size, or boot with psi=1"), "{error}");
    }
}
