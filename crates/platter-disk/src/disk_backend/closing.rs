//! How lanes and devices are closed while the disk has requests of theirs.
//!
//! The memory of a request cannot be freed before the kernel has returned the request, and a change in flight may
//! still reach the disk. A thread that drops a lane therefore waits, but only for a limited time: then the remaining
//! requests go to a thread that ends when the kernel has returned everything, and until then their changes are in
//! doubt.

use super::doubts::Owner;
use super::{OwnLane, Shared, SharedLane};
use crate::clock::Clock;
use crate::sync::{Mutex, lock};
use platter_block::lane::Lane;
use platter_block::queue::{QueueLane, Store};
use platter_block::time::{Span, Time};
use std::sync::Arc;
use std::time::Duration;

/// How long the drop of a lane waits for its requests.
const PATIENCE: Span = Span::from_secs(1);

/// How much longer it waits after it has asked the driver to cancel them.
const CANCEL_PATIENCE: Span = Span::from_secs(2);

/// Pause between two checks of a driver that does not block.
const NAP: Duration = Duration::from_millis(1);

/// Waits until the driver has returned everything, at most for some seconds. Nothing more is started.
fn drain<S: Store>(lane: &mut QueueLane<S>, clock: &Clock) {
    lane.queue.freeze();
    wait_for(lane, clock, PATIENCE);
    if lane.in_flight() > 0 {
        lane.cancel_where(clock.now(), &|_| true);
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
fn discard_done(lane: &mut impl Lane) {
    let mut done = Vec::new();
    lane.take_done(&mut done);
}

/// The rest of a closed lane, for a thread of its own.
struct Leftover {
    lane: Option<Box<dyn Lane>>,
    /// The device, unless it is gone, and the number of the lane's queue.
    device: Option<(Arc<Shared>, Owner)>,
}

impl Leftover {
    /// Blocks until the kernel has returned everything.
    fn end(mut self) {
        // This thread cannot reap a ring that belongs to the thread that opened it, but every driver waits when it is
        // dropped. The memory belongs to the queue, which is dropped after it.
        drop(self.lane.take());
        if let Some((shared, owner)) = self.device.take() {
            shared.doubts.remove_owner(&shared.gate, owner);
            shared.lanes.ring_all();
        }
    }

    /// Waits on a thread of its own.
    fn end_elsewhere(self) {
        let place = Arc::new(Mutex::new(Some(self)));
        let other = Arc::clone(&place);
        let builder = std::thread::Builder::new().name("platter-leftover".to_string());
        let spawned = builder.spawn(move || {
            let leftover = lock(&other).take();
            leftover.into_iter().for_each(Leftover::end);
        });
        if spawned.is_err() {
            // No thread can be started, and waiting could take for ever: the memory is leaked, and the doubt stays.
            std::mem::forget(lock(&place).take());
        }
    }
}

impl Shared {
    /// The lane of a queue is being closed. Gives up requests that its driver does not return in time.
    pub(super) fn close_lane(self: &Arc<Shared>, mut lane: OwnLane, owner: Owner) {
        if self.clock.simulated().is_some() {
            return self.leave_over(lane, owner);
        }
        drain(&mut lane, &self.clock);
        if lane.in_flight() > 0 {
            lane.queue.give_up_all(self.clock.now());
            discard_done(&mut lane);
            let device = Some((Arc::clone(self), owner));
            Leftover { lane: Some(Box::new(lane)), device }.end_elsewhere();
        }
    }

    /// The device is being closed, and its shared queue with it.
    pub(super) fn close_control(clock: &Clock, mut lane: SharedLane) {
        if clock.simulated().is_some() {
            return;
        }
        drain(&mut lane, clock);
        if lane.in_flight() > 0 {
            Leftover { lane: Some(Box::new(lane)), device: None }.end_elsewhere();
        }
    }

    /// A simulated disk still carries out the changes that it has, in virtual time: the rest of the lane is run by
    /// the users of the shared queue, which includes all lanes while a range is in doubt. A remaining read ends with
    /// the lane.
    fn leave_over(&self, mut lane: OwnLane, owner: Owner) {
        if lane.in_flight() == 0 {
            return;
        }
        lane.queue.freeze();
        lane.queue.give_up_all(self.clock.now());
        discard_done(&mut lane);
        if lane.queue.is_in_doubt() {
            lock(&self.leftovers).push((lane, owner));
        } else {
            self.forget(lane, owner);
        }
    }

    /// A closed lane can no longer change the disk.
    fn forget(&self, lane: OwnLane, owner: Owner) {
        drop(lane);
        self.doubts.remove_owner(&self.gate, owner);
        self.lanes.ring_all();
    }

    /// Runs the remaining requests of closed lanes in a simulation.
    pub(super) fn run_leftovers(&self, now: Time) {
        if self.clock.simulated().is_none() {
            return;
        }
        let mut leftovers = lock(&self.leftovers);
        leftovers.iter_mut().for_each(|(lane, _)| lane.run(now));
        let over: Vec<(OwnLane, Owner)> =
            leftovers.extract_if(.., |(lane, _)| !lane.queue.is_in_doubt()).collect();
        drop(leftovers);
        over.into_iter().for_each(|(lane, owner)| self.forget(lane, owner));
    }
}
