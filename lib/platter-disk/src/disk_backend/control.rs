//! The shared queue of a disk and how it is run.

use super::freeze::{freezes, lane_of};
use super::lanes::LaneCell;
use super::silence::Silent;
use super::sleepers::Sleepers;
use super::{NO_CHANNEL, Shared, SharedLane};
use crate::lock_meter::{Part, Parts};
use crate::sync::{Ordering, lock};
use platter_block::backend::LaneUse;
use platter_block::bio::Bio;
use platter_block::fault::Error;
use platter_block::lane::Lane;
use platter_block::queue::{Prebuilt, QueueLane, SchedQueue, append};
use platter_block::time::Time;
use std::collections::VecDeque;
use std::sync::Arc;

/// Most rounds that a thread runs the queue in a row, because other threads have work for it. Enough that a thread seldom
/// leaves, and few enough that its own caller does not wait long.
pub(super) const MOST_ROUNDS: u32 = 32;

/// The shared queue; without a driver until it is first needed.
enum State {
    Waiting(Box<SchedQueue>),
    Open(Box<SharedLane>),
    Moving,
}

pub(super) struct Control {
    state: State,
    sleepers: Sleepers,
    /// When to check again the lanes that a barrier waits for.
    look_at: Option<Time>,
    /// The queue is silent.
    pub(super) silent: Option<Silent>,
    inbox: Vec<(Bio, Prebuilt)>,
    done: Vec<Bio>,
    /// Bios of the shared queue that have failed, as of the last look.
    failed: u64,
}

/// Bios of one lane on their way to the shared queue.
#[derive(Default)]
pub(super) struct Outbox {
    pub(super) bios: VecDeque<Bio>,
    /// What is known of all of them.
    pub(super) prebuilt: Prebuilt,
    /// The lane's program polls for them: an idle device is started although it is plugged.
    pub(super) polled: bool,
}

/// The lane for which the shared queue is run: its own bios bypass the inbox if the queue's lock is free, and its own completions
/// bypass the mailbox.
pub(super) struct Runs<'a> {
    pub(super) route: u32,
    /// Empty afterwards.
    pub(super) outbox: &'a mut Outbox,
    pub(super) done: &'a mut Vec<Bio>,
    /// Lanes that sleep and have got bios; they are rung when the queue's lock has been released. Empty afterwards.
    pub(super) wakes: &'a mut Vec<Arc<LaneCell>>,
}

impl Control {
    pub(super) fn new(queue: SchedQueue) -> Control {
        let state = State::Waiting(Box::new(queue));
        let (inbox, done) = (Vec::new(), Vec::new());
        Control { state, sleepers: Sleepers::default(), look_at: None, silent: None, inbox, done, failed: 0 }
    }

    /// Opens the driver, if it is not open.
    pub(super) fn open(&mut self, shared: &Shared) -> Result<(), Error> {
        if let State::Waiting(queue) = &mut self.state {
            let driver = shared.open_driver(LaneUse::Shared)?;
            queue.set_sink(shared.new_sink());
            if let State::Waiting(queue) = std::mem::replace(&mut self.state, State::Moving) {
                let mut lane = QueueLane::new(*queue, driver);
                lane.set_reopen(shared.reopener(LaneUse::Shared, None));
                self.state = State::Open(Box::new(lane));
            }
        }
        Ok(())
    }

    /// When the shared queue must be run even if nothing completes. A lane that asks is rung if that changes to an earlier time.
    pub(super) fn next_wakeup(&mut self) -> Option<Time> {
        let alarm = self.lane_mut().and_then(|lane| lane.next_wakeup());
        let alarm = Time::earliest(alarm, self.look_at);
        self.sleepers.tell(alarm);
        alarm
    }

    /// The queue's lane, for dropping the device.
    pub(super) fn take_lane(&mut self) -> Option<SharedLane> {
        match std::mem::replace(&mut self.state, State::Moving) {
            State::Open(lane) => Some(*lane),
            _ => None,
        }
    }

    pub(super) fn queue(&mut self) -> &mut SchedQueue {
        match &mut self.state {
            State::Open(lane) => &mut lane.queue,
            State::Waiting(queue) => queue,
            State::Moving => unreachable!("the state only moves inside `open`"),
        }
    }

    pub(super) fn lane_mut(&mut self) -> Option<&mut SharedLane> {
        match &mut self.state {
            State::Open(lane) => Some(lane),
            _ => None,
        }
    }

    /// Lists the descriptors that show progress of the shared queue. A lane that sleeps without them is rung when
    /// there is something to do.
    pub(super) fn listen(&mut self, handles: &mut Vec<i32>) -> bool {
        let complete = self.lane_mut().is_some_and(|lane| lane.wait_handles(handles));
        self.sleepers.listen(complete);
        complete
    }
}

