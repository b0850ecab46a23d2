//! Flush, FUA, preflush and barriers.
//!
//! A durable bio is carried out in steps that depend on the device's features (Linux 2.6.37 and later): preflush,
//! data (with FUA if the device supports it), postflush. One flush is in flight at a time; flushes requested during
//! that time share the next one. A hard barrier (Linux 2.6.16's ordered sequence) drains the queue first, runs such a
//! sequence and holds back everything behind it until the sequence is done; `tags.rs` says when it need not.
//! A soft barrier only keeps its place in the order.
//!
//! While a range is in doubt, no flush and no barrier succeeds, because the given-up request may change the disk
//! after it. Such a failure is not remembered, because no completed data is lost.

use super::{Rest, Role, SchedQueue};
use crate::bio::{Bio, Flags, Op};
use crate::defect::{self, Defect};
use crate::fault::{Fault, Kind, Stage, Status};
use crate::queue::Ordered;
use crate::queue::family::Parent;
use crate::request::State;
use crate::time::{Span, Time};
use crate::trace::Action;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

pub(super) const IN_DOUBT: Fault = Fault::new(Kind::InDoubt, Stage::Queue);

/// Parent of the queue's own flush.
pub(super) const FLUSH: u32 = u32::MAX - 1;

pub(super) const PRE: u8 = 1;
pub(super) const DATA: u8 = 2;
pub(super) const POST: u8 = 4;

/// Longest time that a flush waits for the data of other sequences, so that it can cover that data too
/// (`FLUSH_PENDING_TIMEOUT`).
const PENDING_TIMEOUT: Span = Span::from_secs(5);

/// A barrier that the device has as an ordered tag.
pub(super) struct Tag {
    /// Its family.
    pub(super) at: u32,
    /// A request has failed since it was sent: nothing more is sent.
    pub(super) broken: bool,
    /// A step was aborted, or must be repeated for another reason.
    pub(super) redo: bool,
}

#[derive(Default)]
pub(super) struct Order {
    /// Sequences that wait for the next flush, and the time since when they do.
    pending: Vec<u32>,
    pending_since: Time,
    /// Sequences that the running flush serves.
    running: Vec<u32>,
    flush_in_flight: bool,
    /// Something else flushes the device; the sequences that wait start when it has ended.
    flush_denied: bool,
    /// Sequences whose data is being written.
    data_in_flight: u32,
    /// A hard barrier that waits for the queue to drain, and the time since when it does.
    pub(super) barrier: Option<Bio>,
    pub(super) barrier_since: Time,
    /// Until when it waits instead, because nothing was run when its time was over.
    pub(super) barrier_until: Option<Time>,
    /// The waiting barrier must drain: the device has aborted it as an ordered tag.
    pub(super) by_drain: bool,
    /// The barrier that the device has as an ordered tag.
    pub(super) tag: Option<Tag>,
    /// The last ordered tag has failed, and the device may still abort requests behind it. They must be back before
    /// anything else is sent.
    pub(super) settling: bool,
    /// New bios are held back although no barrier waits: a barrier runs, or an ordered tag is on its way that they
    /// must not follow yet.
    pub(super) shut: bool,
    /// Bios submitted after the barrier.
    pub(super) held: VecDeque<Bio>,
    /// Bios that were held back are being admitted.
    releasing: bool,
    /// The waiting barrier is soft: it takes its place as soon as other queues have started all their requests.
    pub(super) only_places: bool,
    /// Contents of other queues of the same device.
    pub(super) outside: Rest,
    pub(super) failed: Option<Fault>,
    /// The mode to switch to once the queue has drained. New bios are held back until then.
    pub(super) switching: Option<Ordered>,
}

