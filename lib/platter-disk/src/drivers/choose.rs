//! Chooses the driver of a file: the requested one, or the first that works here.

use crate::sys::SysError;
use platter_block::allocation::Extent;
use platter_block::backend::LaneUse;
use platter_block::bio::Bio;
use platter_block::counters::Counters;
use platter_block::driver::Driver;
use platter_block::lane::Lane;
use platter_block::queue::{QueueLane, SchedQueue, Settings};
use platter_block::text::excerpt;
use platter_block::time::Span;
use std::cell::Cell;
use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use super::aio::Aio;
use super::file::FileOptions;
use super::file_target::Target;
use super::threads::{Threads, Workers, can_avoid_blocking};
use super::unavailable::{Unavailable, remembered};
use super::uring::{Abilities, Uring, UringOptions};
use crate::pool::{PAGE, Pool};
use crate::wake::ArmedDoorbell;

/// Largest depth of a channel: half of the entries that a ring may have.
pub(super) const MAX_DEPTH: u32 = 16384;

/// How often a trial looks for its completion if nothing wakes it.
const LOOK: Span = Span::from_millis(10);

/// Environment variable that names drivers not to use, separated by commas: for tests, and for machines where a
/// driver is present but does not work.
pub const WITHOUT: &str = "PLATTER_WITHOUT_DRIVERS";

/// A driver of files and block devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileDriver {
    /// io_uring.
    Uring,
    /// Linux native AIO.
    Aio,
    /// Blocking calls in a pool of threads.
    Threads,
}

impl FileDriver {
    /// All drivers, in the order in which they are tried.
    pub const ALL: [FileDriver; 3] = [FileDriver::Uring, FileDriver::Aio, FileDriver::Threads];

    /// Its name in the table of drivers.
    pub const fn name(self) -> &'static str {
        match self {
            FileDriver::Uring => "uring",
            FileDriver::Aio => "aio",
            FileDriver::Threads => "threads",
        }
    }
}

impl fmt::Display for FileDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The requested driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// The first of [`FileDriver::ALL`] that works.
    #[default]
    Auto,
    /// This driver or none.
    Only(FileDriver),
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Choice, String> {
        if text == "auto" {
            return Ok(Choice::Auto);
        }
        let found = FileDriver::ALL.into_iter().find(|driver| driver.name() == text);
        found.map(Choice::Only).ok_or_else(|| {
            format!(
                "there is no driver \"{}\" for files and block devices: give auto, uring, aio or threads",
                excerpt(text, 60)
            )
        })
    }
}

/// The result of a choice.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Chosen {
    /// The driver.
    pub kind: FileDriver,
    /// Why no earlier driver was chosen, in one line.
    pub why_fell_back: Option<String>,
    /// The driver of lanes that several threads submit to (the lane that futures share, and the one of an elevator,
    /// of flushes and of barriers). `uring` ties requests to the thread that submitted them: they wait while it is
    /// blocked in the kernel, and some fail when it exits. These lanes therefore use `aio`, or `threads` if that is
    /// unavailable or the page cache is used; they use `uring` only with `sqpoll`, where a thread of the kernel
    /// submits.
    pub shared: FileDriver,
    /// Why shared lanes use `threads`, in one line.
    pub why_shared_threads: Option<String>,
}

/// Chooses a driver by trying to open a channel of each allowed driver until one opens.
pub(super) fn choose(
    target: &Arc<Target>,
    options: &FileOptions,
    pool: &Arc<Workers>,
) -> Result<Chosen, SysError> {
    let without = std::env::var(WITHOUT).unwrap_or_default();
    let cached = target.is_cached();
    let chosen = decide(options.driver, !cached, &without, |kind| match kind {
        FileDriver::Uring if options.driver == Choice::Auto && !can_avoid_blocking(target) => {
            Err("the device cannot be asked not to block, so each I/O would go through a kernel thread"
                .into())
        }
        FileDriver::Uring => uring_abilities().map_err(|no| no.why).and_then(|_| {
            let (disk, pool) = (Arc::clone(target), Arc::clone(pool));
            let trial = Uring::new(disk, options.depth, uring_options(options, LaneUse::Synchronous), pool);
            let trial = trial.map_err(|e| explain_uring(&e))?;
            if options.iopoll { try_polling(trial, target) } else { Ok(()) }
        }),
        FileDriver::Aio => {
            let trial = Aio::new(Arc::clone(target), options.depth, Arc::clone(pool));
            trial.map(drop).map_err(|e| explain_aio(&e))
        }
        FileDriver::Threads => Ok(()),
    });
    let (kind, why_fell_back) = chosen.map_err(|why| {
        let help = "use driver=auto, which takes the best one that works here";
        SysError::new("drive", &target.disk.path, why, help)
    })?;
    let (shared, why_shared_threads) =
        share(kind, options.sqpoll, cached, || match named(&without, FileDriver::Aio) {
            true => Err(format!("{WITHOUT} names aio")),
            false => super::aio::probe().map_err(|e| explain_aio(&e)),
        });
    Ok(Chosen { kind, why_fell_back, shared, why_shared_threads })
}

