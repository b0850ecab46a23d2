//! How bios end: completed by the driver, failed, or taken out before they start because they are cancelled or late.
//!
//! Partial transfers are resumed, a failed request of several bios is retried bio by bio, and children complete their
//! parents.
//!
//! There is a single alarm, so that a call at which no timer is due costs one comparison. The alarm may be early,
//! because its timer may have become unnecessary.

use super::body::{Queue, Store};
use super::family::Role;
use super::pause::{
    NEVER, Pauses, UNSUPPORTED, fault_after_retries, fault_of, may_pass, queue_fault, take_matching,
};
use super::watch::Watch;
use super::{FLUSH, MARKS, NO_PARENT, finish_full, is_full};
use crate::bio::{Bio, Flags, Op};
use crate::counters::Counters;
use crate::fault::{Fault, Kind, Stage, Status};
use crate::time::Time;
use crate::trace::Action;
use alloc::boxed::Box;
use alloc::vec::Vec;

const BROKEN: Fault = Fault::new(Kind::Contract, Stage::Driver);

/// What the result of a request of several bios leaves for those of them that have not been completed.
pub(super) struct Shares {
    op: Op,
    result: i64,
    /// Bytes of the result.
    left: u64,
    too_much: bool,
    /// The bios must not be retried.
    last: bool,
}

/// Completions of equal operation and start, counted together.
pub(super) struct Group {
    pub(super) op: Op,
    pub(super) started: Time,
    pub(super) count: u64,
    pub(super) bytes: u64,
}

impl Group {
    #[inline]
    pub(super) fn count(&self, now: Time, counters: &Counters) {
        if self.count == 0 {
            return;
        }
        counters.latency_of(self.op).record_many(now.since(self.started).0, self.count);
        match self.op {
            Op::Read => counters.bytes_read.add(self.bytes),
            Op::Write => counters.bytes_written.add(self.bytes),
            _ => {}
        }
    }
}

impl<S: Store> Queue<S> {
    /// Completes a request of one bio.
    #[inline]
    pub(super) fn complete_single(&mut self, now: Time, mut bio: Bio, result: i64) {
        if is_full(bio.op(), bio.len(), result) {
            self.count_bytes(bio.op(), bio.len());
            finish_full(&mut bio, result);
            return self.finish(now, bio);
        }
        self.complete_partly(now, bio, result);
    }

