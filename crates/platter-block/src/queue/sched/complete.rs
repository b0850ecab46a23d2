//! From completed requests back to bios: partial transfers are resumed, a failed merged request is retried bio by
//! bio, and children complete their parents.

use super::{Role, SchedQueue, order};
use crate::bio::{Bio, Flags, Op};
use crate::defect::{self, Defect};
use crate::elevator::MayQueue;
use crate::fault::{Fault, Kind, Stage, Status};
use crate::queue::pause::{UNSUPPORTED, fault_after_retries, fault_of, is_lasting, may_pass};
use crate::queue::{MARKS, NO_PARENT, finish_full, is_full};
use crate::request::{Marks, State};
use crate::time::Time;
use crate::trace::Action;
use alloc::collections::VecDeque;

impl SchedQueue {
    #[inline]
    pub(super) fn complete_request(&mut self, now: Time, index: u32, result: i64) {
        if self.attention {
            return self.complete_with_care(now, index, result);
        }
        self.complete_plainly(now, index, result);
    }

    /// Completes a request when that may end doubt about a range, free a request for a waiter or let a barrier begin.
    #[cold]
    fn complete_with_care(&mut self, now: Time, index: u32, result: i64) {
        self.look_at_tag(now, index, result);
        self.take_back(now, index);
        self.complete_plainly(now, index, result);
        self.attend(now);
    }

    #[inline]
    fn complete_plainly(&mut self, now: Time, index: u32, result: i64) {
        let request = self.table.at(index);
        let (op, len, dir, bios) = (request.op, request.len, request.op.dir(), request.bios);
        self.counters.latency_of(op).record(now.since(request.started).0);
        if self.elevator.is_some() {
            self.tell_completed(now, index);
            self.fails = result < 0 && is_lasting(op, result);
            self.pool.put(dir);
        }
        if bios == 1
            && let Some(bio) = self.table.take_single(index)
        {
            self.complete_single(now, bio, op, len, result);
        } else {
            self.complete_merged(now, index, op, result);
        }
    }

    #[inline]
    fn complete_single(&mut self, now: Time, mut bio: Bio, op: Op, len: u64, result: i64) {
        if is_full(op, len, result) {
            self.count_bytes(op, len);
            finish_full(&mut bio, result);
            return self.finish(now, bio);
        }
        self.complete_partly(now, bio, op, result);
    }

    /// Whether the driver has completed a request with an error since the last call.
    #[inline]
    pub(crate) fn take_error(&mut self) -> bool {
        core::mem::take(&mut self.error)
    }

    /// Tells the elevator, once, that a request it chose has completed or is given up.
    #[inline]
    pub(super) fn tell_completed(&mut self, now: Time, index: u32) {
        let (id, info) = (self.table.id(index), self.table.at(index).info());
        if let Some(elevator) = &mut self.elevator
            && core::mem::take(&mut self.table.at_mut(index).chosen)
        {
            elevator.completed(now, id, &info);
        }
    }

    /// Handles a transfer that failed or stopped early: an error fails the bio, a partial transfer is resumed.
    #[cold]
    fn complete_partly(&mut self, now: Time, mut bio: Bio, op: Op, result: i64) {
        if self.order.is_watched() {
            match self.step_failed(now, bio, result) {
                None => return,
                Some(other) => bio = other,
            }
        }
        // An orphan is never retried; its lane may be idle and must not be taken for busy.
        if !bio.flags().contains(Flags::ORPHAN) && !self.may_restart() {
            bio.add_flags(Flags::LAST);
        }
        match u64::try_from(result) {
            Err(_) => {
                self.error = true;
                if may_pass(&bio, result) && !defect::is_on(Defect::TransientFails) {
                    if let Some(mut tried) = self.pause(now, bio, result) {
                        tried.fail(fault_after_retries(tried.op(), result));
                        self.finish(now, tried);
                    }
                    return;
                }
                if result == UNSUPPORTED {
                    match self.replace_unsupported(now, bio) {
                        None => return,
                        Some(unsupported) => bio = unsupported,
                    }
                }
                bio.fail(fault_of(bio.op(), result));
                self.finish(now, bio);
            }
            Ok(bytes) if bytes > bio.len() => {
                bio.fail(Fault::new(Kind::Contract, Stage::Driver));
                self.finish(now, bio);
            }
            Ok(bytes) if bytes < self.geometry.limits.cut_unit() => {
                bio.fail(Fault::new(Kind::Short, Stage::Queue));
                self.finish(now, bio);
            }
            Ok(bytes) => {
                // Resumes at a unit that the device can start at: a partly transferred block is transferred again.
                let bytes = bytes - bytes % self.geometry.limits.cut_unit();
                self.count_bytes(op, bytes);
                bio.advance(bytes);
                bio.forget_attempts();
                self.retry(now, bio);
            }
        }
    }

