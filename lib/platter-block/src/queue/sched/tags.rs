//! Hard barriers as ordered tags, for devices that [keep the order](crate::driver::Features::ordered_tags) themselves.
//!
//! The steps of the barrier (preflush, data, postflush) are sent, each as an ordered tag, as soon as everything before
//! the barrier has been sent; nothing waits for completions, and later reads and writes follow at once (fact: the modes
//! `TAG`, `TAG_FLUSH` and `TAG_FUA` of Linux 2.6.16). What consists of several steps itself (another barrier, a flush, a
//! durable write that needs a flush) waits behind the barrier until it has completed, with all that follows.
//!
//! A retry would take a request out of its place. So when any request fails while a barrier is on its way, the device
//! aborts what must follow it, and the queue takes back everything behind the barrier. If a step of the barrier was
//! aborted, the barrier drains: it is carried out again once everything before it has ended, retries included. If all
//! steps have succeeded they are not repeated, because data from behind the barrier may be on the device.
//!
//! Example: write A is with the device, barrier B and write C follow. B's preflush, data and postflush are sent as ordered tags, and C behind them, while
//! A is still under way. If A fails with an error that passes, the device aborts B's steps and C. The queue takes C back, sends A again, and when A has
//! ended carries B out by draining; then C is sent. If A fails for good, it is the same without the second A.
//!
//! A barrier also drains if it does not fit into one request, if other queues of the device hold requests before it, or if it
//! flushes a device that has nothing to flush.

use super::SchedQueue;
use super::barrier::is_out_of_order;
use super::flush::{DATA, POST, PRE};
use crate::bio::{Bio, Flags, Op};
use crate::driver::Completion;
use crate::fault::{Fault, Kind, Stage};
use crate::queue::family::{Parent, Role};
use crate::queue::order::Tag;
use crate::queue::pause::{fault_of, may_pass, queue_fault};
use crate::queue::split::front_bytes;
use crate::queue::{FLUSH, Ordered, Rest, is_full};
use crate::time::Time;
use alloc::vec::Vec;

