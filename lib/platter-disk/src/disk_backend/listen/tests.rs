//! Many callers that sleep for one driver.

use crate::device::Device;
use crate::disk_backend::{DiskBackend, DiskSettings};
use crate::wake::{Ended, EventFd, Sleeper};
use platter_block::backend::{Backend, LaneUse};
use platter_block::bio::Bio;
use platter_block::disk::FnDisk;
use platter_block::driver::{Completion, Driver, Geometry, Started};
use platter_block::fault::Kind;
use platter_block::limits::Limits;
use platter_block::time::{Span, Time};
use platter_elevators::by_name;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const CALLERS: u64 = 24;
/// Distance between the callers' blocks, so that nothing merges.
const APART: u64 = 1 << 16;
const SIZE: u64 = CALLERS * APART;

/// A disk that completes requests when the test says so.
struct Disk {
    started: Mutex<Vec<(u64, Completion)>>,
    done: Mutex<Vec<Completion>>,
    bell: EventFd,
    /// How often a lane has asked for the descriptor, in order to sleep on it.
    polls: AtomicUsize,
}

impl Disk {
    fn complete(&self, pos: u64) {
        let mut started = self.started.lock().unwrap();
        let at = started.iter().position(|request| request.0 == pos).expect("it has been started");
        self.done.lock().unwrap().push(started.swap_remove(at).1);
        self.bell.signal();
    }

    fn started(&self) -> usize {
        self.started.lock().unwrap().len()
    }

    fn polls(&self) -> usize {
        self.polls.load(SeqCst)
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
        self.0.bell.clear();
        done.append(&mut self.0.done.lock().unwrap());
    }

    fn wait(&mut self, _now: Time, _timeout: Option<Span>) {
        unreachable!("lanes that share a queue poll");
    }

    fn wait_handle(&self) -> Option<i32> {
        self.0.polls.fetch_add(1, SeqCst);
        Some(self.0.bell.raw())
    }
}

fn backend(elevator: &str) -> (Arc<Disk>, DiskBackend) {
    let bell = EventFd::new().expect("a descriptor");
    let (started, done, polls) = (Mutex::default(), Mutex::default(), AtomicUsize::new(0));
    let disk = Arc::new(Disk { started, done, bell, polls });
    let driver = Arc::clone(&disk);
    let geometry = Geometry::new(SIZE, Limits::unlimited(512));
    let channel = move |_| Ok(Box::new(DiskDriver(Arc::clone(&driver))) as Box<dyn Driver>);
    let elevator = by_name(elevator).map(|row| (row.make)());
    let backend = DiskBackend::new(FnDisk::new("disk", geometry, channel), DiskSettings::default(), elevator);
    (disk, backend.expect("a device"))
}

/// Waits until `callers` callers sleep for the disk, which has the requests of all of them. `before` polls were made
/// earlier; there may be two more, because a timer of the elevator may wake the lane that polls.
fn until_asleep(disk: &Disk, backend: &DiskBackend, callers: usize, before: usize) {
    while disk.started() != callers || backend.0.poller.count() != callers {
        let polls = disk.polls() - before;
        assert!(polls <= 2, "{polls} polls of the driver while {callers} callers fall asleep");
        std::thread::yield_now();
    }
}

/// Of all sleeping callers only one polls the driver, so a completion wakes that caller and the one that it is for.
#[test]
fn one_of_many_callers_polls_the_driver() {
    for elevator in ["noop", "deadline", "mq-deadline"] {
        let (disk, backend) = backend(elevator);
        let device = Device::new(Arc::new(backend.clone()));
        let (ended, ends) = channel();
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let (device, ended) = (device.clone(), ended.clone());
                std::thread::spawn(move || {
                    let result = device.read_at(&mut [0; 512], caller * APART);
                    ended.send((caller, result.is_ok())).expect("the test waits");
                })
            })
            .collect();
        until_asleep(&disk, &backend, CALLERS as usize, 0);
        for caller in (0..CALLERS).rev() {
            let before = disk.polls();
            disk.complete(caller * APART);
            assert_eq!(ends.recv(), Ok((caller, true)), "{elevator}");
            until_asleep(&disk, &backend, caller as usize, before);
        }
        callers.into_iter().for_each(|caller| caller.join().expect("no panic"));
    }
}

/// Callers that are woken together leave their next bios to the last of them that runs. None is left behind.
#[test]
fn what_is_left_to_a_woken_caller_is_handed_over() {
    const READS: u64 = 200;
    let (disk, backend) = backend("noop");
    let device = Device::new(Arc::new(backend));
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let device = device.clone();
            std::thread::spawn(move || {
                (0..READS).all(|_| device.read_at(&mut [0; 512], caller * APART).is_ok())
            })
        })
        .collect();
    // The disk completes all that it has at once, so that many callers are woken.
    let mut completed = 0;
    while completed < CALLERS * READS {
        let some: Vec<Completion> =
            disk.started.lock().unwrap().drain(..).map(|(_, completion)| completion).collect();
        if some.is_empty() {
            std::thread::yield_now();
            continue;
        }
        completed += some.len() as u64;
        disk.done.lock().unwrap().extend(some);
        disk.bell.signal();
    }
    assert!(callers.into_iter().all(|caller| caller.join().expect("no panic")));
}

