//! A lane of a leaf: its own queue while the device has no elevator, the shared one for the rest.

use super::bounced::{self, is_misaligned};
use super::control::Runs;
use super::{AnyLane, LaneCell, Shared};
use crate::clock;
use crate::sync::{Ordering, lock};
use crate::wake::sleep_on;
use platter_block::backend::LaneUse;
use platter_block::bio::{Bio, Flags, Op};
use platter_block::counters::Counters;
use platter_block::fault::Error;
use platter_block::lane::{Lane, QueueLane};
use platter_block::segment::{Region, RegionId};
use platter_block::time::{Span, Time};
use std::sync::Arc;

/// Bios with any of these go through the shared queue.
const ORDERED: Flags = Flags::PREFLUSH.union(Flags::SOFT_BARRIER).union(Flags::HARD_BARRIER);

pub(super) struct LeafLane {
    shared: Arc<Shared>,
    cell: Arc<LaneCell>,
    route: u32,
    lane_use: LaneUse,
    /// The caller's plug: bios that have their order among themselves but no place in a queue yet.
    plug: Vec<Bio>,
    local: Option<AnyLane>,
    /// Whether `cell.busy` says so.
    busy: bool,
    /// Tokens of the device's depth that this lane holds.
    tokens: u32,
    hungry: bool,
    /// Bios of this lane in the shared queue.
    away: usize,
    done: Vec<Bio>,
    /// Bios on their way that stand for misaligned ones.
    bounced: usize,
    /// Whether some bio in the plug needs the shared queue.
    ordered: bool,
}

impl LeafLane {
    pub(super) fn open(shared: &Arc<Shared>, lane_use: LaneUse) -> Result<LeafLane, Error> {
        let cell = Arc::new(LaneCell {
            busy: super::Busy::new(),
            mailbox: super::Mailbox::new(),
            counters: Arc::new(Counters::default()),
        });
        let local = if shared.gate.look().is_shared() {
            None
        } else {
            Some(Self::open_local(shared, &cell, lane_use)?)
        };
        let mut lanes = lock(&shared.lanes);
        let route = lanes.iter().position(Option::is_none).unwrap_or(lanes.len());
        if route == lanes.len() {
            lanes.push(None);
        }
        lanes[route] = Some(Arc::clone(&cell));
        drop(lanes);
        Ok(LeafLane {
            shared: Arc::clone(shared),
            cell,
            route: route as u32,
            lane_use,
            plug: Vec::with_capacity(shared.settings.queue.nr_requests as usize),
            local,
            busy: false,
            tokens: 0,
            hungry: false,
            away: 0,
            done: Vec::new(),
            bounced: 0,
            ordered: false,
        })
    }

    fn open_local(shared: &Shared, cell: &LaneCell, lane_use: LaneUse) -> Result<AnyLane, Error> {
        let driver = shared.open_driver(lane_use)?;
        let mut queue = shared.make_queue(&cell.counters, 1);
        queue.set_sink(shared.new_sink());
        Ok(QueueLane::new(queue, driver))
    }

    /// Gives the plugged bios their places: in the lane's own queue or in the shared one.
    #[inline]
    fn flush_plug(&mut self, now: Time) {
        if self.shared.gate.look().is_shared() {
            return self.send_all();
        }
        if self.local.is_none() && !self.open_late() {
            return;
        }
        if !self.busy {
            if !self.cell.busy.enter(&self.shared.gate) {
                return self.help(now);
            }
            self.busy = true;
        } else if self.shared.gate.look().is_closed() {
            return;
        }
        if self.ordered {
            let plug = std::mem::take(&mut self.plug);
            self.ordered = false;
            return self.flush_ordered(now, plug);
        }
        let _held = match &self.shared.scope {
            None => None,
            Some(lock) => Some(lock.hold(&self.cell.counters, self.shared.settings.lock_stamps)),
        };
        if let Some(local) = &mut self.local {
            for bio in self.plug.drain(..) {
                local.submit(now, bio);
            }
        }
    }

    /// Plugs an aligned bio for one that is not, where that is allowed; else the queue will refuse it.
    #[cold]
    fn plug_bounced(&mut self, bio: Bio) {
        if !self.shared.settings.bounce {
            return self.plug.push(bio);
        }
        match bounced::wrap(&self.shared.geometry.limits, bio) {
            Ok(bio) => {
                self.bounced += 1;
                self.plug.push(bio);
            }
            Err(bio) => self.done.push(bio),
        }
    }

    #[cold]
    fn unwrap_bounced(&mut self) {
        for slot in &mut self.done {
            let (bio, copied) = bounced::unwrap(std::mem::replace(slot, Bio::flush()));
            *slot = bio;
            if let Some(bytes) = copied {
                self.bounced -= 1;
                self.cell.counters.bytes_bounced.add(bytes);
            }
        }
    }

