//! A lane of a leaf: it uses its own queue while the device has no elevator, and the shared queue otherwise.

use super::control::Runs;
use super::depth::Depth;
use super::doubts::Owner;
use super::gate::View;
use super::lanes::LaneCell;
use super::listen::Listed;
use super::teller::Teller;
use super::{AnyLane, Shared};
use crate::bounce::Bouncer;
use crate::sync::{Ordering, lock};
use crate::wake::Sleeper;
use platter_block::backend::LaneUse;
use platter_block::bio::{Bio, Flags, Op};
use platter_block::counters::Counters;
use platter_block::driver::Driver;
use platter_block::fault::{Error, Fault, Kind};
use platter_block::lane::{Bell, Lane, QueueLane};
use platter_block::queue::{Rest, append};
use platter_block::segment::{Region, RegionId};
use platter_block::time::{Span, Time};
use std::cell::RefCell;
use std::sync::Arc;

mod cancel;
mod send;

/// Bios with any of these flags may have to go through the shared queue.
const ORDERED: Flags =
    Flags::FUA.union(Flags::PREFLUSH).union(Flags::SOFT_BARRIER).union(Flags::HARD_BARRIER);

pub(super) struct LeafLane {
    pub(super) shared: Arc<Shared>,
    pub(super) cell: Arc<LaneCell>,
    pub(super) route: u32,
    lane_use: LaneUse,
    /// The number of the lane's own queue, for reports to the device.
    pub(super) owner: Owner,
    /// The caller's plug: bios in order that have not entered a queue yet.
    plug: Vec<Bio>,
    pub(super) local: Option<AnyLane>,
    /// The gate's state in which the lane may use its own queue; [`View::NEVER`] while it has none.
    expected: View,
    /// The regions that the lane's driver knows.
    regions: Vec<RegionId>,
    /// Timeout of bios without a deadline.
    timeout: Option<Span>,
    /// Whether `cell.busy` is set.
    busy: bool,
    /// The lane's driver still has given-up requests; other threads need not wait for these.
    lingers: bool,
    /// The driver of the shared queue may still have given-up requests of this lane. `lingers` is then set too.
    lingers_away: bool,
    pub(super) depth: Depth,
    /// Bios of this lane in the shared queue.
    pub(super) away: usize,
    pub(super) done: Vec<Bio>,
    pub(super) sleeper: Sleeper,
    pub(super) listed: RefCell<Listed>,
    bouncer: Bouncer,
    /// Whether some bio in the plug may need the shared queue.
    ordered: bool,
    /// The device's size in the lane's queue.
    size: u64,
    /// Failed bios of the lane's queue, as of the last check.
    failed: u64,
}

impl LeafLane {
    pub(super) fn open(shared: &Arc<Shared>, lane_use: LaneUse) -> Result<LeafLane, Error> {
        let gate = shared.gate.look();
        // Before other threads know the lane, so that nothing remains of a lane that cannot be opened.
        let driver = match gate.has_elevator() {
            true => None,
            false => Some(shared.open_driver(lane_use)?),
        };
        let owner = shared.doubts.new_owner();
        let (cell, route) = shared.lanes.add(Arc::new(Counters::default()), owner, lane_use);
        let mut lane = LeafLane {
            shared: Arc::clone(shared),
            cell,
            route,
            lane_use,
            owner,
            plug: Vec::with_capacity(shared.settings.queue.nr_requests as usize),
            local: None,
            expected: View::NEVER,
            regions: Vec::new(),
            timeout: shared.settings.queue.timeout,
            busy: false,
            lingers: false,
            lingers_away: false,
            depth: Depth::default(),
            away: 0,
            done: Vec::new(),
            sleeper: Sleeper::default(),
            listed: RefCell::default(),
            bouncer: Bouncer::default(),
            ordered: false,
            size: shared.extent.size(),
            failed: 0,
        };
        driver.into_iter().for_each(|driver| lane.set_driver(driver));
        Ok(lane)
    }

    /// Gives the lane a queue of its own.
    fn set_driver(&mut self, driver: Box<dyn Driver>) {
        self.cell.set_driver(&driver);
        let mut queue = self.shared.make_queue(&self.cell.counters, 1);
        queue.set_sink(self.shared.new_sink());
        queue.set_watch(Some(Teller::new(&self.shared, self.owner, Some(Arc::clone(&self.cell)))));
        let mut local = QueueLane::new(queue, driver);
        local.set_reopen(self.shared.reopener(self.lane_use, Some(Arc::clone(&self.cell))));
        self.local = Some(local);
        // Sleeping threads do not listen to it yet.
        self.cell.mailbox.ring();
        // The driver was told of the regions when it was opened; the next batch looks up which they are.
        self.regions.clear();
        self.expected = View::NEVER;
    }

