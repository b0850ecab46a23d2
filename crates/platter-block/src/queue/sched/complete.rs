//! What a completed request of the shared queue releases: its slot, its place in the pool, the bios that wait for these.

use super::SchedQueue;
use crate::elevator::MayQueue;
use crate::queue::pause::is_lasting;
use crate::request::State;
use crate::time::Time;
use crate::trace::Action;

impl SchedQueue {
    #[inline]
    pub(super) fn complete_request(&mut self, now: Time, index: u32, result: i64) {
        if self.attention {
            return self.complete_with_care(now, index, result);
        }
        self.complete_plainly(now, index, result);
    }

    /// Completes a request when it may be overdue, free a request for a waiter or let a barrier begin.
    #[cold]
    fn complete_with_care(&mut self, now: Time, index: u32, result: i64) {
        let marks = self.store.table.at(index).marks;
        let result = self.take_back(index, marks, result);
        self.look_at_tag(now, index, result);
        self.complete_plainly(now, index, result);
        self.attend(now);
    }

    #[inline]
    fn complete_plainly(&mut self, now: Time, index: u32, result: i64) {
        let request = self.store.table.at(index);
        let (op, len, dir, bios) = (request.op, request.len, request.op.dir(), request.bios);
        self.counters.latency_of(op).record(now.since(request.started).0);
        if self.store.elevator.is_some() {
            self.tell_completed(now, index);
            self.store.fails = result < 0 && is_lasting(op, result);
            self.store.pool.put(dir);
        }
        if bios == 1
            && let Some(bio) = self.store.table.take_single(index)
        {
            return self.complete_single(now, bio, result);
        }
        let mut shares = self.shares((op, len), result);
        loop {
            let last = self.store.table.at(index).bios == 1;
            let Some(bio) = self.store.table.pop_bio(index) else { return };
            self.complete_share(now, bio, &mut shares);
            if last {
                return;
            }
        }
    }

    /// Tells the elevator, once, that a request it chose has completed or is dismantled.
    #[inline]
    pub(super) fn tell_completed(&mut self, now: Time, index: u32) {
        let (id, info) = (self.store.table.id(index), self.store.table.at(index).info());
        if let Some(elevator) = &mut self.store.elevator
            && core::mem::take(&mut self.store.table.at_mut(index).chosen)
        {
            elevator.completed(now, id, &info);
        }
    }

    /// Retries go before everything else, in order, each as a request of its own.
    #[cold]
    pub(super) fn requeue_retries(&mut self, now: Time) {
        while let Some(bio) = self.retries.pop_back() {
            if self.store.elevator.is_some() {
                self.store.pool.take_always(bio.op().dir());
            }
            if !self.store.table.has_free() {
                self.grow_table();
            }
            if let Ok(index) = self.store.table.make(bio, State::Ready) {
                self.counters.restarts.add(1);
                self.store.ready.push_front(index);
                self.trace_request(now, Action::Insert, index, 0);
            }
        }
    }

    #[cold]
    pub(super) fn wake_waiters(&mut self, now: Time) {
        if self.store.elevator.is_none() {
            loop {
                if self.merge_waiter(now, 0) {
                    continue;
                }
                if !self.may_make() {
                    return;
                }
                let Some(bio) = self.waiting[0].pop_front() else { return };
                self.make_ready(now, bio);
            }
        }
        for list in 0..self.waiting.len() {
            self.wake_direction(now, list);
        }
    }

    /// Wakes waiters in order; each context that had to wait may then batch. A waiter that can be merged into a
    /// request needs none of its own.
    fn wake_direction(&mut self, now: Time, list: usize) {
        while let Some(first) = self.waiting[list].front() {
            let (context, dir) = (first.context(), first.op().dir());
            if self.merge_waiter(now, list) {
                continue;
            }
            if !self.store.pool.may_wake(dir) {
                return;
            }
            if self.first_is_refused(list) {
                return;
            }
            self.store.pool.start_batch(now, dir, context);
            while self.waiting[list].front().is_some_and(|bio| bio.context() == context) {
                if self.merge_waiter(now, list) {
                    continue;
                }
                if self.first_is_refused(list) || !self.store.pool.take(now, dir, context, MayQueue::May) {
                    return;
                }
                let Some(bio) = self.waiting[list].pop_front() else { return };
                self.insert_new(now, bio);
            }
        }
    }

    /// Whether the elevator makes the first waiter wait longer: only while something is left whose completion will
    /// wake it.
    fn first_is_refused(&self, list: usize) -> bool {
        let first = self.waiting[list].front();
        self.store.table.used() > 0 && first.is_some_and(|bio| self.may_queue(bio) == MayQueue::No)
    }
}
