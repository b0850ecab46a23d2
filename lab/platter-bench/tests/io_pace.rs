//! Paced jobs in real time: they end when they should, on every kind of device, and no device delays their starts.

use platter_bench::io::{self, Hooks, IoReport};
use platter_bench::workload::{JobOptions, RateProcess, Rw};
use platter_block::disk::FnDisk;
use platter_block::driver::{Completion, Driver, Geometry, Started};
use platter_block::limits::Limits;
use platter_block::time::{Span, Time};
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_disk::open::DiskOptions;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const MIB: u64 = 1 << 20;
/// After this long a run counts as one that never ends.
const ENDLESS: Duration = Duration::from_secs(60);

/// Runs a job; one that does not end fails the test instead of hanging it.
fn run(job: &JobOptions, device: &Device) -> IoReport {
    let cancel = AtomicBool::new(false);
    thread::scope(|scope| {
        let (send, report) = channel();
        let (devices, cancel) = (std::slice::from_ref(device), &cancel);
        scope.spawn(move || {
            // The receiver is dropped only when the test has failed.
            let _ = send.send(io::run(job, devices, 1, Hooks::none(cancel)));
        });
        let report = report.recv_timeout(ENDLESS);
        cancel.store(true, Ordering::Relaxed);
        report.unwrap_or_else(|_| panic!("{} on {device:?} did not end", job.rw)).unwrap()
    })
}

/// A device of each kind, and a file with each driver that there is.
fn devices(dir: &std::path::Path) -> Vec<Device> {
    let file = |name: &str, driver: Option<&str>| {
        let mut options = DiskOptions::read_write();
        options.open.create = Some(MIB);
        if let Some(driver) = driver {
            options.file.driver = driver.parse().unwrap();
        }
        Device::open(dir.join(name), options).ok()
    };
    let files =
        [("uring", Some("uring")), ("aio", Some("aio")), ("threads", Some("threads")), ("auto", None)];
    let memory = [Device::null(MIB).unwrap(), Device::ram(MIB).unwrap()];
    let elevated = Device::null(MIB).unwrap();
    elevated.set_elevator("deadline").unwrap();
    let files = files.into_iter().filter_map(|(name, driver)| file(name, driver));
    memory.into_iter().chain([elevated]).chain(files).collect()
}

#[test]
fn a_job_ends_although_its_next_start_lies_beyond_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let devices = devices(dir.path());
    assert!(devices.len() > 4, "{devices:?}");
    for device in devices {
        let runtime = Duration::from_millis(25);
        let brief = JobOptions {
            rw: Rw::RandRead,
            iodepth: 4,
            runtime: Some(runtime),
            time_based: true,
            ..JobOptions::default()
        };
        let paced = JobOptions { rate_iops: Some(1), ..brief.clone() };
        let report = run(&paced, &device);
        assert_eq!((report.ios, report.errors(), report.partial), (1, 0, false), "{device:?}");
        assert!(report.wall >= runtime, "{device:?} {:?}", report.wall);
        let ramped = JobOptions { ramp_time: runtime, ..paced.clone() };
        let report = run(&ramped, &device);
        assert_eq!((report.ramp_ios, report.ios), (1, 0), "{device:?}");
        let poisson = JobOptions { rate_process: RateProcess::Poisson, ..paced };
        assert_eq!(run(&poisson, &device).errors(), 0);
        let hour = Duration::from_secs(3600);
        let thinking = JobOptions { thinktime: hour, iodepth: 1, ..brief };
        assert_eq!(run(&thinking, &device).ios, 1, "{device:?}");
    }
}

/// The requests that a [`Stalling`] disk got.
#[derive(Default)]
struct Asked {
    held: Vec<(u32, u64)>,
    ready: Vec<(u32, u64)>,
    /// A wait had no limit while the disk held everything.
    waited_for_ever: bool,
}

/// A disk that completes nothing until it has this many bytes in flight. Starts that are due at the same time
/// may be merged.
struct Stalling {
    asked: Arc<Mutex<Asked>>,
    until: u64,
}

impl Driver for Stalling {
    fn queue(&mut self, _now: Time, request: &Started<'_>) -> bool {
        let mut asked = self.asked.lock().unwrap();
        asked.held.push((request.tag, request.len));
        if asked.held.iter().map(|&(_, len)| len).sum::<u64>() == self.until {
            let held = std::mem::take(&mut asked.held);
            asked.ready.extend(held);
        }
        true
    }

    fn submit(&mut self, _now: Time) {}

    fn reap(&mut self, _now: Time, done: &mut Vec<Completion>) {
        let ready = std::mem::take(&mut self.asked.lock().unwrap().ready);
        done.extend(ready.into_iter().map(|(tag, len)| Completion { tag, result: len as i64 }));
    }

    fn wait(&mut self, _now: Time, timeout: Option<Span>) {
        let mut asked = self.asked.lock().unwrap();
        if !asked.ready.is_empty() {
            return;
        }
        // With a limit: back before it has passed, which a driver may be.
        if timeout.is_none() {
            asked.waited_for_ever = true;
            let held = std::mem::take(&mut asked.held);
            asked.ready.extend(held);
        }
    }
}

/// An open loop starts I/Os that are due even if none completes.
#[test]
fn a_stalled_device_does_not_delay_the_starts() {
    let asked = Arc::new(Mutex::new(Asked::default()));
    let shared = Arc::clone(&asked);
    let disk = FnDisk::new("stalling", Geometry::new(MIB, Limits::unlimited(512)), move |_| {
        Ok(Box::new(Stalling { asked: Arc::clone(&shared), until: 6 * 4096 }))
    });
    let device = Device::from_disk(disk, DiskSettings::default(), None).unwrap();
    // The last of the six starts 40 ms after the first, beyond every slice between two looks at the cancel flag.
    let job = JobOptions { rate_iops: Some(125), iodepth: 6, number_ios: Some(6), ..JobOptions::default() };
    let report = run(&job, &device);
    assert_eq!((report.ios, report.errors()), (6, 0));
    assert!(!asked.lock().unwrap().waited_for_ever, "a start was due, and the job waited for a completion");
}
