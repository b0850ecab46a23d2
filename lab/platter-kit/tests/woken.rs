//! A bio that a thread leaves to one that has been woken is handed to the disk.

use platter_block::disk::FnDisk;
use platter_block::driver::{Completion, Driver, Geometry, Started};
use platter_block::limits::Limits;
use platter_block::time::{Span, Time};
use platter_disk::device::Device;
use platter_disk::disk_backend::{DiskBackend, DiskSettings};
use platter_elevators::by_name;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Callers whose first read the disk keeps, so that it has work all the time.
const KEPT: u64 = 20;
/// Callers that read once, and those that read twice.
const ONCE: u64 = 4;
const TWICE: u64 = 2;
const CALLERS: u64 = KEPT + ONCE + TWICE;
/// Distance between the blocks of the callers, so that nothing merges.
const APART: u64 = 1 << 16;
const ROUNDS: u32 = 100;
/// How long anything may take that is sure to happen.
const LONG: Duration = Duration::from_secs(60);

/// A disk that completes requests when the test says so.
struct Disk {
    started: Mutex<Vec<(u64, Completion)>>,
    done: Mutex<Vec<Completion>>,
    /// Both ends of the bell: the lanes read the first one.
    bell: (UnixStream, UnixStream),
}

impl Disk {
    /// Completes the requests of these callers at once.
    fn complete(&self, callers: std::ops::Range<u64>) {
        let mut started = self.started.lock().unwrap();
        let (now, later) = started.drain(..).partition(|(pos, _)| callers.contains(&(pos / APART)));
        *started = later;
        let now: Vec<(u64, Completion)> = now;
        self.done.lock().unwrap().extend(now.into_iter().map(|(_, completion)| completion));
        // A bell that is full has been rung, and no lane may be left to hear it.
        match (&self.bell.1).write(&[1]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            written => assert_eq!(written.expect("a socket"), 1),
        }
    }

    /// Waits until the disk has this number of requests. `false`: it does not come to have them.
    fn has(&self, requests: u64) -> bool {
        let begin = Instant::now();
        while self.started.lock().unwrap().len() as u64 != requests {
            if begin.elapsed() > LONG {
                return false;
            }
            thread::yield_now();
        }
        true
    }
}

struct DiskDriver(Arc<Disk>);

impl Driver for DiskDriver {
    fn queue(&mut self, _now: Time, request: &Started<'_>) -> bool {
        let completion = Completion { tag: request.tag, result: request.len as i64 };
        self.0.started.lock().unwrap().push((request.pos, completion));
        true
    }

    fn submit(&mut self, _now: Time) {}

    fn reap(&mut self, _now: Time, done: &mut Vec<Completion>) {
        let _ = (&self.0.bell.0).read(&mut [0; 64]);
        done.append(&mut self.0.done.lock().unwrap());
    }

    fn wait(&mut self, _now: Time, _timeout: Option<Span>) {
        unreachable!("lanes that share a queue poll");
    }

    fn wait_handle(&self) -> Option<i32> {
        Some(self.0.bell.0.as_raw_fd())
    }
}

fn device() -> (Arc<Disk>, Device) {
    let bell = UnixStream::pair().expect("two sockets");
    for end in [&bell.0, &bell.1] {
        end.set_nonblocking(true).expect("a socket");
    }
    let disk = Arc::new(Disk { started: Mutex::default(), done: Mutex::default(), bell });
    let driver = Arc::clone(&disk);
    let geometry = Geometry::new(CALLERS * APART, Limits::unlimited(512));
    let channel = move |_| Ok(Box::new(DiskDriver(Arc::clone(&driver))) as Box<dyn Driver>);
    let elevator = by_name("noop").map(|row| (row.make)());
    let backend = DiskBackend::new(FnDisk::new("disk", geometry, channel), DiskSettings::default(), elevator);
    (disk, Device::new(Arc::new(backend.expect("a device"))))
}

fn read(device: &Device, caller: u64, times: u32) -> JoinHandle<()> {
    let device = device.clone();
    let read = move || device.read_at(&mut [0; 512], caller * APART).expect("a read");
    thread::spawn(move || (0..times).for_each(|_| read()))
}

/// Some callers are woken together: the last of them to run may be one that reads no more, and must hand over what those
/// that read again have left.
fn round(disk: &Disk, device: &Device) {
    let at = |caller| read(device, caller, if caller < KEPT + ONCE { 1 } else { 2 });
    let callers: Vec<_> = (0..CALLERS).map(at).collect();
    assert!(disk.has(CALLERS), "all callers read");
    disk.complete(KEPT..CALLERS);
    assert!(disk.has(KEPT + TWICE), "what was left to a woken thread is at the disk");
    while callers.iter().any(|caller| !caller.is_finished()) {
        disk.complete(0..CALLERS);
        thread::yield_now();
    }
    callers.into_iter().for_each(|caller| caller.join().expect("no panic"));
}

#[test]
fn a_bio_that_is_left_to_a_woken_thread_is_handed_over() {
    let (disk, device) = device();
    (0..ROUNDS).for_each(|_| round(&disk, &device));
}