/// Whether a polling ring works. It can be opened over any device, but where the device has no queues for polling all reads
/// and writes fail. What the kernel does not tell, a read of one page finds out; nothing can be read of a hole.
fn try_polling(ring: Uring, target: &Target) -> Result<(), String> {
    let fail = |why: &str| {
        let needs = "iopoll=on needs direct I/O on a device with queues for polling (NVMe: nvme.poll_queues)";
        Err(format!("{needs}, and {why}"))
    };
    if target.is_cached() {
        return fail("the page cache is used here");
    }
    if let Some(kernel) = target.disk.probe.kernel.as_ref().filter(|kernel| kernel.io_poll == Some(false)) {
        return fail(&format!("{} has none", kernel.disk.as_deref().unwrap_or("the device")));
    }
    let geometry = super::file::geometry(&target.disk);
    let block = geometry.limits.logical_block.max(geometry.limits.length_align);
    let len = PAGE.max(block as usize);
    let buffer = Pool::new(1, len, len).ok().and_then(|pool| pool.take());
    // Without memory, or on a disk without a whole page, nothing can be found out.
    let Some(buffer) = buffer.filter(|_| geometry.size >= len as u64) else { return Ok(()) };
    let first = if target.is_block { None } else { target.disk.allocation(0, geometry.size).ok() };
    let hole = first.filter(Extent::is_hole);
    let pos = hole.map_or(0, |hole| hole.end() / len as u64 * len as u64);
    if pos + len as u64 > geometry.size {
        return Ok(());
    }
    let Ok(bio) = Bio::read(pos, buffer) else { return Ok(()) };
    let settings = Settings { depth: 1, ..Settings::default() };
    let queue = SchedQueue::new(geometry, settings, None, Arc::new(Counters::default()));
    let mut lane = QueueLane::new(queue, ring);
    lane.submit(crate::clock::now(), bio);
    let mut done = Vec::new();
    while done.is_empty() {
        let now = crate::clock::now();
        lane.run(now);
        lane.take_done(&mut done);
        if done.is_empty() {
            lane.wait(now, Some(LOOK));
        }
    }
    match done[0].status() {
        Err(fault) if [libc::EINVAL, libc::EOPNOTSUPP].contains(&fault.errno()) => {
            fail(&format!("reads fail here (errno {})", fault.errno()))
        }
        // Another error is one of the disk.
        _ => Ok(()),
    }
}

/// The driver of shared lanes, and if it is `threads` besides another driver, the reason.
fn share(
    kind: FileDriver,
    sqpoll: bool,
    cached: bool,
    aio: impl FnOnce() -> Result<(), String>,
) -> (FileDriver, Option<String>) {
    match kind {
        FileDriver::Threads => (FileDriver::Threads, None),
        FileDriver::Uring if sqpoll => (FileDriver::Uring, None),
        _ if cached => (FileDriver::Threads, Some("submitting I/O through the page cache blocks".to_owned())),
        FileDriver::Aio => (FileDriver::Aio, None),
        FileDriver::Uring => match aio() {
            Ok(()) => (FileDriver::Aio, None),
            Err(why) => (FileDriver::Threads, Some(why)),
        },
    }
}

/// Whether a list of drivers not to use contains this one.
fn named(without: &str, kind: FileDriver) -> bool {
    without.split(',').any(|name| name.trim() == kind.name())
}

fn decide(
    choice: Choice,
    direct: bool,
    without: &str,
    works: impl Fn(FileDriver) -> Result<(), String>,
) -> Result<(FileDriver, Option<String>), String> {
    let works = |kind: FileDriver| match named(without, kind) {
        true => Err(format!("{WITHOUT} names it")),
        false => works(kind),
    };
    let mut reasons = Vec::new();
    for kind in FileDriver::ALL {
        match choice {
            Choice::Only(only) if only != kind => continue,
            // Submitting such I/O blocks, so threads are the right driver.
            Choice::Auto if kind == FileDriver::Aio && !direct => {
                reasons.push("no aio: the file is not open for direct I/O".to_owned());
                continue;
            }
            _ => {}
        }
        match works(kind) {
            Ok(()) => {
                let why_fell_back = (!reasons.is_empty()).then(|| reasons.join("; "));
                return Ok((kind, why_fell_back));
            }
            Err(why) => reasons.push(format!("no {kind}: {why}")),
        }
    }
    Err(reasons.join("; "))
}

