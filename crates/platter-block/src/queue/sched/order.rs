//! Flush, FUA, preflush and barriers.
//!
//! A durable bio is carried out in steps that depend on the device's features (Linux 2.6.37 and later): preflush,
//! data (with FUA if the device supports it), postflush. One flush is in flight at a time; flushes requested during
//! that time share the next one. A hard barrier (Linux 2.6.16's ordered sequence) drains the queue first, runs such a
//! sequence and holds back everything behind it until the sequence is done; `tags.rs` says when it need not.
//! A soft barrier only keeps its place in the order.

use super::SchedQueue;
use crate::bio::{Bio, Flags, Op};
use crate::fault::{Fault, Kind, Stage, Status};
use crate::queue::body::silence::GONE;
use crate::queue::family::{Parent, Role};
use crate::queue::pause::queue_fault;
use crate::queue::{FLUSH, Rest};
use crate::time::{Span, Time};

pub(super) const PRE: u8 = 1;
pub(super) const DATA: u8 = 2;
pub(super) const POST: u8 = 4;

/// How much longer a barrier waits if the queue was not run at the end of its time.
const GRACE: Span = Span::from_secs(1);

/// Whether what is behind a barrier that ended with this status must fail: the barrier was taken out before everything before
/// it had completed, and its submitter has not asked for that by cancelling it.
pub(super) fn is_out_of_order(status: Status) -> bool {
    status.is_err_and(|fault| {
        fault.stage == Stage::Queue && matches!(fault.kind, Kind::TimedOut | Kind::Unsettled)
    })
}

impl SchedQueue {
    /// Whether a hard barrier has closed the queue: it waits for the drain or runs.
    pub fn barrier_pending(&self) -> bool {
        self.order.is_closed()
    }

    /// Tells the queue the contents of other queues of the same device. A hard barrier waits until they are settled,
    /// a soft one until all their requests have started.
    pub fn set_outside(&mut self, now: Time, rest: Rest) {
        self.order.outside = rest;
        if self.order.barrier.is_some() {
            self.try_barrier(now);
            self.note_attention();
        }
        self.barrier_deadline().into_iter().for_each(|at| self.arm(at));
    }

    /// Whether a soft barrier waits until other queues of the device have started all their requests.
    pub fn soft_barrier_pending(&self) -> bool {
        self.order.barrier.is_some() && self.order.only_places
    }

    /// Number of barriers that failed because other queues of the device did not become idle.
    #[inline]
    pub fn stalled_barriers(&self) -> u64 {
        self.counters.barriers_stalled.get()
    }

    /// The flush failure that later flushes repeat, if any.
    pub fn flush_failure(&self) -> Option<Fault> {
        self.order.failed
    }

    /// A flush that something else than this queue made has failed: later ones repeat that.
    pub fn flush_failed_elsewhere(&mut self, now: Time, fault: Fault) {
        self.order.failed = Some(fault);
        self.fail_pending(now);
    }

    /// Whether flushes wait until something else than this queue has flushed the device.
    #[inline]
    pub fn is_denied_flush(&self) -> bool {
        self.order.flush_denied
    }

    /// What else flushed the device has ended: flushes that waited for that start.
    pub fn flush_freed(&mut self, now: Time) {
        if core::mem::take(&mut self.order.flush_denied) {
            self.kick_flush(now);
        }
    }

    /// Accepts that data written before the failed flush may be lost; flushes work again.
    pub fn acknowledge_flush_failure(&mut self) {
        self.order.failed = None;
    }

