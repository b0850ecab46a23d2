//! Slices: which queue has the disk, how long it keeps it, and which queues may preempt it.

use super::Cfq;
use platter_block::bio::Class;
use platter_block::elevator::{RequestId, RequestInfo};
use platter_block::time::{Span, Time};

impl Cfq {
    /// The queue that may send now; `None` if there is none or if it is better to wait.
    #[inline]
    pub(super) fn select(&mut self, now: Time, force: bool) -> Option<u32> {
        if let Some(slot) = self.active {
            let queue = &self.queues[slot];
            if !queue.is_over(now) {
                if queue.queued > 0 {
                    return (force || !self.is_driver_full(slot)).then_some(slot);
                }
                if !force && (queue.in_flight > 0 || self.wait(now, slot)) {
                    return None;
                }
            }
            self.expire(now, false);
        }
        let slot = match self.order.first() {
            Some(slot) => slot,
            None => self.idle_class(now, force)?,
        };
        self.order.remove(&mut self.queues, slot);
        self.active = Some(slot);
        self.queues[slot].fifo_checked = false;
        (force || !self.is_driver_full(slot)).then_some(slot)
    }

    /// Serves the idle class if no other class has used the disk for a while.
    fn idle_class(&mut self, now: Time, force: bool) -> Option<u32> {
        let slot = self.order.first_idle()?;
        let until = self.last_completion.map(|last| last + self.tunables.idle_grace());
        self.grace_until = until.filter(|&until| !force && now < until);
        if self.grace_until.is_some() { None } else { Some(slot) }
    }

    /// Kernels up to 2.6.16 limited the requests in the driver while a synchronous queue had the disk.
    #[inline]
    pub(super) fn is_driver_full(&self, slot: u32) -> bool {
        let depth = self.tunables.max_depth().filter(|_| self.queues[slot].sync);
        depth.is_some_and(|depth| u64::from(self.in_driver) >= depth)
    }

    /// Starts or continues to wait for the next request of the active queue. Returns `false` if that is
    /// pointless or the time is over.
    pub(super) fn wait(&mut self, now: Time, slot: u32) -> bool {
        if let Some(until) = self.idle_until {
            return now < until;
        }
        let queue = &mut self.queues[slot];
        if !queue.sync || !queue.alive || !queue.idle_window {
            return false;
        }
        // The kernels meant to end the wait with the slice, but compared its end, a point in time, with this duration.
        let mut idle = self.tunables.slice_idle();
        if idle == Span::ZERO {
            return false;
        }
        if queue.is_known_to_be_seeky()
            && let Some(limit) = self.tunables.seeky_idle()
        {
            idle = idle.min(limit);
        }
        queue.waited = true;
        self.idle_until = Some(now + idle);
        true
    }

    /// Ends the slice of the active queue.
    pub(super) fn expire(&mut self, now: Time, preempted: bool) {
        let Some(slot) = self.active.take() else { return };
        self.idle_until = None;
        self.sent = 0;
        let queue = &mut self.queues[slot];
        queue.slice_left = queue.slice_end.take().map_or(Span::ZERO, |end| end.since(now));
        queue.must_dispatch = false;
        queue.new = false;
        if queue.queued > 0 {
            self.enlist(now, slot, preempted);
        }
    }

    /// Puts a queue with requests in line for a slice.
    pub(super) fn enlist(&mut self, now: Time, slot: u32, preempted: bool) {
        let queue = &self.queues[slot];
        if !self.tunables.service_tree() || queue.class != Class::BestEffort {
            return self.order.add(&self.queues, slot, preempted);
        }
        // Higher levels wait less; the difference grows with the number of queues.
        let others = (self.wanting(false) + self.wanting(true)).saturating_sub(1);
        let longer = self.tunables.slice(true, 0).0 - self.tunables.slice(true, 0).0.min(self.slice(slot).0);
        let place = if preempted { 0 } else { now.0.saturating_add(others.saturating_mul(longer)) };
        self.order.add_to_tree(&mut self.queues, slot, place);
    }

