//! Barriers, and the order in which bios with flags of order enter the queue.
//!
//! A hard barrier (Linux 2.6.16's ordered sequence) drains the queue first, is carried out as a sequence of steps (`flush.rs`) and holds
//! back everything behind it until the sequence is done; `tags.rs` says when it need not. A soft barrier only keeps its place in the order.

use super::SchedQueue;
use super::flush::DATA;
use crate::bio::{Bio, Flags, Op};
use crate::fault::{Kind, Stage, Status};
use crate::queue::Rest;
use crate::queue::pause::queue_fault;
use crate::time::{Span, Time};

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
