//! A lane of a disk: it uses its own queue while the device has no elevator, and the shared queue otherwise.

use super::control::Outbox;
use super::depth::Depth;
use super::gate::View;
use super::lanes::LaneCell;
use super::listen::Listed;
use super::silence::Silent;
use super::{OwnLane, Shared};
use crate::bounce::Bouncer;
use crate::sync::Ordering;
use crate::wake::Sleeper;
use platter_block::backend::LaneUse;
use platter_block::bio::Bio;
use platter_block::driver::Driver;
use platter_block::lane::{Bell, Cancel, Lane, Left};
use platter_block::queue::{Examiner, Rest, append};
use platter_block::segment::{Region, RegionId};
use platter_block::time::{Span, Time};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

mod seldom;
mod send;

pub(super) struct DiskLane {
    pub(super) shared: Arc<Shared>,
    pub(super) cell: Arc<LaneCell>,
    pub(super) route: u32,
    pub(super) lane_use: LaneUse,
    /// The caller's plug: bios in order that have not entered a queue yet.
    plug: VecDeque<Bio>,
    pub(super) local: Option<OwnLane>,
    /// The gate's state in which the lane may use its own queue; [`View::NEVER`] while it has none.
    expected: View,
    /// The gate's count of changes that the lane has looked up.
    looked: View,
    /// The regions that the lane's driver knows.
    regions: Vec<RegionId>,
    /// Whether `cell.busy` is set.
    busy: bool,
    /// The lane's own queue is silent.
    silent: Option<Silent>,
    /// The lane is being closed.
    left: Option<Arc<dyn Left>>,
    /// The lane's own queue refuses everything, because the disk does not answer.
    fails: bool,
    /// The driver's time for a request is limited.
    has_timeouts: bool,
    pub(super) depth: Depth,
    /// Bios of this lane in the shared queue.
    pub(super) away: usize,
    /// Bios in the inbox when this lane has last put some there, these included.
    pub(super) queued_behind: u32,
    pub(super) done: Vec<Bio>,
    /// Empty between runs of the shared queue; see [`Runs`](super::control::Runs).
    wakes: Vec<Arc<LaneCell>>,
    /// Bios on their way to the shared queue; empty between calls.
    outbox: Outbox,
    /// Examines them.
    examiner: Examiner,
    pub(super) sleeper: Sleeper,
    pub(super) listed: RefCell<Listed>,
    bouncer: Bouncer,
    /// The device's size in the lane's queue.
    size: u64,
    /// The count of changes of the sinks that the lane's queue has seen.
    sink_change: u64,
    /// Failed bios of the lane's queue, as of the last check.
    failed: u64,
}

impl DiskLane {
    /// Announces that the plugged bios go to the lane's own queue. `false`: they went to the shared one, or failed.
    #[inline]
    fn enter(&mut self, now: Time) -> bool {
        let gate = &self.shared.gate;
        let counted = self.busy && self.cell.busy.go_on();
        let enters = match self.busy {
            true => gate.look() == self.expected && !counted,
            false => gate.look() == self.expected && self.cell.busy.enter(gate, self.expected),
        };
        if !enters && !self.enter_with_care(now, counted) {
            return false;
        }
        self.busy = true;
        true
    }

    /// Gives the plugged bios to the lane's own queue: common ones straight to its driver. Returns how many requests
    /// the driver has taken.
    #[inline(always)]
    fn start_plugged(&mut self, now: Time) -> u32 {
        let Some(local) = &mut self.local else { return 0 };
        let started = local.start(now, &mut self.plug);
        if !self.plug.is_empty() {
            self.queue_rest(now);
        }
        started
    }

    /// Blocks until the lane's own queue has something to do.
    fn wait_local(&mut self, now: Time, timeout: Option<Span>) {
        let Some(local) = &mut self.local else { return };
        if local.in_flight() > 0 || local.queue.has_work() {
            return local.wait(now, timeout);
        }
        // Only the passing of time can end this wait: the end of a pause, or a deadline.
        if !local.queue.is_idle() {
            self.sleep_on(now, timeout, &[]);
        }
    }

    /// One round of the lane's own queue, which gets the plugged bios if there are any.
    #[inline(always)]
    fn run_local(&mut self, now: Time, plugged: bool) {
        if self.shared.scope.is_some() {
            self.locked(|lane| lane.round(now, plugged));
        } else {
            self.round(now, plugged);
        }
    }

    #[inline(always)]
    fn round(&mut self, now: Time, plugged: bool) {
        let Some(local) = &mut self.local else { return };
        let was_idle = local.begin(now);
        let started = self.fill(now, plugged);
        if let Some(local) = &mut self.local {
            local.end(now, started, was_idle);
        }
    }

    /// Borrows depth and gives the plugged bios to the lane's own queue. Returns how many requests the driver has
    /// taken.
    #[inline(always)]
    fn fill(&mut self, now: Time, plugged: bool) -> u32 {
        if let Some(local) = &mut self.local {
            // What the queue could have in flight with the bios that it gets next.
            let demand = local.queue.demand() + self.plug.len() as u32;
            if demand > self.depth.depth {
                self.depth.borrow(&self.shared, &mut local.queue, demand);
            }
        }
        if plugged { self.start_plugged(now) } else { 0 }
    }