    /// Moves the plugged bios to the lane's own queue or to the shared one.
    #[inline]
    fn flush_plug(&mut self, now: Time) {
        if let Some(timeout) = self.timeout {
            self.set_deadlines(now + timeout);
        }
        let gate = &self.shared.gate;
        let counted = self.busy && self.cell.busy.go_on();
        let enters = match self.busy {
            true => gate.look() == self.expected && !counted,
            false => gate.look() == self.expected && self.cell.busy.enter(gate, self.expected),
        };
        if !enters {
            return self.flush_with_care(now, counted);
        }
        self.busy = true;
        self.fill_queue(now);
    }

    /// Moves the bios to the lane's own queue.
    #[inline(always)]
    fn fill_queue(&mut self, now: Time) {
        if self.ordered {
            return self.flush_ordered(now);
        }
        let _held = match &self.shared.scope {
            None => None,
            Some(lock) => Some(lock.hold(&self.cell.counters, self.shared.settings.lock_stamps)),
        };
        if let Some(local) = &mut self.local {
            for bio in self.plug.drain(..) {
                local.queue.submit_sound(now, bio);
            }
        }
    }

    /// The gate is not in its usual state, or a barrier has `counted` the contents of the lane's queue as complete.
    #[cold]
    fn flush_with_care(&mut self, now: Time, counted: bool) {
        if counted && let Some(local) = &mut self.local {
            local.queue.count_as_complete();
        }
        loop {
            let gate = self.shared.gate.look();
            self.look_up_changes();
            if gate.is_shared() || gate.is_closed() {
                return self.send_all();
            }
            if self.local.is_none() && !self.open_late() {
                return;
            }
            self.expected = gate.open();
            if self.busy && self.shared.gate.look() == self.expected {
                break;
            }
            if !self.busy && self.cell.busy.enter(&self.shared.gate, self.expected) {
                self.busy = true;
                break;
            }
        }
        self.fill_queue(now);
    }

    #[cold]
    fn set_deadlines(&mut self, at: Time) {
        for bio in self.plug.iter_mut().filter(|bio| bio.deadline().is_none()) {
            bio.set_deadline(Some(at));
        }
    }

    /// Updates the device's size, registers the present regions with the lane's driver, and withdraws the others.
    fn look_up_changes(&mut self) {
        if self.size != self.shared.extent.size() {
            self.resize();
        }
        let Some(local) = &mut self.local else { return };
        let regions = lock(&self.shared.regions);
        self.regions.retain(|&id| {
            let stays = regions.iter().any(|region| region.id == id);
            if !stays {
                local.unregister(id);
            }
            stays
        });
        for region in regions.iter() {
            if !self.regions.contains(&region.id) {
                local.register(region);
                self.regions.push(region.id);
            }
        }
    }

    /// The device's size differs from the one in the lane's queue.
    #[cold]
    fn resize(&mut self) {
        self.size = self.shared.extent.size();
        if let Some(local) = &mut self.local {
            self.shared.extent.tell(&mut local.queue);
        }
    }

    /// Plugs a bounced bio in place of a misaligned one, if bouncing is allowed and helps.
    #[cold]
    fn plug_bounced(&mut self, mut bio: Bio, fault: Fault) {
        let limits = &self.shared.geometry.limits;
        if let Err(range) = limits.check_range(bio.pos(), bio.len(), self.shared.extent.size()) {
            // At once: if it waited in the plug while the disk grows, a queue would accept it with this memory.
            let fault = self.shared.extent.past_the_end(&bio, range);
            return self.refuse(bio, fault);
        }
        if fault.kind == Kind::Misaligned && self.shared.settings.bounce {
            match self.bouncer.wrap(limits, bio) {
                Ok(bio) => return self.plug.push(bio),
                Err(refused) => bio = refused,
            }
        }
        self.refuse(bio, fault);
    }

    /// Fails a bio that is in no queue.
    #[cold]
    fn refuse(&mut self, mut bio: Bio, fault: Fault) {
        bio.fail(fault);
        self.cell.counters.refused(&bio);
        self.done.push(bio);
    }

    #[cold]
    fn unwrap_bounced(&mut self) {
        for bio in &mut self.done {
            if let Some(bytes) = self.bouncer.unwrap(bio) {
                self.cell.counters.bytes_bounced.add(bytes);
            }
        }
        if self.is_idle() {
            self.bouncer.out = 0;
        }
    }

