//! One round: a device on real files, threads that use it, and the checks at the end.

use super::RealOptions;
use super::judge::{Judge, Live};
use super::late::LateFile;
use super::script::{Script, Scripted};
use super::shared::{Counts, Round};
use super::worker;
use crate::soak::feature::{Feature, Features};
use crate::soak::plan::Node;
use platter_block::backend::Backend;
use platter_block::bio::{Flags, Op};
use platter_block::disk::{BlockingFlush, Disk, FnDisk};
use platter_block::driver::Driver;
use platter_block::fault::{Error, Fault, Kind, Stage};
use platter_block::queue::Settings;
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::disk_backend::{DiskBackend, DiskSettings};
use platter_disk::drivers::{Choice, FileDisk, FileDriver, FileOptions};
use platter_disk::sys::{Direct, OpenOptions};
use platter_sim::rng::Rng;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Time limit for each action of a round. Stuck requests are released within a second, and barriers, and I/O that waits for a late change,
/// wait for a lane that is not run for `barrier_timeout`, 3 s here, perhaps several in the script of one thread.
const LONGEST: Duration = Duration::from_secs(60);

/// Bytes of a file.
const SIZE: u64 = 512 << 10;

/// Why a round failed.
pub(super) enum Failure {
    /// The driver is not available.
    Unavailable(String),
    /// The files cannot be created.
    Setup(String),
    Found(Counts, String),
}