impl SchedQueue {
    /// How hard barriers keep their order and become durable. The names are those of Linux 2.6.16's modes.
    pub fn barrier_mode(&self) -> &'static str {
        let features = &self.geometry.features;
        let durable = (features.write_cache, features.fua);
        match (self.ordered() == Ordered::Tag && features.ordered_tags, durable) {
            (false, (false, _)) => "drain",
            (false, (true, false)) => "drain+flush",
            (false, (true, true)) => "drain+FUA",
            (true, (false, _)) => "tag",
            (true, (true, false)) => "tag+flush",
            (true, (true, true)) => "tag+FUA",
        }
    }

    /// Whether barriers are sent as ordered tags where they can be.
    fn sends_tags(&self) -> bool {
        self.settings.ordered == Ordered::Tag && self.geometry.features.ordered_tags
    }

    /// Whether the waiting barrier can be sent as an ordered tag now.
    pub(super) fn may_tag(&self) -> bool {
        if !self.sends_tags() {
            return false;
        }
        let Some(bio) = self.order.barrier.as_ref().filter(|_| !self.order.only_places) else { return false };
        let steps = self.barrier_steps(bio);
        let flushes = steps & (PRE | POST) != 0;
        let zeroes = |parent: &Parent| matches!(parent.role, Role::Zeroes(_));
        !self.order.by_drain
            && self.order.tag.is_none()
            && self.order.outside == Rest::Settled
            && matches!(bio.op(), Op::Write | Op::Flush)
            && steps != 0
            && (bio.op() == Op::Flush || front_bytes(&self.geometry.limits, bio) == bio.len())
            && !(flushes && (self.order.failed.is_some() || self.order.lost))
            && self.all_is_sent()
            // These are still to be sent in part.
            && !self.order.has_sequences()
            && !self.families.parents().any(zeroes)
    }

    /// Everything before the waiting barrier has just been sent. Sends the barrier, if it can be an ordered tag.
    #[cold]
    pub(super) fn tag_follows(&mut self, now: Time) -> bool {
        let follows = self.may_tag();
        if follows {
            self.try_barrier(now);
        }
        follows
    }

    /// Whether the driver has everything that was admitted.
    fn all_is_sent(&self) -> bool {
        self.store.table.used() == self.in_flight as usize && self.nothing_waits()
    }

    /// Sends the waiting barrier as an ordered tag, and lets in what is behind it.
    #[cold]
    pub(super) fn send_tag(&mut self, now: Time) {
        let Some(bio) = self.order.barrier.take() else { return };
        let steps = self.barrier_steps(&bio);
        self.counters.barriers_tagged.add(1);
        self.mark_sent();
        // One child more, so that the barrier is not complete before all are counted.
        let at = self.families.insert(Parent { bio, pending: 1, role: Role::Tagged });
        self.order.tag = Some(Tag { broken: false, redo: false });
        for step in [PRE, DATA, POST] {
            if steps & step == 0 {
                continue;
            }
            let Some(mut child) = self.data_of(at, steps & POST != 0) else { continue };
            if step != DATA {
                child.reset_flush();
                child.remove_flags(Flags::FUA | Flags::ATOMIC | Flags::READAHEAD);
                self.counters.flushes.add(1);
            }
            child.add_flags(Flags::TAGGED);
            self.families.count_child(at);
            self.place_at_end(now, child);
        }
        self.child_done(now, at, Ok(()));
        self.attention = true;
        self.let_in(now);
    }

    /// Marks everything that was submitted before the ordered tag, which is all that the driver has. A retry of it gets to
    /// the device behind the tag, and may be aborted there as if it belonged there.
    fn mark_sent(&mut self) {
        self.flag_started(Flags::BEFORE_TAG);
    }

    /// Whether a bio must not follow the ordered tag that is on its way, because it has several steps.
    #[inline]
    pub(super) fn must_wait_for_tag(&self, bio: &Bio) -> bool {
        if self.order.tag.is_none() {
            return false;
        }
        let (flags, cache) = (bio.flags(), self.geometry.features.write_cache);
        let flushes = flags.contains(Flags::PREFLUSH)
            || (flags.contains(Flags::FUA) && !(self.can_fua() && bio.op() == Op::Write));
        bio.op() == Op::Flush || flags.intersects(Flags::BARRIERS) || (cache && flushes)
    }

    /// Holds back a bio, and everything submitted after it, until the ordered tag has completed.
    pub(super) fn hold_behind_tag(&mut self, bio: Bio) {
        // The list is empty, or this bio was its first.
        self.order.held.push_front(bio);
        self.order.shut = true;
        self.note_attention();
    }

    /// Called for each request that the driver has returned, before anything else is done with it.
    #[inline]
    pub(super) fn look_at_tag(&mut self, now: Time, index: u32, result: i64) {
        if self.order.tag.is_none() {
            return;
        }
        let request = self.store.table.at(index);
        if !is_full(request.op, request.len, result) {
            self.break_tag(now);
        }
    }

    /// A request has failed while an ordered tag is on its way. Takes back everything that has not started: it is
    /// behind the barrier, or it is a step of the barrier.
    #[cold]
    fn break_tag(&mut self, now: Time) {
        let Some(tag) = self.order.tag.as_mut().filter(|tag| !tag.broken) else { return };
        (tag.broken, self.order.shut) = (true, true);
        let mut bios = self.take_unsent();
        let is_step = |bio: &Bio| bio.flags().contains(Flags::TAGGED);
        let behind = bios.extract_if(.., |bio| !is_step(bio)).collect::<Vec<Bio>>();
        behind.into_iter().rev().for_each(|bio| self.order.held.push_front(bio));
        for bio in bios {
            if let Some(tag) = &mut self.order.tag {
                tag.redo = true;
            }
            self.finish(now, bio);
        }
    }

    /// Takes every bio out of the queue that the driver does not have, except those held back.
    fn take_unsent(&mut self) -> Vec<Bio> {
        let mut out: Vec<Bio> = Vec::new();
        self.withdraw_from_requests(&|bio| bio.parent() != FLUSH, &mut out);
        out.extend(self.retries.drain(..));
        self.waiting.iter_mut().for_each(|list| out.extend(list.drain(..)));
        out
    }

    /// The driver has returned a bio that was alone in its request with an error or short. Returns it unless it is a
    /// step of the barrier or is behind it.
    pub(super) fn step_failed(&mut self, now: Time, mut bio: Bio, result: i64) -> Option<Bio> {
        if !bio.flags().contains(Flags::TAGGED) {
            return self.hold_aborted(bio, result);
        }
        self.error |= result < 0;
        if result > bio.len() as i64 {
            bio.fail(Fault::new(Kind::Contract, Stage::Driver));
        } else if result >= 0 || may_pass(&bio, result) {
            if let Some(tag) = &mut self.order.tag {
                tag.redo = true;
            }
        } else {
            let fault = fault_of(bio.op(), result);
            if bio.op() == Op::Flush && result != Completion::ABORTED {
                self.order.failed = Some(fault);
            }
            bio.fail(fault);
        }
        self.finish(now, bio);
        None
    }

    /// Holds a bio back that the device has aborted behind the barrier. Returns any other: one that was submitted before
    /// the barrier is retried before the barrier is carried out again.
    pub(super) fn hold_aborted(&mut self, bio: Bio, result: i64) -> Option<Bio> {
        let redone = self.order.by_drain && self.order.barrier.is_some();
        let has_followers = self.order.tag.is_some() || redone || self.order.settling;
        let is_behind = result == Completion::ABORTED
            && has_followers
            && !bio.flags().intersects(Flags::LAST | Flags::BEFORE_TAG);
        if !is_behind {
            return Some(bio);
        }
        self.counters.requeues.add(1);
        self.order.held.push_front(bio);
        None
    }

    /// The driver has returned all steps of the barrier.
    pub(super) fn tag_done(&mut self, now: Time, at: u32) {
        let Some(tag) = self.order.tag.take() else { return };
        self.order.shut = false;
        let status = self.families.get(at).map_or(Ok(()), |parent| parent.bio.status());
        if tag.redo && status.is_ok() {
            let Some(bio) = self.families.recall(at) else { return };
            self.counters.barriers_redone.add(1);
            (self.order.barrier, self.order.barrier_since, self.order.by_drain) = (Some(bio), now, true);
            self.order.barrier_until = None;
            if self.failed {
                return self.fail_barrier(now, Kind::Gone);
            }
            self.try_barrier(now);
            return self.note_attention();
        }
        let Some(bio) = self.families.release(at) else { return };
        if is_out_of_order(status) {
            // What is behind a barrier that has not kept its order fails, now or when the device aborts it.
            self.count_as_complete();
            for bio in self.take_unsent() {
                self.fail(now, bio, queue_fault(Kind::Cancelled));
            }
        }
        self.finish(now, bio);
        if tag.broken {
            // The device may still abort what is behind the barrier, and that goes before all that is held back.
            (self.order.settling, self.order.shut) = (true, true);
        }
        self.end_barrier(now, status);
    }

    /// Lets in what was held back behind a failed ordered tag, once all that was sent behind it has come back.
    pub(super) fn settle(&mut self, now: Time) {
        if !self.is_drained() {
            return;
        }
        (self.order.settling, self.order.shut) = (false, false);
        self.let_in(now);
    }
}