    /// The same for a lane that is about to wait, where the call costs nothing in comparison.
    #[inline(never)]
    fn fill_before_wait(&mut self, now: Time, plugged: bool) -> u32 {
        self.fill(now, plugged)
    }

    /// Runs everything that the lane has bios in, and takes completed bios of its own queue to `out` or to `done`.
    #[inline(always)]
    fn advance(&mut self, now: Time, out: Option<&mut Vec<Bio>>) {
        let plugged = !self.plug.is_empty() && !self.only_flushes() && self.enter(now);
        if self.busy {
            self.run_local(now, plugged);
            self.take_local(out);
            if self.shared.tokens.is_wanted() {
                self.share_depth();
            }
            self.rest(now);
        }
        if self.away > 0 && !self.has_all_mail() {
            self.help(now);
        }
    }

    #[inline(always)]
    fn take_local(&mut self, out: Option<&mut Vec<Bio>>) {
        let out = out.unwrap_or(&mut self.done);
        let Some(local) = &mut self.local else { return };
        if !local.has_done() {
            return;
        }
        let before = out.len();
        local.take_done(out);
        let failed = self.cell.counters.bios_failed.get();
        if failed != self.failed {
            self.failed = failed;
            self.shared.extent.look_after(&out[before..], &*self.shared.disk, &self.shared.gate);
        }
    }

    /// Announces whether other threads have to wait for the lane's own queue.
    #[inline(always)]
    fn rest(&mut self, now: Time) {
        let rest = self.local.as_ref().map_or(Rest::Settled, |local| local.queue.rest());
        match rest {
            Rest::Settled => self.leave(now),
            Rest::Started => self.cell.busy.all_started(),
            Rest::Waits => {}
        }
        if rest != Rest::Settled && self.shared.gate.look() != self.expected {
            self.look_at_gate(now);
        }
        if self.has_timeouts {
            self.look_at_silence(now);
        }
    }

    #[inline]
    fn leave(&mut self, now: Time) {
        self.busy = false;
        if let Some(local) = &mut self.local
            && self.depth.tokens > 0
        {
            self.depth.give_back(&self.shared, &mut local.queue);
        }
        self.cell.busy.leave();
        if self.shared.gate.look() != self.expected {
            self.help_barrier(now);
        }
    }
}

impl Lane for DiskLane {
    #[inline]
    fn submit(&mut self, now: Time, bio: Bio) {
        self.plug.push_back(bio);
        if !self.shared.settings.caller_plug {
            self.flush_single(now);
        }
    }

    #[inline]
    fn run(&mut self, now: Time) {
        self.advance(now, None);
    }

    #[inline]
    fn turn(&mut self, now: Time, out: &mut Vec<Bio>) {
        // Bounced bios need another step, and earlier ones come first.
        if self.bouncer.out > 0 || !self.done.is_empty() {
            self.advance(now, None);
        } else {
            self.advance(now, Some(out));
        }
        if !self.done.is_empty() {
            self.take_done(out);
        }
    }

    #[inline]
    fn poll(&mut self, now: Time, out: &mut Vec<Bio>) {
        self.outbox.polled = true;
        self.turn(now, out);
        self.outbox.polled = false;
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
        self.find_wakeup()
    }

    fn unplug(&mut self, now: Time) {
        self.give_flush_away(now);
        // Bios in the plug come first, and run the queue.
        if self.away > 0 && self.shared.unplugs.ask_outside() && self.plug.is_empty() {
            self.help(now);
            // A layer above may have looked for what has come back already, and threads may sleep for the lane. Those that are
            // about to see it in `list_handles`.
            if self.has_done() {
                self.cell.mailbox.ring();
            }
        }
    }

    fn wait(&mut self, now: Time, timeout: Option<Span>) {
        if self.has_done() || (timeout.is_none() && self.only_flushes() && self.flush_here(now)) {
            return;
        }
        let plugged = !self.plug.is_empty() && self.enter(now);
        if self.away == 0 {
            let started = self.fill_before_wait(now, plugged);
            if self.away == 0 && !self.has_done() {
                return self.wait_local(now, timeout);
            }
            // Some of the bios went to the shared queue, or have failed.
            if started > 0
                && let Some(local) = &mut self.local
            {
                local.driver_mut().submit(now);
            }
        }
        self.wait_shared(now, timeout);
    }

    fn sleep(&mut self, now: Time, timeout: Option<Span>, others: &[i32]) {
        self.give_flush_away(now);
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

    fn cancel(&mut self, now: Time, which: &Cancel) {
        self.cancel_all(now, which);
    }

    fn closing(&mut self, left: &Arc<dyn Left>) {
        self.left = Some(Arc::clone(left));
    }

    fn is_idle(&self) -> bool {
        // While the lane does not count as busy its own queue is empty.
        let is_local_idle = || !self.busy || self.local.as_ref().is_none_or(Lane::is_idle);
        self.plug.is_empty() && self.away == 0 && is_local_idle()
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