/// A file that is removed in the end, or a block device.
struct Place {
    path: PathBuf,
    temporary: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.temporary {
            // It may be gone already.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// A third of the rounds have one disk without an elevator and a timeout: only there are flushes made on the threads of their
/// callers.
fn is_plain(rng: &mut Rng) -> bool {
    rng.below(3) == 0
}

fn places(options: &RealOptions, rng: &mut Rng, plain: bool) -> Result<Vec<Place>, Failure> {
    static NAMES: AtomicU64 = AtomicU64::new(0);
    let meta = std::fs::metadata(&options.place);
    let meta = meta.map_err(|error| Failure::Setup(format!("{}: {error}", options.place.display())))?;
    if !meta.is_dir() {
        return Ok(vec![Place { path: options.place.clone(), temporary: false }]);
    }
    let name = |_| {
        let number = NAMES.fetch_add(1, Ordering::Relaxed);
        let path = options.place.join(format!("platter-soak-{}-{number}", std::process::id()));
        Place { path, temporary: true }
    };
    let more = u64::from(!plain && rng.below(2) == 0);
    Ok((0..1 + more).map(name).collect())
}

/// Fills the part of a device that is used with zeroes, which is what the oracle expects at first.
fn zero(path: &Path) -> std::io::Result<()> {
    use std::io::Write;
    let mut file = std::fs::OpenOptions::new().write(true).open(path)?;
    file.write_all(&vec![0; SIZE as usize])?;
    file.sync_all()
}

fn open(path: &Path, temporary: bool, driver: FileDriver, rng: &mut Rng) -> Result<Arc<FileDisk>, Failure> {
    let mut options = OpenOptions::read_write();
    // Some files end in the middle of a block.
    let size = SIZE + if rng.below(4) == 0 { rng.below(4096) } else { 0 };
    options.create = temporary.then_some(size);
    options.direct = if rng.below(4) == 0 { Direct::Off } else { Direct::Prefer };
    let opened = options.open(path).map_err(|error| Failure::Setup(error.to_string()))?;
    let file = FileOptions::default().with_driver(Choice::Only(driver)).with_depth(32);
    let disk = FileDisk::new(opened, file).map_err(|error| Failure::Unavailable(error.to_string()))?;
    Ok(Arc::new(disk))
}

fn settings(rng: &mut Rng, without: Features, plain: bool) -> DiskSettings {
    let limited = rng.below(3) > 0 && !plain && !without.has(Feature::Timeouts);
    let queue = Settings {
        depth: 2 + rng.below(30) as u32,
        nr_requests: 4 + rng.below(40) as u32,
        timeout: limited.then(|| Span::from_millis(rng.pick(&[20, 100, 300]))),
        slow_timeout: limited.then(|| Span::from_millis(rng.pick(&[50, 300]))).filter(|_| rng.below(2) == 0),
        abort_grace: rng.pick(&[None, Some(Span::from_millis(20)), Some(Span::from_millis(200))]),
        // Some threads block for as long as this, so a round must not take it too often.
        barrier_timeout: Span::from_secs(3),
        ..Settings::default()
    };
    DiskSettings::default().with_queue(queue)
}

fn backend(
    disk: &Arc<FileDisk>,
    script: &Arc<Script>,
    rng: &mut Rng,
    (without, plain): (Features, bool),
) -> Result<Arc<dyn Backend>, Failure> {
    let name: Arc<str> = Arc::from(disk.disk().path.to_string_lossy());
    let (channels, script, tells) = (Arc::clone(disk), Arc::clone(script), rng.below(2) == 0);
    let faults = Arc::clone(&script);
    let flush =
        disk.blocking_flush().map(|flush| Arc::new(move |now| faults.flush(&flush, now)) as BlockingFlush);
    let closed = Arc::clone(&name);
    let rows = platter_elevators::TABLE;
    let elevator =
        (!plain && rng.below(2) == 0).then(|| (rows[rng.below(rows.len() as u64) as usize].make)());
    let disk = FnDisk::new(&name, *disk.geometry(), move |lane_use| {
        let channel = channels.channel(lane_use).map_err(|error| Error {
            fault: Fault::new(Kind::Gone, Stage::Driver),
            op: Op::Read,
            device: Arc::clone(&closed),
            offset: 0,
            len: 0,
            detail: error.to_string(),
        })?;
        Ok(Box::new(Scripted::new(channel, &script, tells)) as Box<dyn Driver>)
    })
    .with_blocking_flush(flush);
    Ok(Arc::new(
        DiskBackend::new(disk, settings(rng, without, plain), elevator)
            .map_err(|error| Failure::Unavailable(error.to_string()))?,
    ))
}

/// Makes the device of a round. From then on only the device keeps its disks, so that closing it closes them.
fn make(
    options: &RealOptions,
    driver: FileDriver,
    (places, plain): (&[Place], bool),
    rng: &mut Rng,
) -> Result<(Device, Node, Vec<Arc<Script>>), Failure> {
    let (mut disks, mut scripts, mut parts) = (Vec::new(), Vec::new(), Vec::new());
    for place in places {
        // Of a device as much is used, and overwritten, as of a file.
        parts.push((!place.temporary).then_some((0, SIZE / 512)));
        let disk = open(&place.path, place.temporary, driver, rng)?;
        if !place.temporary {
            // Only now, after devices that must not be overwritten have been refused.
            zero(&place.path)
                .map_err(|error| Failure::Setup(format!("{}: {error}", place.path.display())))?;
        }
        let block = disk.geometry().limits.logical_block;
        let late = LateFile::open(&place.path, disk.disk().direct).ok();
        let script = Arc::new(Script::new(rng.bits(), late, block, options.without));
        disks.push(backend(&disk, &script, rng, (options.without, plain))?);
        scripts.push(script);
    }
    let on = [Feature::Layers, Feature::Arrays, Feature::Cache]
        .into_iter()
        .fold(Features::default(), Features::and);
    let stack = Node::over(rng, on.without(options.without), &parts);
    let backend = stack.build(&disks).map_err(Failure::Setup)?;
    Ok((Device::new(backend), stack, scripts))
}

/// Whether any disk may be failed because it does not answer.
fn may_fail(backend: &dyn Backend) -> bool {
    let limited = [Op::Read, Op::Flush].into_iter().any(|op| backend.timeout(op).is_some());
    limited || backend.below().iter().any(|below| may_fail(&**below))
}

/// A round from its beginning to its end.
pub(super) fn round(options: &RealOptions, driver: FileDriver, rng: &mut Rng) -> Result<Counts, Failure> {
    let plain = is_plain(rng);
    let places = places(options, rng, plain)?;
    let (device, stack, scripts) = make(options, driver, (&places, plain), rng)?;
    let judge = Judge::new(true, stack.has("cache"), may_fail(&**device.backend()));
    let alive = Arc::new(AtomicU64::new(0));
    let discards = rng.below(2) == 0;
    let (ios, without, failures) = (options.ios, options.without, stack.failures());
    let round = Round { device, judge, scripts, alive: Arc::clone(&alive), ios, discards, failures, without };
    let round = Arc::new(round);
    let result = live(&round, options.threads, rng.bits());
    let counts = round.counts();
    let result = result.and_then(|()| round.judge.found().map_or(Ok(()), Err));
    result.map_err(|what| Failure::Found(counts, format!("{stack}: {what}")))?;
    end(round, &alive).map_err(|what| Failure::Found(counts, format!("{stack}: {what}")))?;
    Ok(counts)
}

/// Calls `act` on a separate thread, which may never return.
fn within<T: Send + 'static>(what: &str, act: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    let (send, receive) = mpsc::channel();
    let body = move || {
        let _ = send.send(act());
    };
    let named = std::thread::Builder::new().name("real soak".to_owned());
    let _ = named.spawn(body).map_err(|error| format!("no thread can be started: {error}"))?;
    receive.recv_timeout(LONGEST).map_err(|_| format!("{what} did not end within {} s", LONGEST.as_secs()))
}

/// Runs the threads while the script injects faults, then checks that everything works without faults.
fn live(round: &Arc<Round>, threads: usize, seed: u64) -> Result<(), String> {
    let (send, receive) = mpsc::channel();
    for number in 0..threads as u64 {
        let (round, send) = (Arc::clone(round), send.clone());
        let body = move || {
            worker::work(&round, Rng::stream(seed, number));
            // Before the end is reported: the last reference closes the device.
            drop(round);
            let _ = send.send(());
        };
        let named = std::thread::Builder::new().name(format!("real soak {number}"));
        let _ = named.spawn(body).map_err(|error| format!("no thread can be started: {error}"))?;
    }
    for _ in 0..threads {
        receive.recv_timeout(LONGEST).map_err(|_| {
            let (left, one) = round.judge.under_way();
            format!(
                "a thread did not end within {} s; {left} I/Os are under way, such as {one:?}",
                LONGEST.as_secs()
            )
        })?;
    }
    round.scripts.iter().for_each(|script| script.end());
    let shared = Arc::clone(round);
    within("I/O on a device with which nothing is wrong", move || works(&shared))?
}

/// Whether a busy machine explains this error even after the script has ended: a disk may keep requests for longer than
/// its short timeout, and no number of tries bounds how long. If a request is never returned, the time limit of the
/// whole check reports it.
fn is_slow(fault: Fault) -> bool {
    let failed = fault.kind == Kind::Gone && fault.stage == Stage::Queue;
    failed || matches!(fault.kind, Kind::Unsettled | Kind::TimedOut)
}

/// Checks that the device works without faults.
fn works(round: &Round) -> Result<(), String> {
    let device = &round.device;
    device.acknowledge_flush_failure();
    // A cache reports an earlier error to each handle once and retries; layers `error` may have failures left.
    let mut tries = 20 + round.failures;
    while let Err(error) = device.flush() {
        if is_slow(error.fault) {
            std::thread::yield_now();
        } else if tries == 0 {
            return Err(format!("a flush fails on a device with which nothing is wrong: {error}"));
        } else {
            tries -= 1;
        }
        device.acknowledge_flush_failure();
    }
    let block = u64::from(device.geometry().limits.logical_block);
    let sectors = device.size() / 512;
    let mut failures = round.failures;
    for sector in (0..sectors).step_by((block / 512) as usize * 8) {
        let live =
            Live { op: Op::Read, sector, count: (sectors - sector).min(block / 512 * 8), flags: Flags::NONE };
        read_back(round, live, &mut failures)?;
    }
    Ok(())
}

/// Reads a range and has the data judged. Layers `error` may fail this many reads more, which are tried again.
fn read_back(round: &Round, live: Live, failures: &mut u64) -> Result<(), String> {
    let mut data = vec![0; live.count as usize * 512];
    loop {
        let number = round.judge.number();
        round.judge.submit(number, live);
        let read = round.device.read_at(&mut data, live.sector * 512);
        let status = read.as_ref().map_err(|error| error.fault).copied();
        round.judge.complete(number, status, Some(&data));
        match read {
            Ok(()) => return Ok(()),
            Err(error) if is_slow(error.fault) => std::thread::yield_now(),
            Err(error) if error.fault.kind == Kind::Io && *failures > 0 => *failures -= 1,
            Err(error) => {
                return Err(format!("a read fails on a device with which nothing is wrong: {error}"));
            }
        }
    }
}

/// Closes the device and checks that all memory is released: by this thread, or by one that was about to release it
/// (the service thread, or one that waits for a disk that was too slow for the close).
fn end(round: Arc<Round>, alive: &AtomicU64) -> Result<(), String> {
    within("closing the device", move || drop(round))?;
    let closed = Instant::now();
    loop {
        match alive.load(Ordering::Relaxed) {
            0 => return Ok(()),
            left if closed.elapsed() >= LONGEST => {
                return Err(format!("the memory of {left} I/Os was never freed"));
            }
            _ => std::thread::yield_now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(place: &Path, ios: u64) -> RealOptions {
        let (place, drivers, without) = (place.to_owned(), vec![FileDriver::Threads], Features::default());
        RealOptions { place, drivers, seed: 1, rounds: 1, time: None, threads: 3, ios, without }
    }

    /// Otherwise what is queued there outlives the device.
    #[test]
    fn only_the_device_keeps_its_disks() {
        let dir = tempfile::tempdir().unwrap();
        for seed in 0..20 {
            let (options, mut rng) = (options(dir.path(), 0), Rng::new(seed));
            let Ok(places) = places(&options, &mut rng, false) else { panic!("no place") };
            let Ok((device, stack, scripts)) =
                make(&options, FileDriver::Threads, (&places, false), &mut rng)
            else {
                panic!("no device")
            };
            drop(device);
            assert!(scripts.iter().all(|script| Arc::strong_count(script) == 1), "{stack}");
        }
    }

    /// Otherwise a round ends before its device is closed.
    #[test]
    fn no_thread_keeps_the_device_after_its_end() {
        let dir = tempfile::tempdir().unwrap();
        for seed in 0..20 {
            let (options, mut rng) = (options(dir.path(), 0), Rng::new(seed));
            let Ok(places) = places(&options, &mut rng, false) else { panic!("no place") };
            let Ok((device, _, scripts)) = make(&options, FileDriver::Threads, (&places, false), &mut rng)
            else {
                panic!("no device")
            };
            let (judge, without) = (Judge::new(true, false, true), Features::default());
            let (alive, failures) = (Arc::default(), 100);
            let round = Round { device, judge, scripts, alive, ios: 0, discards: false, failures, without };
            let round = Arc::new(round);
            live(&round, 3, seed).unwrap();
            assert_eq!(Arc::strong_count(&round), 1);
        }
    }

    /// The threads do not use up the failures of layers `error`.
    #[test]
    fn failures_of_layers_may_come_after_the_threads() {
        let dir = tempfile::tempdir().unwrap();
        let options = options(dir.path(), 0);
        for seed in 0..60 {
            match round(&options, FileDriver::Threads, &mut Rng::new(seed)) {
                Ok(_) => {}
                Err(Failure::Found(_, what)) => panic!("seed {seed}: {what}"),
                Err(Failure::Setup(what) | Failure::Unavailable(what)) => panic!("{what}"),
            }
        }
    }
}