    /// The device had an elevator when the lane was opened and has none now.
    #[cold]
    fn open_late(&mut self) -> bool {
        match self.shared.open_driver(self.lane_use) {
            Ok(driver) => {
                self.set_driver(driver);
                self.look_up_changes();
                self.cell.mailbox.ring();
                true
            }
            Err(error) => {
                // Not counted as failures, like those of the shared queue.
                for mut bio in self.plug.drain(..) {
                    bio.fail(error.fault);
                    self.done.push(bio);
                }
                false
            }
        }
    }

    /// Blocks until the lane's own queue has something to do.
    fn wait_local(&mut self, now: Time, timeout: Option<Span>) {
        let Some(local) = &mut self.local else { return };
        self.depth.borrow(&self.shared, &mut local.queue);
        if local.in_flight() > 0 || local.queue.has_work() {
            return local.wait(now, timeout);
        }
        // Only the passing of time can end this wait: the end of a pause, or a deadline.
        if !local.queue.is_idle() {
            self.sleep_on(now, timeout, &[]);
        }
    }

    /// Runs the shared queue if no other thread does, and collects mail.
    pub(super) fn help(&mut self, now: Time) {
        let before = self.done.len();
        self.shared.run_control(now, Some(Runs { route: self.route, done: &mut self.done }));
        self.cell.mailbox.take(&mut self.done);
        self.has_come_back(before);
    }

    /// Bios have come back from the shared queue: those of `done` from index `before` on.
    pub(super) fn has_come_back(&mut self, before: usize) {
        self.away -= self.done.len() - before;
        let given_up = |bio: &Bio| bio.status().is_err_and(|fault| fault.kind == Kind::TimedOut);
        if self.done[before..].iter().any(given_up) {
            (self.lingers, self.lingers_away) = (true, true);
        }
    }

    /// Whether the lane has something in the shared queue that `run` must look after. Given-up requests there have to
    /// wait while the lane's own queue is busy, because `run` would otherwise need another test for each I/O.
    pub(super) fn needs_shared(&self) -> bool {
        self.away > 0 || self.lingers_away && !self.busy
    }

    // Also called when the queue is run for given-up requests, which is rare.
    #[inline(always)]
    fn run_local(&mut self, now: Time) {
        let Some(local) = &mut self.local else { return };
        self.depth.borrow(&self.shared, &mut local.queue);
        match &self.shared.scope {
            None => local.run(now),
            Some(lock) => {
                let _held = lock.hold(&self.cell.counters, self.shared.settings.lock_stamps);
                local.run(now);
            }
        }
        if local.has_done() {
            local.take_done(&mut self.done);
            let failed = self.cell.counters.bios_failed.get();
            if failed != self.failed {
                self.failed = failed;
                self.shared.extent.look_after(&self.done, &*self.shared.disk, &self.shared.gate);
            }
        }
        if self.shared.tokens.is_wanted() {
            self.share_depth(now);
        }
    }

    /// Some lane is short of depth.
    #[cold]
    fn share_depth(&mut self, now: Time) {
        let Some(local) = &mut self.local else { return };
        if self.depth.is_hungry() && self.shared.gate.look().is_stuck() {
            // Bios that wait for depth would get none, so they fail.
            local.queue.set_stuck(now, true);
            local.queue.set_stuck(now, false);
            local.take_done(&mut self.done);
        }
        self.depth.give_back(&self.shared, &mut local.queue);
    }

    /// Announces whether other threads have to wait for the lane's own queue.
    #[inline]
    fn rest(&mut self, now: Time) {
        match self.local.as_ref().map_or(Rest::Settled, |local| local.queue.rest()) {
            Rest::Settled => self.leave(now),
            Rest::Started => {
                self.cell.busy.all_started();
                if self.shared.gate.look() != self.expected {
                    self.help_barrier(now);
                }
            }
            Rest::Waits => {}
        }
    }

    #[inline]
    fn leave(&mut self, now: Time) {
        self.busy = false;
        if let Some(local) = &mut self.local {
            if self.depth.is_held() {
                self.depth.give_back(&self.shared, &mut local.queue);
            }
            // Empty except for given-up requests.
            self.lingers = local.in_flight() > 0 || self.lingers_away;
        }
        self.cell.busy.leave();
        if self.shared.gate.look() != self.expected {
            self.help_barrier(now);
        }
    }

    /// A barrier may have waited for this lane.
    #[cold]
    fn help_barrier(&mut self, now: Time) {
        if self.shared.gate.look().is_closed() {
            self.help(now);
        }
    }