/// Wakes the lanes that got bios. The system calls that this takes are made without the queue's lock.
fn ring_lanes(runs: &mut Runs<'_>) {
    let mut parts = Parts::begin();
    runs.wakes.drain(..).for_each(|cell| cell.mailbox.ring());
    parts.end(Part::Wake);
}

/// A thread's rounds of the shared queue.
struct Rounds<'a, 'r> {
    shared: &'a Shared,
    now: Time,
    is_first: bool,
    runs: Option<Runs<'r>>,
}

impl Rounds<'_, '_> {
    /// For [`Runner::run`](super::runner::Runner::run).
    #[inline(never)]
    fn step(&mut self, control: Option<&mut Control>) -> bool {
        match control {
            Some(control) => {
                // Other threads keep this one here, and meanwhile time passes.
                if !std::mem::take(&mut self.is_first) {
                    self.now = self.now.max(self.shared.clock.now());
                }
                self.shared.run_locked(self.now, control, self.runs.as_mut());
            }
            None => self.runs.iter_mut().for_each(ring_lanes),
        }
        self.runs.as_ref().is_some_and(|runs| !runs.wakes.is_empty())
    }
}

impl Shared {
    /// Runs the shared queue, or leaves that to the thread that runs it already.
    pub(super) fn run_control(&self, now: Time, runs: Option<Runs<'_>>) {
        let mut rounds = Rounds { shared: self, now, is_first: true, runs };
        if !self.control.run_at_once(|control| rounds.step(control), || self.call_runner()) {
            if let Some(runs) = &mut rounds.runs
                && !runs.outbox.bios.is_empty()
            {
                runs.outbox.post(self);
            }
            self.control.run(|control| rounds.step(control), || self.call_runner());
        }
    }

    /// Has another thread run the shared queue, for which there is work. A lane with bios there that does not sleep runs
    /// the queue by itself, or visits it before it sleeps; the others rely on the lanes that are rung here.
    #[cold]
    fn call_runner(&self) {
        self.lanes.ring_pollers();
    }

    /// Visits the shared queue after waiting for the thread that runs it.
    #[track_caller]
    pub(super) fn with_control<R>(&self, visit: impl FnOnce(&mut Control) -> R) -> R {
        let work = |control: &mut Control| self.run_locked(self.clock.now(), control, None);
        self.control.with(visit, work, || self.call_runner())
    }

    /// One round of the shared queue: takes the inbox, runs, delivers.
    #[inline]
    fn run_locked(&self, now: Time, control: &mut Control, mut runs: Option<&mut Runs<'_>>) {
        let waits = self.unplugs.take();
        // A thread that puts bios there sets the mark before it tries to run the queue.
        if self.has_inbox.swap(false, Ordering::SeqCst) {
            std::mem::swap(&mut *lock(&self.inbox), &mut control.inbox);
        }
        self.look_at_silence(now, control);
        self.run_leftovers(now);
        let outbox = runs.as_mut().map(|runs| &mut *runs.outbox);
        if control.lane_mut().is_none() && !self.open_control(control, outbox) {
            return self.deliver(control, runs);
        }
        let outbox = runs.as_mut().map(|runs| &mut *runs.outbox);
        match self.scope.is_some() {
            true => self.run_scoped(now, control, outbox, waits),
            false => {
                self.control_counters.lock_acquisitions.add(1);
                self.run_queue(now, control, outbox, waits);
            }
        }
        if !control.done.is_empty() || control.lane_mut().is_some_and(|lane| lane.queue.has_done()) {
            self.deliver(control, runs);
        }
    }

    /// [`Shared::run_queue`] with the lock held that the queue shares with others.
    #[cold]
    fn run_scoped(&self, now: Time, control: &mut Control, outbox: Option<&mut Outbox>, waits: bool) {
        let stamps = self.settings.lock_stamps;
        let _held = self.scope.as_ref().map(|lock| lock.hold(&self.control_counters, stamps));
        self.run_queue(now, control, outbox, waits);
    }

    /// Opens the driver of the shared queue, if there are bios for it. `false`: there are none, or they have failed.
    #[cold]
    fn open_control(&self, control: &mut Control, outbox: Option<&mut Outbox>) -> bool {
        if let Some(outbox) = outbox {
            control.inbox.extend(outbox.bios.drain(..).map(|bio| (bio, outbox.prebuilt)));
        }
        if !control.inbox.is_empty() && control.open(self).is_err() {
            self.refuse(control);
        }
        control.lane_mut().is_some()
    }

