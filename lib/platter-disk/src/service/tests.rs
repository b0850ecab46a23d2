mod turns;

use super::*;
use crate::device::Device;
use crate::disk_backend::DiskSettings;
use crate::sync::TAKEN;
use crate::wake::EventFd;
use platter_block::disk::FnDisk;
use platter_block::driver::{Completion, Driver, Geometry, Started};
use platter_block::limits::Limits;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Wake, Waker};

/// A disk that completes requests when the test says so, and shows it on a descriptor.
struct Slow {
    shared: Arc<Shared>,
    held: Vec<Completion>,
}

struct Shared {
    let_go: AtomicBool,
    shown: EventFd,
    /// How often a doorbell was rung.
    submits: AtomicU64,
}

impl Driver for Slow {
    fn queue(&mut self, _now: Time, request: &Started<'_>) -> bool {
        self.held.push(Completion { tag: request.tag, result: request.len as i64 });
        true
    }

    fn submit(&mut self, _now: Time) {
        self.shared.submits.fetch_add(1, Ordering::SeqCst);
    }

    fn reap(&mut self, _now: Time, done: &mut Vec<Completion>) {
        if self.shared.let_go.load(Ordering::SeqCst) {
            self.shared.shown.clear();
            done.append(&mut self.held);
        }
    }

    fn wait_handle(&self) -> Option<i32> {
        Some(self.shared.shown.raw())
    }
}

impl Shared {
    fn let_go(&self) {
        self.let_go.store(true, Ordering::SeqCst);
        self.shown.signal();
    }

    fn hold(&self) {
        self.let_go.store(false, Ordering::SeqCst);
    }
}

fn slow() -> (Device, Arc<Shared>) {
    let (let_go, submits) = (AtomicBool::new(false), AtomicU64::new(0));
    let shared = Arc::new(Shared { let_go, shown: EventFd::new().unwrap(), submits });
    let disk = Arc::clone(&shared);
    let channel = move |_| {
        let driver = Slow { shared: Arc::clone(&disk), held: Vec::new() };
        Ok(Box::new(driver) as Box<dyn Driver>)
    };
    let geometry = Geometry::new(1 << 20, Limits::unlimited(512));
    let device =
        Device::from_disk(FnDisk::new("slow", geometry, channel), DiskSettings::default(), None).unwrap();
    (device, shared)
}

/// Counts how often a task is woken.
#[derive(Default)]
struct Woken(AtomicU64);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

/// The lane of this thread's futures, watched by a list that the test runs instead of the service thread.
fn watched_by(watch: &mut Watch, device: &Device) -> Arc<AsyncLane> {
    let lane = Arc::clone(device.inner.background.lane().unwrap());
    assert!(!lane.watched.swap(true, Ordering::SeqCst));
    watch.add(Arc::downgrade(&lane));
    watch.run();
    lane
}

/// All locks that this thread takes count: those of the future, of the lane, and of the service thread, whose part the
/// test plays.
#[test]
fn an_awaited_future_takes_three_locks() {
    let (device, disk) = slow();
    let mut watch = Watch::default();
    let lane = watched_by(&mut watch, &device);
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut counts = Vec::new();
    for round in 1..=4 {
        disk.hold();
        let before = TAKEN.get();
        let mut io = device.write(0, vec![1u8; 512]);
        assert!(poll(&mut io, &waker).is_pending());
        disk.let_go();
        watch.sleep(None);
        watch.run();
        assert_eq!(woken.0.load(Ordering::SeqCst), round);
        assert!(matches!(poll(&mut io, &waker), Poll::Ready((Ok(()), Some(_)))));
        counts.push(TAKEN.get() - before);
    }
    // The first one also learns of regions and the like.
    assert_eq!(counts[1..], [3, 3, 3]);
    assert!(lane.watched.load(Ordering::SeqCst), "an idle lane stays watched");
}

/// Many futures at once share the runs of their lane, so each takes even fewer.
#[test]
fn futures_that_are_reaped_together_take_two_locks_each() {
    let (device, disk) = slow();
    let mut watch = Watch::default();
    watched_by(&mut watch, &device);
    let waker = Waker::from(Arc::new(Woken::default()));
    let before = TAKEN.get();
    let mut all: Vec<_> = (0..100).map(|at| device.write(at * 512, vec![1u8; 512])).collect();
    all.iter_mut().for_each(|io| assert!(poll(io, &waker).is_pending()));
    disk.let_go();
    watch.sleep(None);
    watch.run();
    all.iter_mut().for_each(|io| assert!(poll(io, &waker).is_ready()));
    let taken = TAKEN.get() - before;
    assert!(taken <= 2 * 100 + 10, "{taken} locks for 100 futures");
}

/// Descriptors that show nothing of the lane's own end the watching of an idle lane, and the next future asks again.
#[test]
fn an_idle_lane_that_wakes_the_thread_for_nothing_is_let_go() {
    let (device, disk) = slow();
    let mut watch = Watch::default();
    let lane = watched_by(&mut watch, &device);
    disk.let_go();
    while lane.watched.load(Ordering::SeqCst) {
        assert!(watch.lanes[0].spurious_wakeups < MOST_SPURIOUS);
        watch.sleep(None);
        watch.run();
    }
    assert!(watch.lanes.is_empty());
    assert_eq!(watch.spare.len(), 1, "its list is there for the next lane");
}

#[test]
fn only_some_idle_lanes_are_watched_and_none_that_is_gone() {
    let mut watch = Watch::default();
    let all: Vec<_> = (0..IDLE + 3)
        .map(|_| {
            let (device, _disk) = slow();
            let lane = watched_by(&mut watch, &device);
            (device, lane)
        })
        .collect();
    assert_eq!(watch.lanes.len(), IDLE);
    let is_watched = |(_, lane): &(Device, Arc<AsyncLane>)| lane.watched.load(Ordering::SeqCst);
    assert!(!all[..3].iter().any(is_watched) && all[3..].iter().all(is_watched));
    drop(all);
    watch.run();
    assert!(watch.lanes.is_empty());
}