    fn complete_merged(&mut self, now: Time, index: u32, op: Op, result: i64) {
        let mut left = u64::try_from(result).unwrap_or(0);
        let len = self.table.at(index).len;
        let too_much = op.has_data() && left > len;
        if left != len {
            left &= !(self.geometry.limits.cut_unit() - 1);
        }
        if !op.has_data() && result >= 0 {
            left = u64::MAX;
        }
        self.error |= result < 0;
        if left < len && !self.table.at(index).marks.contains(Marks::QUARANTINED) {
            // If the bios must not be retried, this call marks them.
            self.may_restart();
        }
        loop {
            let last = self.table.at(index).bios == 1;
            let Some(mut bio) = self.table.pop_bio(index) else { return };
            if too_much {
                bio.fail(Fault::new(Kind::Contract, Stage::Driver));
            } else {
                let bytes = left.min(bio.len());
                left -= bytes;
                self.count_bytes(op, bytes);
                bio.advance(bytes);
            }
            if bio.is_empty() || too_much {
                self.finish(now, bio);
            } else {
                if result < 0 && bio.flags().contains(Flags::LAST) {
                    bio.fail(fault_of(op, result));
                }
                match self.hold_aborted(bio, result) {
                    None => {}
                    Some(bio) => self.retry(now, bio),
                }
            }
            if last {
                return;
            }
        }
    }

    #[inline]
    fn count_bytes(&self, op: Op, bytes: u64) {
        match op {
            Op::Read => self.counters.bytes_read.add(bytes),
            Op::Write => self.counters.bytes_written.add(bytes),
            _ => {}
        }
    }

    /// Retries a bio alone, so that an error of the request it was part of stays with the bio that causes it.
    #[cold]
    fn retry(&mut self, now: Time, mut bio: Bio) {
        if bio.flags().intersects(Flags::ORPHAN | Flags::LAST | Flags::ATOMIC) {
            // The rest of an orphan is not wanted; an atomic write must never be carried out in part.
            bio.fail(Fault::new(Kind::Short, Stage::Queue));
            return self.finish(now, bio);
        }
        self.counters.requeues.add(1);
        if self.sink.is_some() {
            self.trace_bio(now, Action::Requeue, &bio);
        }
        bio.add_flags(Flags::ALONE);
        self.retries.push_back(bio);
        self.attention = true;
    }

    /// Retries go before everything else, in order, each as a request of its own.
    #[cold]
    pub(super) fn requeue_retries(&mut self, now: Time) {
        while let Some(bio) = self.retries.pop_back() {
            if self.elevator.is_some() {
                self.pool.take_always(bio.op().dir());
            }
            if !self.table.has_free() {
                self.grow_table();
            }
            if let Ok(index) = self.table.make(bio, State::Ready) {
                self.counters.restarts.add(1);
                self.ready.push_front(index);
                if self.sink.is_some() {
                    self.trace_request(now, Action::Insert, index, 0);
                }
            }
        }
    }