impl Order {
    /// Whether new bios must be held back.
    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed_by_barrier() || self.switching.is_some()
    }

    /// Whether they must be held back because of a barrier.
    #[inline]
    pub(super) fn is_closed_by_barrier(&self) -> bool {
        self.shut || self.barrier.is_some()
    }

    /// Whether a barrier has closed the queue or is on its way as an ordered tag.
    pub(super) fn is_watched(&self) -> bool {
        self.is_closed() || self.tag.is_some()
    }

    /// The barrier that waits for the queue to drain.
    pub(super) fn waiting_barrier(&self) -> Option<&Bio> {
        self.barrier.as_ref()
    }

    /// Whether the waiting barrier must wait for other queues.
    fn waits_for_outside(&self) -> bool {
        match self.outside {
            Rest::Settled => false,
            Rest::Started => !self.only_places,
            Rest::Waits => true,
        }
    }

    /// Whether there are bios that are carried out in steps.
    pub(super) fn has_sequences(&self) -> bool {
        self.data_in_flight > 0 || self.flush_in_flight || !self.pending.is_empty()
    }

    /// Bios that have not been admitted: the barrier and the bios after it.
    pub(super) fn held_back(&self) -> impl Iterator<Item = &Bio> {
        self.barrier.iter().chain(&self.held)
    }

    pub(super) fn held_back_len(&self) -> usize {
        usize::from(self.barrier.is_some()) + self.held.len()
    }

    /// Bios submitted after the barrier.
    pub(super) fn held_back_mut(&mut self) -> &mut VecDeque<Bio> {
        &mut self.held
    }

    /// Removes the sequences that match from those that wait for a flush, and returns them.
    pub(super) fn take_sequences(&mut self, matches: impl Fn(u32) -> bool) -> Vec<u32> {
        let mut taken: Vec<u32> = Vec::new();
        for list in [&mut self.pending, &mut self.running] {
            list.retain(|&at| {
                let stays = !matches(at);
                taken.extend((!stays).then_some(at));
                stays
            });
        }
        taken
    }

    /// Whether a flush runs that no sequence waits for.
    pub(super) fn flush_is_forsaken(&self) -> bool {
        self.flush_in_flight && self.running.is_empty()
    }

    pub(super) fn is_idle(&self) -> bool {
        !self.is_closed() && self.held.is_empty() && self.pending.is_empty() && !self.flush_in_flight
    }

    #[inline]
    pub(super) fn deadline(&self) -> Option<Time> {
        let waits = !self.pending.is_empty() && !self.flush_in_flight && !self.flush_denied;
        waits.then(|| self.pending_since + PENDING_TIMEOUT)
    }
}

/// Whether a bio is the queue's own flush, which has no submitter.
pub(super) fn is_own_flush(bio: &Bio) -> bool {
    bio.parent() == FLUSH
}

