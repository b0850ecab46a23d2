//! A lane of a leaf: its own queue while the device has no elevator, the shared one for the rest.

use super::bounced::Bouncer;
use super::control::{CLOSED_GATE, Runs};
use super::lanes::LaneCell;
use super::{AnyLane, Shared};
use crate::sync::{Ordering, lock};
use crate::wake::Sleeper;
use platter_block::backend::LaneUse;
use platter_block::bio::{Bio, Flags, Op};
use platter_block::counters::Counters;
use platter_block::fault::{Error, Fault, Kind};
use platter_block::lane::{Bell, Lane, QueueLane};
use platter_block::queue::append;
use platter_block::segment::{Region, RegionId};
use platter_block::time::{Span, Time};
use std::sync::Arc;

/// Bios with any of these may have to go through the shared queue.
const ORDERED: Flags =
    Flags::FUA.union(Flags::PREFLUSH).union(Flags::SOFT_BARRIER).union(Flags::HARD_BARRIER);

/// Bios that keep others from passing them.
const BARRIER: Flags = Flags::SOFT_BARRIER.union(Flags::HARD_BARRIER);

pub(super) struct LeafLane {
    pub(super) shared: Arc<Shared>,
    pub(super) cell: Arc<LaneCell>,
    route: u32,
    lane_use: LaneUse,
    /// The caller's plug: bios that have their order among themselves but no place in a queue yet.
    plug: Vec<Bio>,
    pub(super) local: Option<AnyLane>,
    /// Whether `cell.busy` says so.
    busy: bool,
    /// Tokens of the device's depth that this lane holds.
    tokens: u32,
    hungry: bool,
    /// Bios of this lane in the shared queue.
    pub(super) away: usize,
    done: Vec<Bio>,
    pub(super) sleeper: Sleeper,
    bouncer: Bouncer,
    /// Whether some bio in the plug may need the shared queue.
    ordered: bool,
    /// The size of the device that the lane's queue has.
    size: u64,
    /// Bios of the lane's queue that have failed, as of the last look.
    failed: u64,
}

impl LeafLane {
    pub(super) fn open(shared: &Arc<Shared>, lane_use: LaneUse) -> Result<LeafLane, Error> {
        let is_shared = shared.gate.look().is_shared();
        let counters = Arc::new(Counters::default());
        let local = match is_shared {
            true => None,
            false => Some(Self::open_local(shared, &counters, lane_use)?),
        };
        let (cell, route) = shared.lanes.add(counters);
        Ok(LeafLane {
            shared: Arc::clone(shared),
            cell,
            route,
            lane_use,
            plug: Vec::with_capacity(shared.settings.queue.nr_requests as usize),
            local,
            busy: false,
            tokens: 0,
            hungry: false,
            away: 0,
            done: Vec::new(),
            sleeper: Sleeper::default(),
            bouncer: Bouncer::default(),
            ordered: false,
            size: shared.extent.size(),
            failed: 0,
        })
    }

    fn open_local(shared: &Shared, counters: &Arc<Counters>, lane_use: LaneUse) -> Result<AnyLane, Error> {
        let driver = shared.open_driver(lane_use)?;
        let mut queue = shared.make_queue(counters, 1);
        queue.set_sink(shared.new_sink());
        Ok(QueueLane::new(queue, driver))
    }