    /// The length of a queue's slice.
    fn slice(&self, slot: u32) -> Span {
        let queue = &self.queues[slot];
        self.tunables.slice_among(queue.sync, queue.level, self.wanting(true))
    }

    /// Number of queues of a kind that have waiting requests or a slice.
    fn wanting(&self, sync: bool) -> u64 {
        let active = self.active.map(|slot| &self.queues[slot]);
        let waiting = active.is_some_and(|queue| queue.sync == sync && queue.queued == 0);
        u64::from(self.busy[usize::from(sync)]) + u64::from(waiting)
    }

    /// Starts the time of the active queue's slice, unless it has started.
    pub(super) fn start_slice(&mut self, now: Time, slot: u32) {
        if self.queues[slot].slice_end.is_none() {
            self.queues[slot].slice_end = Some(now + self.slice(slot));
        }
    }

    /// A round of the active queue: up to `quantum` requests go to the dispatch list.
    pub(super) fn round(&mut self, now: Time, slot: u32) {
        self.idle_until = None;
        let queue = &mut self.queues[slot];
        queue.must_dispatch = false;
        queue.waited = false;
        let (sync, level, idle_class) = (queue.sync, queue.level, queue.is_idle_class());
        let last = !queue.idle_window;
        let quantum = if idle_class { 1 } else { self.tunables.quantum() };
        for _ in 0..quantum {
            let Some(id) = self.next_of(now, slot) else { break };
            self.send(slot, id);
        }
        if !self.tunables.service_tree() {
            self.start_slice(now, slot);
        }
        if last || idle_class || (!sync && self.sent >= self.tunables.max_rq(level)) {
            self.expire(now, false);
        }
    }

    /// The oldest request if it has expired (checked once per slice), otherwise the nearest.
    #[inline]
    fn next_of(&mut self, now: Time, slot: u32) -> Option<RequestId> {
        let queue = &mut self.queues[slot];
        if !core::mem::replace(&mut queue.fifo_checked, true)
            && let Some((id, arrived)) = self.requests.oldest(slot, 0)
            && now > arrived + self.tunables.fifo_expire(queue.sync)
        {
            return Some(id);
        }
        queue.next
    }

    /// Moves a request to the dispatch list.
    #[inline]
    fn send(&mut self, slot: u32, id: RequestId) {
        if self.queues[slot].next == Some(id) {
            self.queues[slot].next = self.requests.best_beside(self.tunables.rule(), id, true);
        }
        self.requests.choose(id, self.requests.boundary());
        self.queues[slot].in_flight += 1;
        self.sent += 1;
        self.uncount(slot);
    }

    /// A queue has one waiting request less.
    #[inline]
    pub(super) fn uncount(&mut self, slot: u32) {
        let queue = &mut self.queues[slot];
        queue.queued -= 1;
        if queue.queued == 0 {
            self.busy[usize::from(queue.sync)] -= 1;
            if self.active != Some(slot) {
                self.order.remove(&mut self.queues, slot);
            }
        }
    }

    /// Whether a request that arrives for a waiting queue preempts the active queue.
    pub(super) fn may_preempt(&self, slot: u32, info: &RequestInfo) -> bool {
        let Some(active) = self.active.map(|active| &self.queues[active]) else { return false };
        let queue = &self.queues[slot];
        if queue.is_idle_class() || active.is_idle_class() {
            return !queue.is_idle_class();
        }
        let over_async = info.sync && !active.sync;
        if self.tunables.service_tree() {
            return over_async || (queue.class == Class::RealTime && active.class == Class::BestEffort);
        }
        over_async && queue.waited && queue.slice_left >= self.tunables.slice_idle()
    }

    /// Gives the disk to a queue.
    pub(super) fn preempt(&mut self, now: Time, slot: u32) {
        self.expire(now, true);
        self.order.remove(&mut self.queues, slot);
        self.order.add_first(&self.queues, slot);
    }
}