    /// Handles a transfer that failed or stopped early: an error fails the bio, a partial transfer is resumed.
    #[cold]
    fn complete_partly(&mut self, now: Time, bio: Bio, result: i64) {
        let Some(mut bio) = S::step_failed(self, now, bio, result) else { return };
        if !self.may_restart() {
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
                self.count_bytes(bio.op(), bytes);
                bio.advance(bytes);
                bio.forget_attempts();
                self.retry(now, bio);
            }
        }
    }

    /// The request of a single bio has failed.
    fn fail_single(&mut self, now: Time, mut bio: Bio, result: i64) {
        self.error = true;
        if may_pass(&bio, result) {
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

    /// Begins to complete a request of several bios, `len` bytes in all. Follow with [`Queue::complete_share`] for each.
    pub(super) fn shares(&mut self, (op, len): (Op, u64), result: i64) -> Shares {
        let mut left = u64::try_from(result).unwrap_or(0);
        let too_much = op.has_data() && left > len;
        if left != len {
            left &= !(self.geometry.limits.cut_unit() - 1);
        }
        if !op.has_data() && result >= 0 {
            left = u64::MAX;
        }
        self.error |= result < 0;
        let last = left < len && !self.may_restart();
        Shares { op, result, left, too_much, last }
    }

    /// Completes the next bio of a request of several.
    pub(super) fn complete_share(&mut self, now: Time, mut bio: Bio, shares: &mut Shares) {
        if shares.too_much {
            return self.fail(now, bio, BROKEN);
        }
        let bytes = shares.left.min(bio.len());
        shares.left -= bytes;
        self.count_bytes(shares.op, bytes);
        bio.advance(bytes);
        if bio.is_empty() {
            return self.finish(now, bio);
        }
        if shares.last {
            bio.add_flags(Flags::LAST);
        }
        if shares.result < 0 && bio.flags().contains(Flags::LAST) {
            bio.fail(fault_of(shares.op, shares.result));
        }
        if let Some(bio) = S::step_failed(self, now, bio, shares.result) {
            self.retry(now, bio);
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
        if bio.flags().intersects(Flags::LAST | Flags::ATOMIC) {
            // An atomic write must never be carried out in part.
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
    fn pause(&mut self, now: Time, mut bio: Bio, result: i64) -> Option<Bio> {
        let Some(at) = Pauses::until(now, &mut bio, result, self.settings.barrier_timeout) else {
            return Some(bio);
        };
        bio.add_flags(Flags::ALONE);
        self.arm(at);
        self.counters.requeues.add(1);
        self.trace_bio(now, Action::Requeue, &bio);
        self.paused.push(at, bio);
        self.note_attention();
        None
    }

    /// Fails a bio of the queue.
    pub(super) fn fail(&mut self, now: Time, mut bio: Bio, fault: Fault) {
        bio.fail(fault);
        self.finish(now, bio);
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
        if parent == NO_PARENT {
            bio.remove_flags(MARKS);
            return self.deliver(bio);
        }
        self.keep_spare(bio);
        match parent {
            FLUSH => S::step_done(self, now, FLUSH, status),
            parent => self.child_done(now, parent, status),
        }
    }

    /// Counts one child as completed; with the last one the parent continues.
    pub(super) fn child_done(&mut self, now: Time, at: u32, status: Status) {
        let Some(parent) = self.families.get_mut(at) else { return };
        if let Err(fault) = status {
            parent.bio.fail(fault);
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
            Role::Sequence { .. } | Role::Tagged => S::step_done(self, now, at, Ok(())),
        }
    }

    /// Sets the alarm to `at` unless it is earlier.
    #[inline]
    pub(super) fn arm(&mut self, at: Time) {
        self.alarm = self.alarm.min(at);
    }

    #[cold]
    pub(super) fn run_timers(&mut self, now: Time) -> bool {
        self.run_silence_timer(now);
        if self.paused.next() <= now {
            self.paused.end(now, &mut self.retries);
            self.note_attention();
        }
        S::run_timers(self, now);
        self.alarm = self.first_timer();
        true
    }

    /// Time of the first timer that is still needed.
    #[inline]
    pub(super) fn next_timer(&self) -> Option<Time> {
        // Every timer sets the alarm when it begins.
        let first = if self.alarm == NEVER { NEVER } else { self.first_timer() };
        (first != NEVER).then_some(first)
    }

    /// The same, or [`NEVER`].
    fn first_timer(&self) -> Time {
        let or_never = |at: Option<Time>| at.unwrap_or(NEVER);
        let order = or_never(self.order.deadline()).min(or_never(self.barrier_deadline()));
        self.silence_timer().min(self.paused.next()).min(or_never(self.store.timer())).min(order)
    }

    /// Until when a barrier waits for other queues of the device.
    pub(super) fn barrier_deadline(&self) -> Option<Time> {
        self.order.barrier_deadline(self.settings.barrier_timeout)
    }

    /// Fails what has not started of every bio that matches, and makes no more of it.
    #[cold]
    pub(super) fn withdraw(&mut self, now: Time, which: &dyn Fn(&Bio) -> bool, why: Kind) {
        let mut out: Vec<Bio> = Vec::new();
        let fault = queue_fault(why);
        self.families.stop_zeroes(which, fault);
        // Only the store and the lists are changed meanwhile.
        let families = core::mem::take(&mut self.families);
        // The queue's own flush serves sequences. It goes only if the device has failed, and they with it.
        let failed = self.failed;
        let goes = |bio: &Bio| (bio.parent() != FLUSH || failed) && which(families.root(bio));
        for list in &mut self.waiting {
            take_matching(list, &goes, &mut out);
        }
        take_matching(&mut self.retries, &goes, &mut out);
        self.paused.withdraw(&goes, &mut out);
        take_matching(&mut self.order.held, &goes, &mut out);
        S::withdraw(self, &goes, &mut out);
        self.families = families;
        // Before the steps of others end, which may start a flush.
        S::end_sequences(self, now, which, why);
        for bio in out {
            self.fail(now, bio, fault);
        }
        self.note_attention();
    }

    /// Takes back the bios that match. What has not started of them fails at once with `why`, which is [`Kind::Cancelled`] or
    /// [`Kind::TimedOut`]. For the rest, `ask` is called with the tags of the requests; it is not retried, whatever the
    /// result. A bio ends when the driver has no part of it.
    pub fn cancel(&mut self, now: Time, which: &dyn Fn(&Bio) -> bool, why: Kind, ask: &mut dyn FnMut(u32)) {
        self.withdraw(now, which, why);
        for tag in self.store.tags() {
            let mut may_ask = false;
            let Queue { store, families, .. } = self;
            store.visit(tag, |bio| {
                if bio.parent() != FLUSH && which(families.root(bio)) {
                    bio.add_flags(Flags::LAST);
                    // What the device has behind an ordered tag relies on its place.
                    may_ask |= !bio.flags().contains(Flags::TAGGED);
                }
            });
            if may_ask {
                ask(tag);
            }
        }
        self.attend(now);
    }

    /// A barrier passes although requests of this queue have not been reported, because the device has completed them
    /// all. If such a request turns out to have failed or to be short, it is not retried, because the retry would
    /// come after the barrier; its bios fail.
    pub fn count_as_complete(&mut self) {
        self.flag_started(Flags::LAST);
    }

    /// Whether the driver has borrowed memory.
    pub fn has_borrowed(&mut self) -> bool {
        self.driver_has(|bio| bio.flags().contains(Flags::BORROWED) && bio.op().has_data())
    }

    /// Whether the driver has anything that changes data.
    pub fn has_changes(&mut self) -> bool {
        self.driver_has(Bio::changes)
    }

    fn driver_has(&mut self, which: impl Fn(&Bio) -> bool) -> bool {
        let mut any = false;
        for tag in self.store.tags() {
            self.store.visit(tag, |bio| any |= which(bio));
        }
        any
    }

    /// Sets flags on all bios that the driver has.
    pub(super) fn flag_started(&mut self, flags: Flags) {
        for tag in self.store.tags() {
            self.store.visit(tag, |bio| bio.add_flags(flags));
        }
    }

    /// Sets the watch that speaks for the other queues of the device.
    pub fn set_watch(&mut self, watch: Option<Box<dyn Watch>>) {
        self.watch = watch;
    }

    /// Whether a bio that its request did not complete may be retried.
    pub(super) fn may_restart(&mut self) -> bool {
        let may = self.watch.as_mut().is_none_or(|watch| watch.may_restart());
        if !may {
            self.count_as_complete();
        }
        may
    }
}