    #[cold]
    pub(super) fn submit_ordered(&mut self, now: Time, bio: Bio) {
        if self.order.is_closed() {
            self.order.held.push_back(bio);
            return self.note_attention();
        }
        if self.must_wait_for_tag(&bio) {
            return self.hold_behind_tag(bio);
        }
        let flags = bio.flags();
        let cache = self.geometry.features.write_cache;
        let durable = flags.intersects(Flags::FUA | Flags::PREFLUSH);
        // A soft barrier that consists of several requests needs the steps of a hard one to keep its place.
        let soft_steps = bio.op() == Op::Flush
            || (cache && durable)
            // The device may not support the operation, which then becomes many writes.
            || bio.op() == Op::WriteZeroes
            // A later step of a sequence would end up behind the barrier.
            || self.order.has_sequences();
        let closes =
            flags.contains(Flags::HARD_BARRIER) || (flags.contains(Flags::SOFT_BARRIER) && soft_steps);
        let only_places = flags.contains(Flags::SOFT_BARRIER) && !closes;
        if closes || (only_places && self.order.outside == Rest::Waits) {
            (self.order.barrier, self.order.barrier_since) = (Some(bio), now);
            (self.order.only_places, self.order.by_drain, self.order.barrier_until) =
                (only_places, false, None);
            self.attention = true;
            self.barrier_deadline().into_iter().for_each(|at| self.arm(at));
            self.unplug_for_waiter(now);
            self.try_barrier(now);
            return self.note_attention();
        }
        let fua = flags.contains(Flags::FUA) && bio.op().changes();
        if fua && !flags.contains(Flags::PREFLUSH) && bio.op() == Op::Write && cache && self.can_fua() {
            return self.admit(now, bio);
        }
        let steps = self.steps(&bio, flags.contains(Flags::PREFLUSH), fua);
        if steps == DATA {
            // The flags stay on the bio, which belongs to its submitter; `started` decides what the driver is told.
            return if only_places { self.place_soft(now, bio) } else { self.admit(now, bio) };
        }
        self.start_sequence(now, bio, steps, false);
    }

    pub(super) fn can_fua(&self) -> bool {
        self.geometry.features.fua
    }

    pub(super) fn steps(&self, bio: &Bio, preflush: bool, fua: bool) -> u8 {
        let cache = self.geometry.features.write_cache;
        if bio.op() == Op::Flush {
            return if cache { PRE } else { 0 };
        }
        let pre = if preflush && cache { PRE } else { 0 };
        let by_device = self.can_fua() && bio.op() == Op::Write;
        let post = if fua && cache && !by_device { POST } else { 0 };
        pre | DATA | post
    }

    /// Puts a soft barrier on the dispatch list, behind everything submitted before it.
    fn place_soft(&mut self, now: Time, bio: Bio) {
        self.empty_elevator(now);
        self.counters.barriers.add(1);
        self.admit(now, bio);
        // Later bios must not pass the barrier's own pieces either.
        self.empty_elevator(now);
    }

    /// Moves all queued and waiting requests to the dispatch list, in the elevator's order.
    pub(super) fn empty_elevator(&mut self, now: Time) {
        while self.store.queued > 0 {
            let Some(index) = self.choose(now, true) else { break };
            self.store.ready.push_back(index);
        }
        for list in 0..self.waiting.len() {
            while let Some(bio) = self.waiting[list].pop_front() {
                self.place_at_end(now, bio);
            }
        }
        self.unplug_for_waiter(now);
    }

    /// Adds a request at the end of the dispatch list, bypassing the elevator.
    pub(super) fn place_at_end(&mut self, now: Time, bio: Bio) {
        if self.store.elevator.is_some() {
            self.store.pool.take_always(bio.op().dir());
        }
        self.make_ready(now, bio);
    }

    /// Starts the barrier's own sequence once everything before it has completed, in this queue and in others. A soft
    /// barrier that waits for other queues takes its place.
    #[cold]
    pub(super) fn try_barrier(&mut self, now: Time) {
        if self.order.settling {
            return self.settle(now);
        }
        if self.order.waits_for_outside() {
            return;
        }
        if self.may_tag() {
            return self.send_tag(now);
        }
        if !(self.order.only_places || self.is_drained()) {
            return;
        }
        if self.order.only_places {
            let Some(bio) = self.order.barrier.take() else { return };
            self.place_soft(now, bio);
            return self.let_in(now);
        }
        let Some(bio) = self.order.barrier.take() else { return };
        (self.order.shut, self.order.by_drain) = (true, false);
        let steps = self.barrier_steps(&bio);
        self.start_sequence(now, bio, steps, true);
    }