/// The bios of a lane come back while it announces that it waits, so it does not run the queue. What it has unplugged is started
/// nevertheless.
#[test]
fn what_a_lane_unplugs_is_started() {
    let (disk, backend) = backend("noop");
    let (mut first, mut second) =
        (backend.open_lane(LaneUse::Exclusive).unwrap(), backend.open_lane(LaneUse::Exclusive).unwrap());
    let read = |block: u64| Bio::read(block * APART, vec![0; 512]).expect("a bio");
    let now = backend.now();
    first.submit(now, read(0));
    first.run(now);
    assert_eq!(disk.started(), 0, "the device is plugged");
    first.unplug(now);
    assert_eq!(disk.started(), 1);
    disk.complete(0);
    second.submit(now, read(1));
    second.run(now);
    assert_eq!(disk.started(), 0, "the device is plugged again");
    first.unplug(now);
    first.run(now);
    assert!(first.has_done());
    assert_eq!(disk.started(), 1);
    disk.complete(APART);
    second.run(now);
    assert!(second.has_done());
}

/// A lane that polls sleeps without a limit. Another lane sends a bio with a deadline and relies on the first one.
#[test]
fn the_lane_that_polls_keeps_the_deadlines_of_the_others() {
    let (disk, backend) = backend("noop");
    let device = Device::new(Arc::new(backend.clone()));
    let caller = {
        let device = device.clone();
        std::thread::spawn(move || device.read_at(&mut [0; 512], 0).is_ok())
    };
    until_asleep(&disk, &backend, 1, 0);
    let (ended, ends) = channel();
    let other = std::thread::spawn(move || {
        let mut bio = Bio::read(APART, vec![0; 512]).expect("a bio");
        bio.set_deadline(Some(crate::clock::now() + Span::from_millis(20)));
        let (mut channel, mut done) = (device.channel(1).expect("a channel"), Vec::new());
        channel.submit(bio).expect("room");
        while done.is_empty() {
            channel.wait(&mut done, None);
        }
        ended.send(done[0].status().map_err(|fault| fault.kind)).expect("the test waits");
    });
    let status = ends.recv_timeout(Duration::from_secs(20));
    // On a slow machine the bio started too late.
    if disk.started() == 2 {
        disk.complete(APART);
    }
    disk.complete(0);
    assert_eq!(status, Ok(Err(Kind::TimedOut)));
    assert!(caller.join().expect("no panic"));
    other.join().expect("no panic");
}

/// Whether one of the descriptors is readable.
fn is_readable(handles: &[i32]) -> bool {
    let mut sleeper = Sleeper::default();
    sleeper.handles.extend_from_slice(handles);
    sleeper.sleep(true, Some(Span(0))) == Ended::Readable
}

/// Two threads sleep on a lane's descriptors, which they have listed at different times. The second listing clears
/// the bell that told the first thread of the lane's new I/O; the first thread still sees its completion.
#[test]
fn a_listing_of_another_thread_makes_nobody_deaf() {
    let (disk, backend) = backend("noop");
    let mut lane = backend.open_lane(LaneUse::Shared).expect("a lane");
    let now = crate::clock::now;
    let (mut first, mut second) = (Vec::new(), Vec::new());
    assert!(lane.wait_handles(&mut first));
    lane.submit(now(), Bio::read(0, vec![0; 512]).expect("a bio"));
    lane.run(now());
    lane.unplug(now());
    lane.run(now());
    assert_eq!(disk.started(), 1);
    assert!(lane.wait_handles(&mut second));
    assert!(!is_readable(&first) && !is_readable(&second));
    disk.complete(0);
    assert!(is_readable(&first) && is_readable(&second));
    lane.run(now());
    assert!(lane.has_done() && !is_readable(&first));
    lane.take_done(&mut Vec::new());
    // The disk has nothing of this lane any more: I/O of other lanes does not wake its threads.
    assert!(lane.wait_handles(&mut second));
    disk.bell.signal();
    assert!(!is_readable(&first));
}

/// An unplug runs the queue: what comes back then wakes threads that sleep for the lane, and keeps others from falling asleep.
#[test]
fn an_unplug_wakes_threads_that_sleep_for_the_lane() {
    let (disk, backend) = backend("noop");
    let mut lane = backend.open_lane(LaneUse::Shared).expect("a lane");
    let now = crate::clock::now;
    for block in 0..2 {
        lane.submit(now(), Bio::read(block * APART, vec![0; 512]).expect("a bio"));
        lane.run(now());
        if block == 0 {
            lane.unplug(now());
        }
    }
    assert_eq!(disk.started(), 1, "the device is plugged again");
    let (mut before, mut after) = (Vec::new(), Vec::new());
    assert!(lane.wait_handles(&mut before) && !is_readable(&before));
    disk.complete(0);
    lane.unplug(now());
    assert!(lane.has_done() && is_readable(&before));
    assert!(lane.wait_handles(&mut after) && is_readable(&after));
    assert_eq!(lane.next_wakeup(), Some(Time(0)));
    lane.take_done(&mut Vec::new());
    assert!(lane.wait_handles(&mut after) && !is_readable(&after));
    disk.complete(APART);
    lane.run(now());
    assert!(lane.has_done());
}