/// Chooses the driver of a channel for descriptors.
///
/// # Errors
/// The system's error if one of its resources has run out, so that a later call may succeed; otherwise the reason in
/// words, as [`io::ErrorKind::Unsupported`].
pub(super) fn choose_for_descriptors(choice: Choice) -> io::Result<FileDriver> {
    let without = std::env::var(WITHOUT).unwrap_or_default();
    let shortage = Cell::new(None);
    let chosen = decide(choice, true, &without, |kind| match kind {
        FileDriver::Uring => uring_abilities().map(drop).map_err(|no| {
            shortage.set(no.shortage());
            no.why
        }),
        FileDriver::Aio => Err("its submission blocks on all descriptors but those for direct I/O".into()),
        FileDriver::Threads => Ok(()),
    });
    match (chosen, shortage.get()) {
        (Ok((kind, _)), _) => Ok(kind),
        (Err(_), Some(errno)) => Err(io::Error::from_raw_os_error(errno)),
        (Err(why), None) => Err(io::Error::new(io::ErrorKind::Unsupported, why)),
    }
}

/// Opens a channel of a driver.
pub(super) fn open(
    chosen: &Chosen,
    target: &Arc<Target>,
    options: &FileOptions,
    lane_use: LaneUse,
    pool: &Arc<Workers>,
) -> Result<Box<dyn Driver>, SysError> {
    let path = target.disk.path.clone();
    let fail = |why: String| SysError::new("open another channel to", path, why, "close some, or use fewer");
    let shared = lane_use == LaneUse::Shared;
    let kind = if shared { chosen.shared } else { chosen.kind };
    let (disk, depth, workers) = (Arc::clone(target), options.depth, Arc::clone(pool));
    match kind {
        FileDriver::Uring => match Uring::new(disk, depth, uring_options(options, lane_use), workers) {
            Ok(channel) => Ok(Box::new(channel)),
            Err(e) => Err(fail(explain_uring(&e))),
        },
        FileDriver::Aio => {
            let channel = Aio::new(disk, depth, workers);
            let watched = |aio: Aio| if shared { aio.prepare_watch().map(|()| aio) } else { Ok(aio) };
            match channel.and_then(watched) {
                Ok(channel) => Ok(Box::new(channel)),
                // All of the system's AIO events are in use at the moment, or there is no descriptor.
                Err(_) if chosen.kind != FileDriver::Aio => threads(target, depth, pool).map_err(fail),
                Err(e) => Err(fail(explain_aio(&e))),
            }
        }
        FileDriver::Threads => threads(target, depth, pool).map_err(fail),
    }
}

fn threads(target: &Arc<Target>, depth: u32, pool: &Arc<Workers>) -> Result<Box<dyn Driver>, String> {
    let wake = ArmedDoorbell::opened().map_err(|error| error.to_string())?;
    Ok(Box::new(Threads::new(Arc::clone(target), depth, Arc::clone(pool), Arc::new(wake))))
}

fn uring_options(options: &FileOptions, lane_use: LaneUse) -> UringOptions {
    UringOptions {
        exclusive: lane_use == LaneUse::Exclusive,
        waits: lane_use == LaneUse::Synchronous,
        sqpoll: options.sqpoll,
        iopoll: options.iopoll,
    }
}

/// Whether this process may use io_uring at all, and what the kernel supports; determined once, except that a shortage
/// of descriptors or memory is not remembered.
pub(super) fn uring_abilities() -> Result<Abilities, Unavailable> {
    static FOUND: OnceLock<Result<Abilities, Unavailable>> = OnceLock::new();
    remembered(&FOUND, || {
        super::uring::probe().map_err(|e| Unavailable { why: explain_uring(&e), errno: e.raw_os_error() })
    })
}