    /// The steps of a barrier that has closed the queue.
    pub(super) fn barrier_steps(&self, bio: &Bio) -> u8 {
        let durable = bio.op().changes() && bio.flags().intersects(Flags::HARD_BARRIER | Flags::FUA);
        self.steps(bio, true, durable)
    }

    fn start_sequence(&mut self, now: Time, bio: Bio, steps: u8, barrier: bool) {
        let at = self.families.insert(Parent { bio, pending: 0, role: Role::Sequence { steps, barrier } });
        self.advance_sequence(now, at);
    }

    /// Runs the next step of a sequence, or completes it.
    pub(super) fn advance_sequence(&mut self, now: Time, at: u32) {
        let Some(parent) = self.families.get_mut(at) else { return };
        let Role::Sequence { steps, barrier } = &mut parent.role else { return };
        if parent.bio.status().is_err() {
            *steps = 0;
        }
        if *steps != 0 && self.failed {
            parent.bio.fail(GONE);
            return self.advance_sequence(now, at);
        }
        if *steps & PRE != 0 || (*steps & POST != 0 && *steps & DATA == 0) {
            if let Some(fault) = self.order.flush_fault() {
                parent.bio.fail(fault);
                return self.advance_sequence(now, at);
            }
            return self.await_flush(now, at);
        }
        if *steps & DATA != 0 {
            *steps &= !DATA;
            let post = *steps & POST != 0;
            parent.pending = 1;
            return self.write_data(now, at, post);
        }
        let barrier = *barrier;
        let Some(bio) = self.families.release(at) else { return };
        let status = bio.status();
        self.finish(now, bio);
        if barrier {
            self.order.shut = false;
            self.end_barrier(now, status);
        }
    }

    fn write_data(&mut self, now: Time, at: u32, post: bool) {
        self.order.data_in_flight += 1;
        let Some(child) = self.data_of(at, post) else { return };
        self.admit(now, child);
    }

    /// The bio that writes the data of a sequence. `post`: a flush follows.
    pub(super) fn data_of(&mut self, at: u32, post: bool) -> Option<Bio> {
        let mut child = self.spare_bio();
        let parent = self.families.get_mut(at)?;
        child.share_window(&parent.bio);
        let durable = parent.bio.flags().intersects(Flags::FUA | Flags::HARD_BARRIER) && !post;
        child.remove_flags(Flags::ORDERED);
        child.add_flags(Flags::NOMERGE | Flags::SYNC);
        if durable && child.op() == Op::Write && self.geometry.features.write_cache && self.can_fua() {
            child.add_flags(Flags::FUA);
        }
        child.set_parent(at);
        Some(child)
    }

    /// The data step of a sequence has completed.
    pub(super) fn data_done(&mut self, now: Time, at: u32) {
        self.order.data_in_flight -= 1;
        self.advance_sequence(now, at);
        self.kick_flush(now);
    }

    fn await_flush(&mut self, now: Time, at: u32) {
        if self.order.pending.is_empty() {
            self.order.pending_since = now;
        }
        self.order.pending.push(at);
        self.kick_flush(now);
    }

    fn kick_flush(&mut self, now: Time) {
        if self.order.data_in_flight == 0 {
            self.start_flush(now);
        }
        self.order.deadline().into_iter().for_each(|at| self.arm(at));
    }