/// Whether a barrier that ended with this status has not kept its order: it was given up before everything before it
/// had completed, or while something of its own was still on the way to the disk.
pub(super) fn is_out_of_order(status: Status) -> bool {
    status.is_err_and(|fault| {
        fault.stage == Stage::Queue
            && matches!(fault.kind, Kind::TimedOut | Kind::InDoubt | Kind::LaneStalled)
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

    /// Whether the device has a flush that no bio waits for any more: all were cancelled or timed out.
    pub fn has_forsaken_flush(&self) -> bool {
        self.order.flush_is_forsaken()
    }

    /// Whether a soft barrier waits until other queues of the device have started all their requests.
    pub fn soft_barrier_pending(&self) -> bool {
        self.order.barrier.is_some() && self.order.only_places
    }

    /// Until when a barrier waits for other queues of the device.
    pub(super) fn barrier_deadline(&self) -> Option<Time> {
        let waits = self.order.barrier.is_some()
            && self.order.waits_for_outside()
            && !defect::is_on(Defect::BarrierNeverFails);
        let until =
            || self.order.barrier_until.unwrap_or(self.order.barrier_since + self.settings.barrier_timeout);
        waits.then(until)
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
    pub(super) fn submit_ordered(&mut self, now: Time, mut bio: Bio) {
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
            // Requests queued before it may have to be held for a range in doubt.
            || self.doubts.exist()
            // A later step of a sequence would end up behind the barrier.
            || (self.order.has_sequences() && !defect::is_on(Defect::SoftBarrierPassed));
        let closes =
            flags.contains(Flags::HARD_BARRIER) || (flags.contains(Flags::SOFT_BARRIER) && soft_steps);
        let ordered = closes || bio.op() == Op::Flush || flags.contains(Flags::PREFLUSH);
        if ordered && self.doubts.exist() {
            bio.fail(IN_DOUBT);
            return self.finish(now, bio);
        }
        let only_places = flags.contains(Flags::SOFT_BARRIER) && !closes;
        if closes || (only_places && self.order.outside == Rest::Waits) {
            (self.order.barrier, self.order.barrier_since) = (Some(bio), now);
            (self.order.only_places, self.order.by_drain, self.order.barrier_until) =
                (only_places, false, None);
            self.attention = true;
            self.barrier_deadline().into_iter().for_each(|at| self.arm(at));
            self.unplug_for_waiter(now);
            self.try_barrier(now);
            return self.note_held();
        }
        let fua = flags.contains(Flags::FUA) && bio.op().changes();
        if fua && !flags.contains(Flags::PREFLUSH) && bio.op() == Op::Write && cache && self.can_fua() {
            return self.admit(now, bio);
        }
        let steps = self.steps(&bio, flags.contains(Flags::PREFLUSH), fua);
        if steps == DATA {
            // The flags stay on the bio, which belongs to its submitter; `started` decides what the driver is told.
            if defect::is_on(Defect::FuaStripped) {
                bio.remove_flags(Flags::FUA | Flags::PREFLUSH);
            }
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
        while self.queued > 0 {
            let Some(index) = self.choose(now, true) else { break };
            self.ready.push_back(index);
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
        if self.elevator.is_some() {
            self.pool.take_always(bio.op().dir());
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
        if self.doubts.exist() {
            return self.fail_barrier(now, Kind::InDoubt);
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
        let at = self.families.insert(Parent::new(bio, 0, Role::Sequence { steps, barrier }));
        self.advance_sequence(now, at);
    }

    /// Runs the next step of a sequence, or completes it.
    pub(super) fn advance_sequence(&mut self, now: Time, at: u32) {
        let (failed, in_doubt) = (self.order.failed, self.doubts.exist());
        let Some(parent) = self.families.get_mut(at) else { return };
        let Role::Sequence { steps, barrier } = &mut parent.role else { return };
        if parent.bio.status().is_err() {
            *steps = 0;
        }
        if *steps & PRE != 0 || (*steps & POST != 0 && *steps & DATA == 0) {
            if let Some(fault) = failed {
                parent.bio.fail(Fault { kind: Kind::FlushFailed, stage: Stage::Queue, ..fault });
                return self.advance_sequence(now, at);
            }
            if in_doubt && *steps & PRE != 0 {
                parent.bio.fail(IN_DOUBT);
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
        self.order.flush_denied = self.doubts.watch.as_mut().is_some_and(|watch| !watch.may_flush());
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
        if self.elevator.is_some() {
            self.pool.take_always(flush.op().dir());
        }
        if !self.table.has_free() {
            self.grow_table();
        }
        if let Ok(index) = self.table.make(flush, State::Ready) {
            self.counters.requests.add(1);
            self.ready.push_front(index);
            if self.sink.is_some() {
                self.trace_request(now, Action::GetRequest, index, 0);
                self.trace_request(now, Action::Insert, index, 0);
            }
        }
    }

    /// The flush has completed: every sequence that it served takes its next step, or fails with the flush.
    pub(super) fn flush_done(&mut self, now: Time, status: Status) {
        self.order.flush_in_flight = false;
        self.doubts.watch.iter_mut().for_each(|watch| watch.flushed(status));
        if let Err(fault) = status {
            self.order.failed = Some(fault);
            self.fail_pending(now);
        }
        let in_doubt = self.doubts.exist();
        let mut served = core::mem::take(&mut self.order.running);
        for at in served.drain(..) {
            if let Some(parent) = self.families.get_mut(at) {
                if let Err(fault) = status {
                    parent.bio.fail(fault);
                }
                if let Role::Sequence { steps, .. } = &mut parent.role {
                    if *steps & PRE != 0 && in_doubt {
                        parent.bio.fail(IN_DOUBT);
                    }
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

    /// Fails a barrier that waits for the queue to drain.
    pub(super) fn fail_barrier(&mut self, now: Time, why: Kind) {
        let Some(mut bio) = self.order.barrier.take() else { return };
        self.order.by_drain = false;
        bio.fail(Fault::new(why, Stage::Queue));
        match why {
            Kind::LaneStalled => self.counters.barriers_stalled.add(1),
            Kind::TimedOut => self.counters.timeouts.add(1),
            _ => {}
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
            while let Some(mut bio) = self.order.held.pop_front() {
                bio.fail(Fault::new(Kind::Cancelled, Stage::Queue));
                self.finish(now, bio);
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