fn explain_uring(error: &io::Error) -> String {
    let sysctl = read("/proc/sys/kernel/io_uring_disabled");
    match (error.raw_os_error(), sysctl.as_deref()) {
        (Some(libc::ENOSYS), _) => "this kernel has no io_uring".into(),
        (Some(libc::EPERM), Some("2")) => "kernel.io_uring_disabled is 2, which forbids io_uring".into(),
        (Some(libc::EPERM), Some("1")) => {
            "kernel.io_uring_disabled is 1, and this process is not in kernel.io_uring_group".into()
        }
        (Some(libc::EPERM | libc::EACCES), _) => {
            "io_uring is forbidden here (containers do so with a seccomp filter)".into()
        }
        (Some(libc::ENOMEM), _) => "the limit on locked memory (ulimit -l) is used up".into(),
        _ => format!("io_uring: {error}"),
    }
}

fn explain_aio(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOSYS) => "this kernel has no native AIO".into(),
        Some(libc::EPERM) => "native AIO is forbidden here (perhaps by a seccomp filter)".into(),
        Some(libc::EAGAIN) => {
            let value = |name| read(&format!("/proc/sys/fs/{name}")).unwrap_or_else(|| "?".into());
            format!(
                "fs.aio-nr is {} of fs.aio-max-nr {}: raise the latter",
                value("aio-nr"),
                value("aio-max-nr")
            )
        }
        _ => format!("native AIO: {error}"),
    }
}

fn read(path: &str) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(name: FileDriver) -> impl Fn(FileDriver) -> Result<(), String> {
        move |kind| if kind == name { Ok(()) } else { Err("broken".into()) }
    }

    #[test]
    fn auto_takes_the_first_that_works_and_says_why() {
        let first = decide(Choice::Auto, true, "", |_| Ok(())).unwrap();
        assert_eq!(first, (FileDriver::Uring, None));
        let second = decide(Choice::Auto, true, "", only(FileDriver::Aio)).unwrap();
        assert_eq!((second.0, second.1.as_deref()), (FileDriver::Aio, Some("no uring: broken")));
        let third = decide(Choice::Auto, true, "", only(FileDriver::Threads)).unwrap();
        assert_eq!(third.1.as_deref(), Some("no uring: broken; no aio: broken"));
    }

    #[test]
    fn auto_does_not_take_aio_for_buffered_io() {
        let chosen = decide(Choice::Auto, false, "uring", |_| Ok(())).unwrap();
        assert_eq!(chosen.0, FileDriver::Threads);
        let asked = decide(Choice::Only(FileDriver::Aio), false, "", |_| Ok(())).unwrap();
        assert_eq!(asked, (FileDriver::Aio, None));
    }

    #[test]
    fn drivers_named_in_the_environment_are_not_used() {
        let chosen = decide(Choice::Auto, true, "uring, aio", |_| Ok(())).unwrap();
        assert_eq!(chosen.0, FileDriver::Threads);
        assert!(decide(Choice::Auto, true, "uring,aio,threads", |_| Ok(())).is_err());
    }

    #[test]
    fn a_driver_asked_for_by_name_is_not_replaced() {
        let why = decide(Choice::Only(FileDriver::Uring), true, "", only(FileDriver::Threads)).unwrap_err();
        assert_eq!(why, "no uring: broken");
        assert_eq!("aio".parse(), Ok(Choice::Only(FileDriver::Aio)));
        assert_eq!("auto".parse(), Ok(Choice::Auto));
        assert!("ring".parse::<Choice>().unwrap_err().contains("uring, aio or threads"));
    }

    #[test]
    fn shared_lanes_are_not_on_rings_that_a_thread_of_the_program_submits_to() {
        use FileDriver::{Aio, Threads, Uring};
        let of = |kind, sqpoll, cached, aio: Result<(), String>| share(kind, sqpoll, cached, || aio).0;
        assert_eq!(of(Uring, false, false, Ok(())), Aio);
        assert_eq!(of(Uring, false, false, Err("used up".into())), Threads);
        assert_eq!(of(Uring, false, true, Ok(())), Threads);
        assert_eq!(of(Uring, true, true, Ok(())), Uring);
        assert_eq!((of(Aio, false, false, Ok(())), of(Aio, false, true, Ok(()))), (Aio, Threads));
        let (_, why) = share(Uring, false, false, || Err("used up".into()));
        assert_eq!(why.as_deref(), Some("used up"));
        assert_eq!(share(Threads, false, true, || Ok(())), (Threads, None));
    }

    #[test]
    fn reasons_say_what_to_do() {
        let of = |errno| io::Error::from_raw_os_error(errno);
        assert!(explain_uring(&of(libc::ENOMEM)).contains("ulimit -l"));
        assert!(explain_uring(&of(libc::ENOSYS)).contains("no io_uring"));
        assert!(explain_aio(&of(libc::EAGAIN)).contains("fs.aio-max-nr"));
    }
}