    /// Sends one flush for all sequences that wait for one.
    pub(super) fn start_flush(&mut self, now: Time) {
        if self.order.flush_in_flight || self.order.pending.is_empty() {
            return;
        }
        self.order.flush_denied = self.watch.as_mut().is_some_and(|watch| !watch.may_flush());
        if self.order.flush_denied {
            return;
        }
        core::mem::swap(&mut self.order.pending, &mut self.order.running);
        self.order.flush_in_flight = true;
        self.counters.flushes.add(1);
        self.counters.flushes_coalesced.add(self.order.running.len() as u64 - 1);
        let mut flush = self.spare_bio();
        flush.add_flags(Flags::NOMERGE | Flags::SYNC);
        flush.set_parent(FLUSH);
        if self.store.elevator.is_some() {
            self.store.pool.take_always(flush.op().dir());
        }
        if let Some(index) = self.make_request(now, flush) {
            self.store.ready.push_front(index);
        }
    }

    /// The flush has completed: every sequence that it served takes its next step, or fails with the flush.
    pub(super) fn flush_done(&mut self, now: Time, status: Status) {
        self.order.flush_in_flight = false;
        self.watch.iter_mut().for_each(|watch| watch.flushed(status));
        if let Err(fault) = status {
            // A flush that was not sent says nothing of the data.
            if fault != GONE {
                self.order.failed = Some(fault);
            }
            self.fail_pending(now);
        }
        let mut served = core::mem::take(&mut self.order.running);
        for at in served.drain(..) {
            if let Some(parent) = self.families.get_mut(at) {
                if let Err(fault) = status {
                    parent.bio.fail(fault);
                }
                if let Role::Sequence { steps, .. } = &mut parent.role {
                    *steps &= if *steps & PRE != 0 { !PRE } else { !POST };
                }
            }
            self.advance_sequence(now, at);
        }
        if self.order.running.is_empty() && !self.order.flush_in_flight {
            self.order.running = served;
        }
        self.kick_flush(now);
    }

    /// A flush failed. The sequences that wait fail too: a new flush could succeed and report lost data as durable.
    #[cold]
    fn fail_pending(&mut self, now: Time) {
        let mut pending = core::mem::take(&mut self.order.pending);
        for at in pending.drain(..) {
            self.advance_sequence(now, at);
        }
        if self.order.pending.is_empty() {
            self.order.pending = pending;
        }
    }

    /// The time is over that a barrier waits for other queues. A whole program that was stopped runs its lanes one after the
    /// other: the others get the chance to.
    pub(super) fn barrier_is_late(&mut self, now: Time, at: Time) {
        match self.order.barrier_until {
            None if now.since(at) > GRACE => self.order.barrier_until = Some(now + GRACE),
            _ => self.fail_barrier(now, Kind::Unsettled),
        }
    }

    /// Fails a barrier that waits for the queue to drain.
    pub(super) fn fail_barrier(&mut self, now: Time, why: Kind) {
        let Some(mut bio) = self.order.barrier.take() else { return };
        self.order.by_drain = false;
        bio.fail(queue_fault(why));
        if why == Kind::Unsettled {
            self.counters.barriers_stalled.add(1);
        }
        let status = bio.status();
        self.finish(now, bio);
        self.end_barrier(now, status);
        self.note_attention();
    }

    /// The barrier has ended. Admits the bios after it, unless that would break the order: then they fail.
    pub(super) fn end_barrier(&mut self, now: Time, status: Status) {
        self.counters.barriers.add(1);
        if is_out_of_order(status) {
            while let Some(bio) = self.order.held.pop_front() {
                self.fail(now, bio, queue_fault(Kind::Cancelled));
            }
        }
        self.let_in(now);
    }

    /// Admits the bios that were held back.
    pub(super) fn let_in(&mut self, now: Time) {
        if self.order.releasing {
            // This barrier came out of the list and ended at once; the outer call's loop continues.
            return;
        }
        self.order.releasing = true;
        while !self.order.is_closed()
            && let Some(bio) = self.order.held.pop_front()
        {
            self.submit_checked(now, bio);
        }
        self.order.releasing = false;
        if self.order.switching.is_some() {
            self.finish_switch(now);
        }
        self.note_attention();
    }
}