    /// The device had an elevator when the lane was opened and has none now.
    #[cold]
    fn open_late(&mut self) -> bool {
        match Self::open_local(&self.shared, &self.cell, self.lane_use) {
            Ok(local) => {
                self.local = Some(local);
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

    /// Some of the plugged bios need the shared queue.
    #[cold]
    fn flush_ordered(&mut self, now: Time, plug: Vec<Bio>) {
        let mut rest = plug.into_iter();
        for bio in rest.by_ref() {
            let barrier = bio.flags().contains(Flags::HARD_BARRIER);
            if !(bio.flags().intersects(ORDERED) || bio.op() == Op::Flush) {
                if let Some(local) = &mut self.local {
                    local.submit(now, bio);
                }
                continue;
            }
            if barrier {
                self.shared.control.lock().barrier_closed_gate();
                self.shared.gate.close();
            }
            self.send(bio);
            if barrier {
                break;
            }
        }
        // What came after the barrier waits here until the gate is open again.
        self.plug.extend(rest);
        self.ordered = !self.plug.is_empty();
    }

    fn send(&mut self, mut bio: Bio) {
        bio.set_route(self.route);
        self.away += 1;
        lock(&self.shared.inbox).push(bio);
    }

    fn send_all(&mut self) {
        self.away += self.plug.len();
        self.ordered = false;
        let mut inbox = lock(&self.shared.inbox);
        for mut bio in self.plug.drain(..) {
            bio.set_route(self.route);
            inbox.push(bio);
        }
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
        if self.shared.tokens.is_wanted() {
            self.return_depth();
        }
    }

    /// The lane's own queue is empty: others may rely on it.
    #[inline]
    fn leave_if_idle(&mut self, now: Time) {
        if self.busy && self.local.as_ref().is_none_or(|local| local.queue.is_empty()) {
            self.busy = false;
            self.cell.busy.leave();
            if self.shared.gate.look().is_closed() {
                self.help(now);
            }
        }
    }

    /// Sleeps on everything that this lane's progress can come from.
    fn sleep(&mut self, timeout: Option<Span>) {
        let mut handles = Vec::with_capacity(3);
        let bell = self.cell.mailbox.fall_asleep();
        let heard = bell.descriptor().map(|fd| handles.push(fd)).is_some();
        let mut seen = true;
        if let Some(local) = &self.local
            && local.in_flight() > 0
        {
            seen &= local.wait_handles(&mut handles);
        }
        if self.away > 0
            && let Some(lane) = self.shared.control.lock().lane_mut()
            && lane.in_flight() > 0
        {
            seen &= lane.wait_handles(&mut handles);
        }
        let startable = !self.plug.is_empty() && !self.shared.gate.look().is_closed();
        // What cannot be seen on a descriptor is there at the next run.
        if seen && !startable && !self.cell.mailbox.has_mail() {
            sleep_on(&handles, heard, timeout);
        }
        self.cell.mailbox.wake_up();
    }
}

impl Lane for LeafLane {
    #[inline]
    fn submit(&mut self, now: Time, bio: Bio) {
        self.ordered |= bio.flags().intersects(ORDERED) || bio.op() == Op::Flush;
        if is_misaligned(&self.shared.geometry, &bio) {
            self.plug_bounced(bio);
        } else {
            self.plug.push(bio);
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
        if self.bounced > 0 {
            self.unwrap_bounced();
        }
        if out.is_empty() {
            std::mem::swap(out, &mut self.done);
        } else {
            out.append(&mut self.done);
        }
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
        let shared = self.shared.control.lock().lane_mut().and_then(|lane| lane.next_wakeup());
        Time::earliest(local, shared)
    }

    fn unplug(&mut self, now: Time) {
        if self.away > 0
            && let Some(lane) = self.shared.control.lock().lane_mut()
        {
            lane.unplug(now);
        }
    }

    fn wait(&mut self, now: Time, timeout: Option<Span>) {
        if !self.plug.is_empty() {
            self.flush_plug(now);
        }
        if self.has_done() {
            return;
        }
        if self.away == 0 && self.plug.is_empty() {
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
            self.sleep(timeout);
        }
    }

    fn wait_handles(&self, out: &mut Vec<i32>) -> bool {
        let bell = self.cell.mailbox.fall_asleep();
        let mut complete = bell.descriptor().map(|fd| out.push(fd)).is_some();
        if let Some(local) = &self.local {
            complete &= local.wait_handles(out);
        }
        if self.away > 0
            && let Some(lane) = self.shared.control.lock().lane_mut()
        {
            complete &= lane.wait_handles(out);
        }
        complete
    }

    fn in_flight(&self) -> u32 {
        let shared = if self.away > 0 { self.shared.control_in_flight.load(Ordering::Relaxed) } else { 0 };
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
        lock(&self.shared.retired).add(&self.cell.counters);
        if let Some(place) = lock(&self.shared.lanes).get_mut(self.route as usize) {
            *place = None;
        }
        if self.shared.gate.look().is_closed() {
            self.shared.run_control(clock::now(), None);
        }
    }
}
