//! From completed requests that are not plain back to bios: partial transfers are resumed, a failed request of several
//! bios is retried bio by bio, and children complete their parents.

use super::{DirectQueue, Role};
use crate::bio::{Bio, Flags, Op};
use crate::defect::{self, Defect};
use crate::driver::Completion;
use crate::fault::{Fault, Kind, Stage, Status};
use crate::queue::pause::{UNSUPPORTED, fault_after_retries, fault_of, may_pass, queue_fault};
use crate::queue::{MARKS, NO_PARENT, finish_full, is_full};
use crate::request::Marks;
use crate::time::Time;
use crate::trace::{Action, Event};
use alloc::vec::Vec;

const BROKEN: Fault = Fault::new(Kind::Contract, Stage::Driver);

impl DirectQueue {
    /// Completes any request. `false`: the driver did not have it.
    #[cold]
    pub(super) fn complete_with_care(&mut self, now: Time, completion: Completion) -> bool {
        let Completion { tag, result } = completion;
        let errno = i32::try_from(result.min(0).unsigned_abs()).unwrap_or(i32::MAX);
        if self.slots[tag as usize].bio.is_none() {
            return false;
        }
        self.trace_slot(now, Action::Complete, tag, errno);
        self.in_flight -= 1;
        self.counters.completions.add(1);
        let slot = &mut self.slots[tag as usize];
        let (more, marks, started) = (core::mem::take(&mut slot.more), slot.marks, slot.started);
        (slot.plain, slot.marks) = (false, Marks::NONE);
        let Some(bio) = slot.bio.take() else { return false };
        self.free.push(tag);
        self.counters.latency_of(bio.op()).record(now.since(started).0);
        self.take_back(now, tag, marks);
        if more.is_empty() {
            self.complete_single(now, bio, result);
        } else {
            self.complete_run(now, bio, more, result, marks);
        }
        self.attend(now);
        true
    }

    fn complete_single(&mut self, now: Time, mut bio: Bio, result: i64) {
        let op = bio.op();
        if is_full(op, bio.len(), result) {
            self.count_bytes(op, bio.len());
            finish_full(&mut bio, result);
            return self.finish(now, bio);
        }
        // An orphan is never retried; its lane may be idle and must not be taken for busy.
        if !bio.flags().contains(Flags::ORPHAN) && !self.may_restart() {
            bio.add_flags(Flags::LAST);
        }
        match u64::try_from(result) {
            Err(_) => self.fail_single(now, bio, result),
            Ok(bytes) if bytes > bio.len() => self.fail(now, bio, BROKEN),
            Ok(bytes) if bytes < self.geometry.limits.cut_unit() => {
                self.fail(now, bio, queue_fault(Kind::Short));
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

    /// The request of a single bio has failed.
    fn fail_single(&mut self, now: Time, mut bio: Bio, result: i64) {
        self.error = true;
        if may_pass(&bio, result) && !defect::is_on(Defect::TransientFails) {
            if let Some(tried) = self.pause(now, bio, result) {
                let op = tried.op();
                self.fail(now, tried, fault_after_retries(op, result));
            }
            return;
        }
        if result == UNSUPPORTED {
            match self.replace_unsupported(now, bio) {
                None => return,
                Some(unsupported) => bio = unsupported,
            }
        }
        let fault = fault_of(bio.op(), result);
        self.fail(now, bio, fault);
    }

    /// Completes a request of several bios.
    fn complete_run(&mut self, now: Time, mut first: Bio, mut more: Vec<Bio>, result: i64, marks: Marks) {
        let (op, count) = (first.op(), 1 + more.len());
        let len = first.len() + more.iter().map(Bio::len).sum::<u64>();
        let mut left = u64::try_from(result).unwrap_or(0);
        let too_much = op.has_data() && left > len;
        if left != len {
            left &= !(self.geometry.limits.cut_unit() - 1);
        }
        if !op.has_data() && result >= 0 {
            left = u64::MAX;
        }
        self.error |= result < 0;
        if left < len && !marks.contains(Marks::QUARANTINED) && !self.may_restart() {
            let all = core::iter::once(&mut first).chain(&mut more);
            all.for_each(|bio| bio.add_flags(Flags::LAST));
        }
        let counted = if defect::is_on(Defect::MergedCountWraps) { usize::from(count as u16) } else { count };
        for mut bio in core::iter::once(first).chain(more.drain(..)).take(counted) {
            if too_much {
                self.fail(now, bio, BROKEN);
                continue;
            }
            let bytes = left.min(bio.len());
            left -= bytes;
            self.count_bytes(op, bytes);
            bio.advance(bytes);
            if bio.is_empty() {
                self.finish(now, bio);
                continue;
            }
            if result < 0 && bio.flags().contains(Flags::LAST) {
                bio.fail(fault_of(op, result));
            }
            self.retry(now, bio);
        }
        self.keep_list(more);
    }

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
            return self.fail(now, bio, queue_fault(Kind::Short));
        }
        self.counters.requeues.add(1);
        self.trace_bio(now, Action::Requeue, &bio);
        bio.add_flags(Flags::ALONE);
        self.retries.push_back(bio);
        self.note_attention();
    }

    /// Retries a bio after a pause. Returns it if it has used up its attempts.
    #[cold]
    fn pause(&mut self, now: Time, bio: Bio, result: i64) -> Option<Bio> {
        match self.paused.begin(now, bio, result, self.settings.barrier_timeout) {
            Err(tried) => return Some(tried),
            Ok(at) => self.arm(at),
        }
        self.counters.requeues.add(1);
        if let (Some(sink), Some(bio)) = (&mut self.sink, self.paused.last()) {
            sink.event(&Event::of_bio(now, Action::Requeue, bio));
        }
        self.note_attention();
        None
    }

    /// Delivers a completed or failed bio to its submitter or parent.
    pub(super) fn finish(&mut self, now: Time, mut bio: Bio) {
        let (parent, status) = (bio.parent(), bio.status());
        if bio.flags().contains(Flags::ORPHAN) {
            self.keep_spare(bio);
            self.families.orphan_done(parent);
        } else if parent == NO_PARENT {
            bio.remove_flags(MARKS);
            self.counters.completed(&bio);
            self.done.push(bio);
        } else {
            self.keep_spare(bio);
            self.child_done(now, parent, status);
        }
    }

    /// Counts one child as completed; the last one completes the parent.
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
        if parent.pending == 0
            && let Some(bio) = self.families.release(at)
        {
            self.finish(now, bio);
        }
    }

    /// After a completion: bios that waited for a free request may get one.
    pub(super) fn attend(&mut self, now: Time) {
        self.wake_waiters(now);
        self.note_attention();
    }

    /// Call this after any change of what it examines.
    #[cold]
    pub(super) fn note_attention(&mut self) {
        let held = self.waiting.len() + self.doubts.held.len() + self.paused.len();
        self.attention =
            held > 0 || !self.retries.is_empty() || self.doubts.exist() || self.quarantined > 0 || self.stuck;
        self.care = self.attention || self.frozen || self.sink.is_some() || self.settings.timeout.is_some();
        self.counters.held.set(held as u64);
    }
}
