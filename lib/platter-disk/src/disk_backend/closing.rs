//! How lanes and devices are closed while the disk has requests of theirs.
//!
//! The memory of a request cannot be freed before the kernel has returned the request, and a change in flight may
//! still reach the disk. A thread that drops a lane therefore waits, but only for a limited time: then the remaining
//! requests go to a thread that ends when the kernel has returned everything. Until then the whole device is in the fence of the
//! handle that was closed (`fence.rs`).

use super::silence::Silent;
use super::{OwnLane, Shared, SharedLane};
use crate::clock::Clock;
use crate::sync::{Mutex, Ordering, lock};
use platter_block::fault::Kind;
use platter_block::lane::{Holder, Lane, Left};
use platter_block::queue::{QueueLane, Store};
use platter_block::time::{Span, Time};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long the drop of a lane waits for its requests.
const PATIENCE: Span = Span::from_secs(1);

/// How much longer it waits after it has asked the driver to cancel them.
const CANCEL_PATIENCE: Span = Span::from_secs(2);

/// Pause between two checks of a driver that does not block.
const NAP: Duration = Duration::from_millis(1);

/// Waits until the driver has returned everything, at most for some seconds. Nothing more is started.
fn drain<S: Store>(lane: &mut QueueLane<S>, clock: &Clock) {
    lane.queue.quiesce();
    wait_for(lane, clock, PATIENCE);
    if lane.in_flight() > 0 {
        lane.cancel_where(clock.now(), &|_| true, Kind::Cancelled);
        wait_for(lane, clock, CANCEL_PATIENCE);
    }
    // Borrowed memory cannot be kept: its owner waits without a limit, and so must this.
    while lane.queue.has_borrowed() {
        wait_for(lane, clock, CANCEL_PATIENCE);
    }
}

fn wait_for(lane: &mut impl Lane, clock: &Clock, time: Span) {
    let begin = clock.now();
    let mut now = begin;
    while lane.in_flight() > 0 && now.since(begin) < time {
        lane.run(now);
        let before = lane.in_flight();
        if before > 0 {
            lane.wait(now, Some(Span(time.0.saturating_sub(now.since(begin).0))));
            lane.run(clock.now());
        }
        discard_done(lane);
        if lane.in_flight() == before && before > 0 {
            // Not every driver blocks.
            std::thread::sleep(NAP);
        }
        now = clock.now();
    }
}

/// Drops completed bios of a lane that is being closed.
fn discard_done(lane: &mut (impl Lane + ?Sized)) {
    let mut done = Vec::new();
    lane.take_done(&mut done);
}

/// The requests of a closed lane, which the gauges of the device count until the disk has returned all of them.
struct Counted {
    shared: Weak<Shared>,
    requests: u32,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.shared.upgrade().iter().for_each(|shared| {
            shared.left.fetch_sub(self.requests, Ordering::Relaxed);
        });
    }
}

/// The rest of a closed lane.
pub(super) struct Leftover {
    // Dropped in this order: the driver waits until the kernel has returned everything, and then nothing is late any more.
    lane: Box<dyn Lane>,
    _silent: Option<Silent>,
    _left: Option<Arc<dyn Left>>,
    _counted: Counted,
}

impl Leftover {
    fn new(
        shared: Weak<Shared>,
        lane: impl Lane + 'static,
        silent: Option<Silent>,
        left: Option<Arc<dyn Left>>,
    ) -> Leftover {
        let requests = lane.in_flight();
        shared.upgrade().iter().for_each(|shared| {
            shared.left.fetch_add(requests, Ordering::Relaxed);
        });
        Leftover {
            _counted: Counted { shared, requests },
            lane: Box::new(lane),
            _silent: silent,
            _left: left,
        }
    }

    /// Waits on a thread of its own.
    fn end_elsewhere(self) {
        let place = Arc::new(Mutex::new(Some(self)));
        let other = Arc::clone(&place);
        let builder = std::thread::Builder::new().name("platter-leftover".to_string());
        // This thread cannot reap a ring that belongs to the thread that opened it, but every driver waits when it is
        // dropped. The memory belongs to the queue, which is dropped after it.
        let spawned = builder.spawn(move || drop(lock(&other).take()));
        if spawned.is_err() {
            // No thread can be started, and waiting could take for ever: the memory is leaked, and the fence stays.
            std::mem::forget(lock(&place).take());
        }
    }
}

impl Holder for Shared {
    fn run(&self, now: Time) {
        self.run_control(now, None);
    }
}

impl Shared {
    /// The lane of a queue is being closed. `left`: to be kept as long as the disk has changes of it.
    pub(super) fn close_lane(&self, mut lane: OwnLane, silent: Option<Silent>, left: Option<Arc<dyn Left>>) {
        if self.clock.simulated().is_some() {
            return self.leave_over(lane, silent, left);
        }
        drain(&mut lane, &self.clock);
        if lane.in_flight() > 0 {
            discard_done(&mut lane);
            let left = left.filter(|_| lane.queue.has_changes()).map(|left| left.keep_all(None));
            Leftover::new(Weak::clone(&self.itself), lane, silent, left).end_elsewhere();
        }
    }

    /// The device is being closed, and its shared queue with it.
    pub(super) fn close_control(clock: &Clock, mut lane: SharedLane) {
        if clock.simulated().is_some() {
            return;
        }
        drain(&mut lane, clock);
        if lane.in_flight() > 0 {
            Leftover::new(Weak::new(), lane, None, None).end_elsewhere();
        }
    }

    /// A simulated disk still carries out the requests that it has, in virtual time: the rest of the lane is run by
    /// the users of the shared queue, which are all lanes until then.
    fn leave_over(&self, mut lane: OwnLane, silent: Option<Silent>, left: Option<Arc<dyn Left>>) {
        if lane.in_flight() == 0 {
            return;
        }
        lane.queue.quiesce();
        discard_done(&mut lane);
        let holder: Weak<Shared> = Weak::clone(&self.itself);
        let left = left.filter(|_| lane.queue.has_changes()).map(|left| left.keep_all(Some(holder)));
        let leftover = Leftover::new(Weak::clone(&self.itself), lane, silent, left);
        lock(&self.leftovers).push(leftover);
        self.gate.set_leftovers(true);
    }

    /// Runs the remaining requests of closed lanes in a simulation.
    #[inline]
    pub(super) fn run_leftovers(&self, now: Time) {
        if self.gate.look().has_leftovers() {
            self.run_all_leftovers(now);
        }
    }

    #[cold]
    fn run_all_leftovers(&self, now: Time) {
        let mut leftovers = lock(&self.leftovers);
        for leftover in leftovers.iter_mut() {
            leftover.lane.run(now);
            discard_done(&mut *leftover.lane);
        }
        let over: Vec<Leftover> =
            leftovers.extract_if(.., |leftover| leftover.lane.in_flight() == 0).collect();
        if leftovers.is_empty() {
            self.gate.set_leftovers(false);
        }
        drop(leftovers);
        if !over.is_empty() {
            drop(over);
            self.lanes.ring_all();
        }
    }
}