    #[cold]
    pub(super) fn attend(&mut self, now: Time) {
        if self.waiting.iter().any(|list| !list.is_empty()) {
            self.wake_waiters(now);
        }
        if self.order.is_closed() {
            self.try_barrier(now);
            self.finish_switch(now);
        }
        self.note_attention();
    }

    /// Whether the queue is in a state that the fast paths do not handle.
    fn needs_attention(&self) -> bool {
        self.order.is_watched()
            || self.waiting.iter().any(|list| !list.is_empty())
            || !self.retries.is_empty()
            || !self.paused.is_empty()
            || !self.doubts.held.is_empty()
            || self.doubts.exist()
            || self.quarantined > 0
            || self.withdrawn > 0
            || self.stuck
    }

    /// Call this after any change of the state that [`SchedQueue::needs_attention`] examines, unless attention is already
    /// set and the change cannot clear it.
    #[cold]
    pub(super) fn note_attention(&mut self) {
        self.attention = self.needs_attention();
        self.note_held();
    }

    /// Publishes how many bios have no request.
    #[cold]
    pub(super) fn note_held(&self) {
        let waiting: usize = self.waiting.iter().map(VecDeque::len).sum();
        let held = waiting + self.order.held_back_len() + self.doubts.held.len() + self.paused.len();
        self.counters.held.set(held as u64);
    }

    #[cold]
    pub(super) fn wake_waiters(&mut self, now: Time) {
        if self.elevator.is_none() {
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
            if !self.pool.may_wake(dir) {
                return;
            }
            if self.first_is_refused(list) {
                return;
            }
            self.pool.start_batch(now, dir, context);
            while self.waiting[list].front().is_some_and(|bio| bio.context() == context) {
                if self.merge_waiter(now, list) {
                    continue;
                }
                if self.first_is_refused(list) || !self.pool.take(now, dir, context, MayQueue::May) {
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
        self.table.used() > 0 && first.is_some_and(|bio| self.may_queue(bio) == MayQueue::No)
    }

    /// Delivers a completed or failed bio to its submitter or parent.
    #[inline]
    pub(super) fn finish(&mut self, now: Time, bio: Bio) {
        if bio.parent() != NO_PARENT || bio.flags().intersects(MARKS) {
            return self.finish_special(now, bio);
        }
        self.deliver(bio);
    }

    /// Returns the bio to its submitter.
    #[inline]
    fn deliver(&mut self, bio: Bio) {
        self.counters.completed(&bio);
        self.done.push(bio);
    }

    fn finish_special(&mut self, now: Time, mut bio: Bio) {
        let (parent, status) = (bio.parent(), bio.status());
        let orphan = bio.flags().contains(Flags::ORPHAN);
        if parent == NO_PARENT && !orphan {
            bio.remove_flags(MARKS);
            return self.deliver(bio);
        }
        self.keep_spare(bio);
        match parent {
            _ if orphan => self.families.orphan_done(parent),
            order::FLUSH => self.flush_done(now, status),
            parent => self.child_done(now, parent, status),
        }
    }

    /// Counts one child as completed; with the last one the parent continues.
    pub(super) fn child_done(&mut self, now: Time, at: u32, status: Status) {
        let Some(parent) = self.families.get_mut(at) else { return };
        if let Err(fault) = status {
            parent.bio.fail_in_part(fault);
        }
        if let Role::Zeroes(_) = parent.role {
            // Before this child is counted, so that another child that fails at once does not complete the parent.
            self.write_more_zeroes(now, at);
        }
        let Some(parent) = self.families.get_mut(at) else { return };
        parent.pending -= 1;
        if parent.pending > 0 {
            return;
        }
        match parent.role {
            Role::Split | Role::Zeroes(_) => {
                if let Some(bio) = self.families.release(at) {
                    self.finish(now, bio);
                }
            }
            Role::Sequence { .. } => self.data_done(now, at),
            Role::Tagged => self.tag_done(now, at),
        }
    }
}