    /// Runs the queues only for given-up requests.
    #[cold]
    fn run_lingering(&mut self, now: Time) {
        self.run_local(now);
        if self.lingers_away {
            self.help(now);
            self.lingers_away = self.shared.doubts.has_given_up(Owner::CONTROL);
        }
        self.lingers = self.lingers_away || self.local.as_ref().is_some_and(|local| local.in_flight() > 0);
        if let Some(local) = &mut self.local {
            self.depth.give_back(&self.shared, &mut local.queue);
        }
    }
}

impl Lane for LeafLane {
    #[inline]
    fn submit(&mut self, now: Time, bio: Bio) {
        self.ordered |= bio.flags().intersects(ORDERED) || bio.op() == Op::Flush;
        // The only check of a bio's memory: the queues rely on it.
        match self.shared.geometry.limits.check_memory(&bio, self.size) {
            Ok(()) => self.plug.push(bio),
            Err(fault) => self.plug_bounced(bio, fault),
        }
        if !self.shared.settings.caller_plug {
            // Programs with channels read the clock when they poll. A deadline counts from now, not from that
            // reading.
            let now = now.max(self.shared.clock.now());
            self.flush_plug(now);
            if self.away > 0 {
                self.help(now);
            }
        }
    }

    #[inline]
    fn run(&mut self, now: Time) {
        if !self.plug.is_empty() {
            self.flush_plug(now);
        }
        if self.busy {
            self.run_local(now);
            self.rest(now);
        } else if self.lingers {
            self.run_lingering(now);
        }
        if self.away > 0 && !self.has_all_mail() {
            self.help(now);
        }
    }

    #[inline]
    fn take_done(&mut self, out: &mut Vec<Bio>) {
        if self.bouncer.out > 0 {
            self.unwrap_bounced();
        }
        append(out, &mut self.done);
    }

    #[inline]
    fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    fn next_wakeup(&self) -> Option<Time> {
        let local = self.local.as_ref().and_then(Lane::next_wakeup);
        if !self.needs_shared() {
            return local;
        }
        let shared = self.shared.with_control(|control| control.next_wakeup());
        Time::earliest(local, shared)
    }

    fn unplug(&mut self, now: Time) {
        if self.away > 0 {
            self.shared.with_control(|control| control.queue().unplug_for_waiter(now));
        }
    }

    fn wait(&mut self, now: Time, timeout: Option<Span>) {
        if !self.plug.is_empty() {
            self.flush_plug(now);
        }
        if self.has_done() {
            return;
        }
        if self.away == 0 {
            return self.wait_local(now, timeout);
        }
        self.run(now);
        self.unplug(now);
        if self.away > 0 {
            self.help(now);
        }
        if !self.has_done() {
            self.sleep_on(now, timeout, &[]);
        }
    }

    fn sleep(&mut self, now: Time, timeout: Option<Span>, others: &[i32]) {
        if !self.has_done() {
            self.sleep_on(now, timeout, others);
        }
    }

    fn bell(&self) -> Option<Arc<dyn Bell>> {
        let cell: Arc<LaneCell> = Arc::clone(&self.cell);
        Some(cell)
    }

    fn wait_handles(&self, out: &mut Vec<i32>) -> bool {
        self.list_handles(out)
    }

    fn in_flight(&self) -> u32 {
        let shared = match self.away > 0 {
            true => self.shared.control_in_flight.load(Ordering::Relaxed),
            false => 0,
        };
        self.local.as_ref().map_or(0, Lane::in_flight) + shared
    }

    fn cancel(&mut self, now: Time, token: u64) {
        self.cancel_plugged(token);
        if let Some(local) = &mut self.local {
            local.cancel(now, token);
            local.take_done(&mut self.done);
        }
        if self.away > 0 {
            self.cancel_away(now, token);
        }
    }

    fn is_idle(&self) -> bool {
        self.plug.is_empty() && self.away == 0 && self.local.as_ref().is_none_or(Lane::is_idle)
    }

    fn lingers(&self) -> bool {
        self.lingers
    }

    fn register(&mut self, region: &Region) {
        if let Some(local) = &mut self.local {
            local.register(region);
        }
    }

    fn unregister(&mut self, region: RegionId) {
        if let Some(local) = &mut self.local {
            local.unregister(region);
        }
    }
}

impl Drop for LeafLane {
    fn drop(&mut self) {
        if let Some(local) = self.local.take() {
            // The wait is limited: requests that the disk does not return in time are left to another thread.
            self.shared.close_lane(local, self.owner);
        }
        self.cell.busy.leave();
        self.depth.close(&self.shared);
        // Bios in the shared queue are carried out without the lane.
        self.unplug(self.shared.clock.now());
        self.shared.lanes.remove(self.route, self.away);
        if self.away > 0 || self.shared.gate.look().is_closed() {
            self.shared.run_control(self.shared.clock.now(), None);
        }
    }
}