    /// `waits`: a thread waits for its bios, so the queue is not left plugged.
    #[inline(always)]
    fn run_queue(&self, now: Time, control: &mut Control, outbox: Option<&mut Outbox>, waits: bool) {
        let mut parts = Parts::begin();
        let Control { state: State::Open(lane), inbox, look_at, sleepers, silent, .. } = control else {
            return;
        };
        *look_at = None;
        if lane.queue.barrier_pending() || inbox.iter().any(|(bio, _)| freezes(bio)) {
            *look_at = self.lanes.drain(now, &mut lane.queue, self.clock.simulated().is_some());
        }
        if lane.queue.geometry().size != self.extent.size() {
            let (size, largest) = self.extent.sizes();
            lane.queue.set_size(size, largest);
        }
        if !inbox.is_empty() {
            inbox.drain(..).for_each(|(bio, prebuilt)| lane.queue.submit_prebuilt(now, bio, prebuilt));
        }
        let mut polled = false;
        // Behind what this lane has put into the inbox before.
        if let Some(outbox) = outbox {
            polled = outbox.polled;
            if !outbox.bios.is_empty() {
                lane.queue.submit_batch(now, &mut outbox.bios, outbox.prebuilt);
            }
        }
        if waits {
            lane.queue.unplug_for_waiter(now);
        }
        if lane.queue.is_denied_flush() && self.flushes.queue_may_go_on() {
            lane.queue.flush_freed(now);
        }
        parts.end(Part::Enqueue);
        let stalled = lane.queue.stalled_barriers();
        let was_idle = lane.begin(now);
        if polled && was_idle && !lane.queue.has_done() {
            lane.queue.unplug_for_waiter(now);
        }
        if !lane.queue.holds_all_back() {
            lane.end(now, 0, was_idle);
        }
        if lane.queue.stalled_barriers() > stalled {
            *lock(&self.stall) = self.lanes.blame();
        }
        let (is_silent, is_plugged, in_flight) =
            (lane.queue.is_silent(), lane.queue.is_plugged(), lane.in_flight());
        self.note_silence(is_silent, silent);
        if self.unplugs.tell(is_plugged) {
            self.control.again();
        }
        self.control_in_flight.store(in_flight, Ordering::Relaxed);
        // The lane that runs the queue now may go away.
        if sleepers.must_be_rung(in_flight, || Time::earliest(lane.next_wakeup(), *look_at)) {
            self.lanes.ring_pollers();
        }
        parts.end(Part::Dispatch);
    }

    /// Fails the shared queue of a disk that does not answer, or has it go on. Called before bios are taken in.
    #[inline]
    fn look_at_silence(&self, now: Time, control: &mut Control) {
        if self.gate.look().is_failed() {
            self.look_at_failed(now, control);
        }
    }

    #[cold]
    fn look_at_failed(&self, now: Time, control: &mut Control) {
        if !self.may_return() {
            return control.queue().set_failed(now, true);
        }
        self.extent.set_silent(false);
        // The size may have changed meanwhile. If it cannot be measured, the disk's own errors will tell.
        let _ = self.extent.look(false, &*self.disk, &self.gate);
        let queue = control.queue();
        queue.set_failed(now, false);
        queue.recovered();
        self.flushes.fail_once();
        self.gate.set_failed(false);
        if self.is_silent() {
            // Another queue has become so meanwhile.
            return self.fail_silent();
        }
        // The gate is as before the failure: a lane that has been idle since must look before it uses its own queue, which still refuses.
        self.gate.announce_change();
        self.lanes.ring_all();
    }

    /// Delivers completed bios to their lanes.
    fn deliver(&self, control: &mut Control, runs: Option<&mut Runs<'_>>) {
        if let Control { state: State::Open(lane), done, .. } = control {
            lane.queue.take_done(done);
        }
        let mut done = std::mem::take(&mut control.done);
        let failed = self.control_counters.bios_failed.get();
        if failed != control.failed {
            control.failed = failed;
            self.extent.look_after(&done, &*self.disk, &self.gate);
        }
        let mut parts = Parts::begin();
        match runs {
            // The route of a bio that has frozen the lanes is another one.
            Some(runs) if done.iter().all(|bio| bio.route() == runs.route) => append(runs.done, &mut done),
            runs => self.distribute(&mut done, runs),
        }
        control.done = done;
        parts.end(Part::Deliver);
    }

    /// Delivers bios of several lanes.
    fn distribute(&self, done: &mut Vec<Bio>, runs: Option<&mut Runs<'_>>) {
        let (own, mut kept, wakes) = match runs {
            Some(runs) => (Some(runs.route), Some(&mut *runs.done), Some(&mut *runs.wakes)),
            None => (None, None, None),
        };
        let of_others = done.drain(..).filter_map(|bio| {
            self.gate.thaw_after(&bio);
            let route = lane_of(&bio);
            match &mut kept {
                Some(kept) if own == Some(route) => {
                    kept.push(bio);
                    None
                }
                _ => Some((route, bio)),
            }
        });
        self.lanes.post(of_others, wakes);
    }

    /// The driver cannot be opened: bios that came for it fail. They are not counted as failures, because callers try
    /// again after other channels have been closed.
    #[cold]
    fn refuse(&self, control: &mut Control) {
        for (mut bio, _) in control.inbox.drain(..) {
            bio.fail(NO_CHANNEL);
            control.done.push(bio);
        }
    }
}

#[cfg(test)]
mod tests;
