//! A thread that runs the shared queue, and is kept at it by others.

use super::MOST_ROUNDS;
use crate::disk_backend::{DiskBackend, DiskSettings, Shared};
use crate::wake::{Ended, EventFd, Sleeper};
use platter_block::backend::{Backend, LaneUse};
use platter_block::bio::Bio;
use platter_block::capability::Tunable as _;
use platter_block::disk::FnDisk;
use platter_block::driver::{Completion, Driver, Geometry, Started};
use platter_block::limits::Limits;
use platter_block::queue::Settings;
use platter_block::time::{Span, Time, VirtualClock};
use platter_elevators::by_name;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, OnceLock, Weak};

/// How long each round takes.
const ROUND: Span = Span::from_millis(10);

/// A disk that completes nothing. While it is asked, another thread kicks the runner, and time passes.
struct Disk {
    clock: Arc<VirtualClock>,
    bell: EventFd,
    shared: OnceLock<Weak<Shared>>,
    /// Kicks to come.
    kicks: AtomicU32,
    rounds: AtomicU32,
    /// Requests that took longer than the timeout.
    overdue: AtomicU32,
}

impl Disk {
    fn open(timeout: Option<Span>) -> (Arc<Disk>, DiskBackend) {
        let disk = Arc::new(Disk {
            clock: Arc::new(VirtualClock::new()),
            bell: EventFd::new().expect("a descriptor"),
            shared: OnceLock::new(),
            kicks: AtomicU32::new(0),
            rounds: AtomicU32::new(0),
            overdue: AtomicU32::new(0),
        });
        let port = Arc::clone(&disk);
        let geometry = Geometry::new(1 << 20, Limits::unlimited(512));
        let channel = move |_| Ok(Box::new(Port(Arc::clone(&port))) as Box<dyn Driver>);
        let channels = FnDisk::new("disk", geometry, channel).with_clock(Some(Arc::clone(&disk.clock)));
        let queue = Settings { plug: None, timeout, ..Settings::default() };
        let settings = DiskSettings::default().with_queue(queue);
        let elevator = by_name("noop").map(|row| (row.make)());
        let backend = DiskBackend::new(channels, settings, elevator).expect("a device");
        let _ = disk.shared.set(Arc::downgrade(&backend.0));
        (disk, backend)
    }

    fn kick(&self) {
        let left = self.kicks.load(SeqCst);
        if left > 0
            && let Some(shared) = self.shared.get().and_then(Weak::upgrade)
        {
            self.kicks.store(left - 1, SeqCst);
            self.clock.advance_to(self.clock.now() + ROUND);
            shared.control.again();
        }
    }
}

struct Port(Arc<Disk>);

impl Driver for Port {
    fn queue(&mut self, _now: Time, _request: &Started<'_>) -> bool {
        true
    }

    fn submit(&mut self, _now: Time) {}

    fn reap(&mut self, _now: Time, _done: &mut Vec<Completion>) {
        self.0.rounds.fetch_add(1, SeqCst);
        self.0.kick();
    }

    fn given_up(&mut self, _now: Time, _tag: u32) {
        self.0.overdue.fetch_add(1, SeqCst);
    }

    fn wait_handle(&self) -> Option<i32> {
        Some(self.0.bell.raw())
    }
}

fn read() -> Bio {
    Bio::read(0, vec![0; 512]).expect("a bio")
}

fn is_readable(handles: &[i32]) -> bool {
    let mut sleeper = Sleeper::default();
    sleeper.handles.extend_from_slice(handles);
    sleeper.sleep(true, Some(Span(0))) == Ended::Readable
}

/// A timeout passes while others keep the thread at work.
#[test]
fn time_passes_for_a_thread_that_works_for_others() {
    let (disk, backend) = Disk::open(Some(Span(ROUND.0 / 2)));
    let mut lane = backend.open_lane(LaneUse::Exclusive).expect("a lane");
    let now = backend.now();
    lane.submit(now, read());
    lane.run(now);
    assert_eq!(disk.overdue.load(SeqCst), 0);
    disk.kicks.store(1, SeqCst);
    lane.run(now);
    assert_eq!(disk.overdue.load(SeqCst), 1);
}

/// Others have work without an end. The thread goes back to its caller, and calls a lane that sleeps.
#[test]
fn a_thread_does_not_work_for_others_for_ever() {
    let (disk, backend) = Disk::open(None);
    let sleeper = backend.open_lane(LaneUse::Shared).expect("a lane");
    let mut lane = backend.open_lane(LaneUse::Exclusive).expect("a lane");
    let now = backend.now();
    lane.submit(now, read());
    lane.run(now);
    let mut handles = Vec::new();
    assert!(sleeper.wait_handles(&mut handles));
    assert!(!is_readable(&handles));
    let before = disk.rounds.load(SeqCst);
    disk.kicks.store(u32::MAX, SeqCst);
    lane.run(now);
    assert_eq!(disk.rounds.load(SeqCst) - before, MOST_ROUNDS);
    assert!(is_readable(&handles));
    // The next visitor does what is left.
    disk.kicks.store(0, SeqCst);
    let _ = backend.ordered();
    assert_eq!(disk.rounds.load(SeqCst) - before, MOST_ROUNDS + 1);
}
