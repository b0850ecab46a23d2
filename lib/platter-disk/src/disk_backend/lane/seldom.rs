//! What a lane does seldom: opening, cancelling, and its work when the gate is not in its usual state, bios are with the
//! shared queue, depth is short, or requests have been given up.

use super::super::Shared;
use super::super::control::{Outbox, Runs};
use super::super::depth::Depth;
use super::super::gate::View;
use super::DiskLane;
use crate::bounce::Bouncer;
use crate::sync::Ordering;
use crate::wake::Sleeper;
use platter_block::backend::LaneUse;
use platter_block::counters::Counters;
use platter_block::fault::Error;
use platter_block::lane::{Cancel, Lane};
use platter_block::time::{Span, Time};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

/// Most bios that are left in the inbox; the next one is handed over with them. Few, because on a busy machine the thread
/// that they are left to may wait long for a processor.
const MOST_LEFT: u32 = 4;

impl DiskLane {
    pub(in crate::disk_backend) fn open(shared: &Arc<Shared>, lane_use: LaneUse) -> Result<DiskLane, Error> {
        let gate = shared.gate.look();
        // Lanes must not take the last channel of a disk that has only some: flushes and barriers need one.
        if shared.disk.max_channels().is_some() {
            shared.with_control(|control| control.open(shared))?;
        }
        // Before other threads know the lane, so that nothing remains of a lane that cannot be opened.
        let driver = match gate.has_elevator() {
            true => None,
            false => Some(shared.open_driver(lane_use)?),
        };
        let (cell, route) = shared.lanes.add(Arc::new(Counters::default()), lane_use);
        let queue = &shared.settings.queue;
        let mut lane = DiskLane {
            shared: Arc::clone(shared),
            cell,
            route,
            lane_use,
            plug: VecDeque::with_capacity(shared.settings.queue.nr_requests as usize),
            local: None,
            expected: View::NEVER,
            looked: View::NEVER,
            regions: Vec::new(),
            busy: false,
            silent: None,
            left: None,
            fails: false,
            has_timeouts: queue.timeout.is_some() || queue.slow_timeout.is_some(),
            depth: Depth::default(),
            away: 0,
            queued_behind: 0,
            done: Vec::new(),
            wakes: Vec::new(),
            outbox: Outbox::default(),
            examiner: shared.examiner(shared.extent.size()),
            sleeper: Sleeper::default(),
            listed: RefCell::default(),
            bouncer: Bouncer::default(),
            size: shared.extent.size(),
            sink_change: 0,
            failed: 0,
        };
        driver.into_iter().for_each(|driver| lane.set_driver(driver));
        Ok(lane)
    }

    /// See [`Lane::next_wakeup`].
    pub(super) fn find_wakeup(&self) -> Option<Time> {
        if self.has_done() {
            return Some(Time(0));
        }
        let local = self.local.as_ref().and_then(Lane::next_wakeup);
        if !self.needs_shared() {
            return local;
        }
        if self.cell.mailbox.has_mail() {
            return Some(Time(0));
        }
        let shared = self.shared.with_control(|control| control.next_wakeup());
        Time::earliest(local, shared)
    }

    /// See [`Lane::cancel`].
    pub(super) fn cancel_all(&mut self, now: Time, which: &Cancel) {
        self.cancel_plugged(which);
        if let Some(local) = &mut self.local {
            local.cancel(now, which);
            local.take_done(&mut self.done);
        }
        if self.away > 0 {
            self.cancel_away(now, which);
        }
    }

    /// The gate is not in its usual state, or a barrier has `counted` the contents of the lane's queue as complete.
    /// Returns whether the lane may use its own queue.
    #[cold]
    pub(super) fn enter_with_care(&mut self, now: Time, counted: bool) -> bool {
        if counted && let Some(local) = &mut self.local {
            local.queue.count_as_complete();
        }
        loop {
            let gate = self.shared.gate.look();
            if self.looked != gate.open() {
                self.looked = gate.open();
                self.look_up_changes();
            }
            if gate.is_shared() || gate.is_frozen() {
                self.send_all();
                return false;
            }
            if self.local.is_none() && !self.open_late() {
                return false;
            }
            if self.fails {
                self.look_at_gate(now);
            }
            self.expected = gate.open();
            let enters = match self.busy {
                true => self.shared.gate.look() == self.expected,
                false => self.cell.busy.enter(&self.shared.gate, self.expected),
            };
            if enters {
                return true;
            }
        }
    }