    /// Gives the plugged bios their places: in the lane's own queue or in the shared one.
    #[inline]
    fn flush_plug(&mut self, now: Time) {
        if self.size != self.shared.extent.size() {
            self.resize();
        }
        let gate = self.shared.gate.look();
        if gate.is_shared() || (self.busy && gate.is_closed()) {
            return self.send_all();
        }
        if self.local.is_none() && !self.open_late() {
            return;
        }
        if !self.busy {
            if !self.cell.busy.enter(&self.shared.gate) {
                return self.send_all();
            }
            self.busy = true;
        }
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

    /// The device has another size than the lane's queue knows.
    #[cold]
    fn resize(&mut self) {
        self.size = self.shared.extent.size();
        if let Some(local) = &mut self.local {
            self.shared.extent.tell(&mut local.queue);
        }
    }

    /// Plugs a bio over aligned memory for one whose memory the device cannot take, where that is allowed and would help.
    #[cold]
    fn plug_bounced(&mut self, mut bio: Bio, fault: Fault) {
        let limits = &self.shared.geometry.limits;
        if limits.check_range(bio.pos(), bio.len(), self.shared.extent.size()).is_err() {
            // The queue refuses it for its place, and says why.
            return self.plug.push(bio);
        }
        if fault.kind == Kind::Misaligned && self.shared.settings.bounce {
            match self.bouncer.wrap(limits, bio) {
                Ok(bio) => return self.plug.push(bio),
                Err(refused) => bio = refused,
            }
        }
        bio.fail(fault);
        let counters = &self.cell.counters;
        for counter in [&counters.bios, &counters.bios_completed, &counters.bios_failed] {
            counter.add(1);
        }
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
        match Self::open_local(&self.shared, &self.cell.counters, self.lane_use) {
            Ok(local) => {
                self.local = Some(local);
                self.cell.mailbox.ring();
                true
            }
            Err(error) => {
                for mut bio in self.plug.drain(..) {
                    bio.fail(error.fault);
                    self.done.push(bio);
                }
                false
            }
        }
    }

    /// Whether a bio takes a flush of the device, which exist once per device, or has to wait for all lanes: a
    /// hard barrier, or a soft one that is more than one request to the device.
    fn is_ordered(&self, bio: &Bio) -> bool {
        let (flags, features) = (bio.flags(), &self.shared.geometry.features);
        let by_device = features.fua && bio.op() == Op::Write && !flags.contains(Flags::SOFT_BARRIER);
        bio.op() == Op::Flush
            || flags.intersects(Flags::PREFLUSH | Flags::HARD_BARRIER)
            || (flags.contains(Flags::FUA) && features.write_cache && !by_device)
    }

    /// Some of the plugged bios may need the shared queue.
    #[cold]
    fn flush_ordered(&mut self, now: Time) {
        self.ordered = false;
        let mut plug = std::mem::take(&mut self.plug);
        let mut closed = false;
        for bio in plug.drain(..) {
            if closed || self.is_ordered(&bio) {
                closed |= bio.flags().intersects(BARRIER);
                self.send(bio);
            } else if let Some(local) = &mut self.local {
                local.queue.submit_sound(now, bio);
            }
        }
        self.plug = plug;
    }

    /// Sends a bio to the shared queue. A barrier closes the gate until it has completed: what comes after it,
    /// on any lane, goes the same way and so finds its place behind it.
    fn send(&mut self, mut bio: Bio) {
        if bio.op() == Op::Flush {
            // What it is to make durable may lie beyond the end of a file that was cut off meanwhile.
            let _ = self.shared.extent.look(false);
        }
        let mut route = self.route;
        if bio.flags().intersects(BARRIER) {
            self.shared.gate.close();
            route |= CLOSED_GATE;
        }
        bio.set_route(route);
        self.go_away(1);
        lock(&self.shared.inbox).push(bio);
    }

    /// So many bios more are with the shared queue. Whoever sleeps while others run the lane (the service thread)
    /// does not listen to that queue if the lane had nothing there.
    fn go_away(&mut self, bios: usize) {
        if self.away == 0 {
            self.cell.mailbox.ring();
        }
        self.away += bios;
    }

    fn send_all(&mut self) {
        let mut plug = std::mem::take(&mut self.plug);
        if self.ordered {
            self.ordered = false;
            plug.drain(..).for_each(|bio| self.send(bio));
        } else {
            self.go_away(plug.len());
            let mut inbox = lock(&self.shared.inbox);
            for mut bio in plug.drain(..) {
                bio.set_route(self.route);
                inbox.push(bio);
            }
        }
        self.plug = plug;
    }

    /// Runs the shared queue if nobody else does, and collects mail.
    fn help(&mut self, now: Time) {
        let before = self.done.len();
        self.shared.run_control(now, Some(Runs { route: self.route, done: &mut self.done }));
        self.cell.mailbox.take(&mut self.done);
        self.away -= self.done.len() - before;
    }

    /// Borrows what the lane's queue could use of the device's depth.
    #[inline]
    fn borrow_depth(&mut self) {
        if let Some(local) = &mut self.local
            && local.queue.demand() > self.tokens + 1
        {
            let wanted = local.queue.demand() - self.tokens - 1;
            let got = self.shared.tokens.take(wanted);
            if got < wanted && !self.hungry {
                self.hungry = true;
                self.shared.tokens.set_hungry(true);
            }
            if got > 0 {
                self.tokens += got;
                local.queue.set_depth(self.tokens + 1);
            }
        }
    }

    /// Gives back what others want and this lane does not use.
    #[cold]
    fn return_depth(&mut self) {
        let Some(local) = &mut self.local else { return };
        let used = local.in_flight().saturating_sub(1);
        if self.tokens > used {
            self.shared.tokens.give(self.tokens - used);
            self.tokens = used;
            local.queue.set_depth(used + 1);
        }
        if self.hungry && !local.queue.has_work() {
            self.hungry = false;
            self.shared.tokens.set_hungry(false);
        }
    }

    #[inline]
    fn run_local(&mut self, now: Time) {
        self.borrow_depth();
        let Some(local) = &mut self.local else { return };
        match &self.shared.scope {
            None => local.run(now),
            Some(lock) => {
                let _held = lock.hold(&self.cell.counters, self.shared.settings.lock_stamps);
                local.run(now);
            }
        }
        local.take_done(&mut self.done);
        let failed = self.cell.counters.bios_failed.get();
        if failed != self.failed {
            self.failed = failed;
            self.shared.extent.look_after(&self.done);
        }
        if self.shared.tokens.is_wanted() {
            self.return_depth();
        }
    }

    /// The lane's own queue is empty: others may rely on it.
    #[inline]
    fn leave_if_idle(&mut self, now: Time) {
        if self.busy && self.local.as_ref().is_none_or(|local| local.queue.is_empty()) {
            self.busy = false;
            if self.tokens > 0 {
                self.return_depth();
            }
            self.cell.busy.leave();
            if self.shared.gate.look().is_closed() {
                self.help(now);
            }
        }
    }
}

impl Lane for LeafLane {
    #[inline]
    fn submit(&mut self, now: Time, bio: Bio) {
        self.ordered |= bio.flags().intersects(ORDERED) || bio.op() == Op::Flush;
        // The one look at a bio's memory: the queues rely on it.
        match self.shared.geometry.limits.check_memory(&bio, self.size) {
            Ok(()) => self.plug.push(bio),
            Err(fault) => self.plug_bounced(bio, fault),
        }
        if !self.shared.settings.caller_plug {
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
            self.leave_if_idle(now);
        }
        if self.away > 0 {
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
        if self.away == 0 {
            return local;
        }
        let shared = self.shared.with_control(|control| control.lane_mut()?.next_wakeup());
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
            self.borrow_depth();
            if let Some(local) = &mut self.local {
                local.wait(now, timeout);
            }
            return;
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

    fn is_idle(&self) -> bool {
        self.plug.is_empty() && self.away == 0 && self.local.as_ref().is_none_or(Lane::is_idle)
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
        // Waits for what the lane's own driver has.
        self.local = None;
        self.cell.busy.leave();
        self.shared.tokens.give(self.tokens);
        if self.hungry {
            self.shared.tokens.set_hungry(false);
        }
        // What is in the shared queue goes on without the lane.
        self.unplug(self.shared.clock.now());
        self.shared.lanes.remove(self.route, self.away);
        if self.away > 0 || self.shared.gate.look().is_closed() {
            self.shared.run_control(self.shared.clock.now(), None);
        }
    }
}
