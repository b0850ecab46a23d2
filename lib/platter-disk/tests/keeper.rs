//! The device's own work: a device that rings is run until it is idle, by a thread that is started only then.

use platter_block::backend::{Backend, LaneUse};
use platter_block::bio::Bio;
use platter_block::capability;
use platter_block::driver::Geometry;
use platter_block::fault::Error;
use platter_block::lane::{Bell, Lane};
use platter_block::limits::{LimitSource, Limits};
use platter_block::time::{Span, Time};
use platter_disk::device::Device;
use platter_disk::service;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

/// Time between two pieces of work.
const PACE: Span = Span::from_millis(1);

/// Work like that of a cache: pages that wait for their time.
struct Work {
    left: u32,
    due: Time,
    tell: Sender<u32>,
}

struct State {
    below: Device,
    work: Mutex<Work>,
    keeper: OnceLock<Arc<dyn Bell>>,
    lanes: AtomicUsize,
}

impl State {
    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap()
    }

    /// Work arises; the bell is rung with the lock held.
    fn give(&self, pieces: u32) {
        let mut work = self.work();
        work.left += pieces;
        self.keeper.get().unwrap().ring();
    }
}

struct Worker(Arc<State>);

impl LimitSource for Worker {
    fn limits_at(&self, pos: u64) -> (Limits, u64) {
        self.0.below.backend().limits_at(pos)
    }
}

impl Backend for Worker {
    fn name(&self) -> Arc<str> {
        Arc::from("worker")
    }

    fn geometry(&self) -> Geometry {
        self.0.below.geometry()
    }

    fn open_lane(&self, lane_use: LaneUse) -> Result<Box<dyn Lane>, Error> {
        // A real cache examines its state here, too.
        drop(self.0.work());
        self.0.lanes.fetch_add(1, SeqCst);
        let below = self.0.below.backend().open_lane(lane_use)?;
        Ok(Box::new(WorkLane { below, state: Arc::clone(&self.0) }))
    }

    fn worker(&self) -> Option<&dyn capability::Worker> {
        Some(self)
    }
}

impl capability::Worker for Worker {
    fn keep(&self, keeper: Arc<dyn Bell>) {
        let _ = self.0.keeper.set(keeper);
    }
}

struct WorkLane {
    below: Box<dyn Lane>,
    state: Arc<State>,
}

impl Drop for WorkLane {
    fn drop(&mut self) {
        self.state.lanes.fetch_sub(1, SeqCst);
    }
}

impl Lane for WorkLane {
    fn below(&self) -> Option<&dyn Lane> {
        Some(&*self.below)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Lane> {
        Some(&mut *self.below)
    }

    fn submit(&mut self, now: Time, bio: Bio) {
        self.below.submit(now, bio);
    }

    fn run(&mut self, now: Time) {
        self.below.run(now);
        let mut work = self.state.work();
        if work.left > 0 && work.due <= now {
            work.left -= 1;
            work.due = now + PACE;
            // The test may have ended.
            let _ = work.tell.send(work.left);
        }
    }

    fn take_done(&mut self, out: &mut Vec<Bio>) {
        self.below.take_done(out);
    }

    fn has_done(&self) -> bool {
        self.below.has_done()
    }

    fn next_wakeup(&self) -> Option<Time> {
        let work = self.state.work();
        (work.left > 0).then_some(work.due)
    }

    fn is_idle(&self) -> bool {
        self.below.is_idle() && self.state.work().left == 0
    }
}

fn worker() -> (Arc<State>, Device, Receiver<u32>) {
    let (tell, told) = channel();
    let work = Mutex::new(Work { left: 0, due: Time(0), tell });
    let below = Device::ram(1 << 20).unwrap();
    let state = Arc::new(State { below, work, keeper: OnceLock::new(), lanes: AtomicUsize::new(0) });
    let device = Device::new(Arc::new(Worker(Arc::clone(&state))));
    (state, device, told)
}

fn has_service_thread() -> bool {
    let threads = fs::read_dir("/proc/self/task").unwrap().map(|entry| entry.unwrap().path().join("comm"));
    threads.filter_map(|comm| fs::read_to_string(comm).ok()).any(|name| name.trim() == "platter-service")
}

/// Waits until the given number of pieces of work is done.
fn done(pieces: u32, told: &Receiver<u32>) {
    for _ in 0..pieces {
        told.recv_timeout(Duration::from_secs(60)).expect("the work goes on");
    }
}

/// Waits until the service thread has made no round for a while. A thread that is always busy makes this wait
/// fail.
fn comes_to_rest() {
    let (_tell, told) = channel::<()>();
    let begin = Instant::now();
    loop {
        let before = service::rounds();
        assert!(told.recv_timeout(Duration::from_millis(50)).is_err());
        if service::rounds() == before {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "the service thread does not come to rest");
    }
}

/// One test, so that no other test starts the thread.
#[test]
fn a_device_that_rings_is_run_until_it_is_idle() {
    let (state, device, told) = worker();
    device.write_at(&[1; 4096], 0).unwrap();
    device.clone().close().unwrap();
    // The lane is that of the call; no bell has rung.
    assert_eq!(state.lanes.load(SeqCst), 1);
    assert!(!has_service_thread());
    state.give(5);
    done(5, &told);
    assert!(has_service_thread());
    comes_to_rest();
    // Again after it was idle, while it works, and by many threads at once.
    state.give(3);
    state.give(2);
    done(5, &told);
    std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(|| state.give(2)))));
    done(8, &told);
    assert_eq!(state.lanes.load(SeqCst), 2);
    comes_to_rest();

    // The bell does not keep the device alive: its lanes are closed with its last handle, even with work left.
    let (other_state, other, other_told) = worker();
    other_state.give(1_000_000);
    other_told.recv_timeout(Duration::from_secs(60)).unwrap();
    drop(other);
    assert_eq!(other_state.lanes.load(SeqCst), 0);
    while other_told.try_recv().is_ok() {}
    other_state.give(1);
    comes_to_rest();
    assert_eq!(other_state.lanes.load(SeqCst), 0);
    assert!(other_told.try_recv().is_err());
    // Also before any lane was opened.
    let (third_state, third, _third_told) = worker();
    drop(third);
    third_state.give(1);
    comes_to_rest();
    assert_eq!(third_state.lanes.load(SeqCst), 0);
    drop(device);
    assert_eq!(state.lanes.load(SeqCst), 0);
}