    /// Runs the shared queue if no other thread does, and collects mail.
    pub(in crate::disk_backend) fn help(&mut self, now: Time) {
        let before = self.done.len();
        let runs = Runs {
            route: self.route,
            outbox: &mut self.outbox,
            done: &mut self.done,
            wakes: &mut self.wakes,
        };
        self.shared.run_control(now, Some(runs));
        self.cell.mailbox.take(&mut self.done);
        self.has_come_back(before);
    }

    /// Bios have come back from the shared queue: those of `done` from index `before` on.
    pub(in crate::disk_backend) fn has_come_back(&mut self, before: usize) {
        self.away -= self.done.len() - before;
    }

    /// Waits for bios that may be in the shared queue.
    pub(super) fn wait_shared(&mut self, now: Time, timeout: Option<Span>) {
        if self.has_done() {
            return self.post();
        }
        if self.away > 0 {
            // The thread that runs the queue next starts the device, so this one need not wait for its lock.
            self.shared.unplugs.ask();
        }
        if self.leaves_bios() {
            return self.sleep_on(now, timeout, &[]);
        }
        self.run(now);
        if self.away > 0 && !self.shared.shows_completions.load(Ordering::Relaxed) {
            // A completion that no descriptor shows is there at the next run.
            self.help(now);
        }
        if !self.has_done() {
            self.sleep_on(now, timeout, &[]);
        }
    }

    /// Whether the lane may leave its bios in the inbox, because a thread that has been woken will run the queue. It does so
    /// only while the device has much more to do than waits there, so that it is not idle in the meantime.
    fn leaves_bios(&mut self) -> bool {
        let may = self.away > 0
            && !self.busy
            && self.shared.shows_completions.load(Ordering::Relaxed)
            && self.shared.lanes.woken.any();
        if !may {
            return false;
        }
        // That thread looks for what is there when it runs.
        self.post();
        let most = MOST_LEFT.min(self.shared.control_in_flight.load(Ordering::Relaxed) / 4);
        self.queued_behind < most && self.shared.lanes.woken.any()
    }

    /// Whether the lane has something in the shared queue that `run` must look after.
    pub(in crate::disk_backend) fn needs_shared(&self) -> bool {
        self.away > 0
    }

    /// Visits the lane with the lock held that its queue shares with others, if there is one.
    #[cold]
    pub(super) fn locked<R>(&mut self, visit: impl FnOnce(&mut DiskLane) -> R) -> R {
        let (shared, cell) = (Arc::clone(&self.shared), Arc::clone(&self.cell));
        let stamps = shared.settings.lock_stamps;
        let _held = shared.scope.as_ref().map(|lock| lock.hold(&cell.counters, stamps));
        visit(self)
    }

    /// Without the caller's plug: a bio goes to a queue by itself.
    #[cold]
    pub(super) fn flush_single(&mut self, now: Time) {
        // Programs with channels read the clock when they poll. A deadline counts from now, not from that reading.
        let now = now.max(self.shared.clock.now());
        if self.enter(now) {
            self.locked(|lane| lane.queue_rest(now));
        }
        if self.away > 0 {
            self.help(now);
        }
    }

    /// Some lane is short of depth.
    #[cold]
    pub(super) fn share_depth(&mut self) {
        let Some(local) = &mut self.local else { return };
        self.depth.give_back(&self.shared, &mut local.queue);
    }

    /// A barrier may have waited for this lane.
    #[cold]
    pub(super) fn help_barrier(&mut self, now: Time) {
        if self.shared.gate.look().is_frozen() {
            self.help(now);
        }
    }

    /// The gate is not in its usual state while the lane has requests.
    #[cold]
    pub(super) fn look_at_gate(&mut self, now: Time) {
        let fails = self.shared.gate.look().is_failed();
        if self.fails != fails
            && let Some(local) = &mut self.local
        {
            self.fails = fails;
            local.queue.set_failed(now, fails);
            local.take_done(&mut self.done);
        }
        self.help_barrier(now);
    }

    /// Tells the device whether the lane's queue is silent.
    pub(super) fn look_at_silence(&mut self, now: Time) {
        let Some(local) = &mut self.local else { return };
        self.shared.note_silence(local.queue.is_silent(), &mut self.silent);
        if self.fails && !self.shared.gate.look().is_failed() {
            self.fails = false;
            local.queue.set_failed(now, false);
        }
    }
}
