//! Takes bios out of the shared queue before the driver has them: at their deadlines, when they are cancelled, and when
//! nothing can start any more; and what follows from ranges in doubt.
//!
//! Elevators have no call to remove a request, and need none: a bio that leaves a request before it starts leaves a
//! placeholder, and the request is dismantled when it is about to start.

use super::{Role, SchedQueue, order};
use crate::bio::{Bio, Flags, Op};
use crate::fault::Kind;
use crate::queue::pause::{queue_fault, take_matching};
use crate::request::{Marks, State};
use crate::time::Time;
use alloc::vec::Vec;

impl SchedQueue {
    /// Takes bios out of requests that have not started, and marks those requests.
    pub(super) fn withdraw_from_requests(&mut self, which: &dyn Fn(&Bio) -> bool, out: &mut Vec<Bio>) {
        let idle: Vec<u32> =
            self.store.table.in_state(State::Queued).chain(self.store.table.in_state(State::Ready)).collect();
        for index in idle {
            let before = out.len();
            self.store.table.for_each_bio_mut(index, |bio| {
                if !bio.flags().contains(Flags::ORPHAN) && which(bio) {
                    out.push(bio.leave_placeholder());
                }
            });
            if out.len() > before && !self.store.table.at(index).marks.contains(Marks::WITHDRAWN) {
                self.store.table.at_mut(index).marks.add(Marks::WITHDRAWN);
                self.withdrawn += 1;
            }
        }
    }

    /// Has a request be dismantled if the one that it is about to absorb would have been: placeholders have no memory.
    #[cold]
    pub(super) fn pass_mark_on(&mut self, survivor: u32, absorbed: u32) {
        let is_marked = |index| self.store.table.at(index).marks.contains(Marks::WITHDRAWN);
        if !is_marked(absorbed) {
            return;
        }
        if is_marked(survivor) {
            self.withdrawn -= 1;
        } else {
            self.store.table.at_mut(survivor).marks.add(Marks::WITHDRAWN);
        }
    }

    /// Ends sequences that wait for a flush. What is cancelled has changed nothing, so one whose data the device has carried
    /// out is not: it ends with the flush, as what the driver has ends with the driver's result.
    pub(super) fn withdraw_sequences(&mut self, now: Time, which: &dyn Fn(&Bio) -> bool, why: Kind) {
        let families = &self.families;
        let may_end = |role: &Role| match role {
            Role::Sequence { steps, .. } => why != Kind::Cancelled || *steps & order::PRE != 0,
            _ => true,
        };
        let matches =
            |at: u32| families.get(at).is_some_and(|parent| which(&parent.bio) && may_end(&parent.role));
        let was_forsaken = self.order.flush_is_forsaken();
        let sequences = self.order.take_sequences(matches);
        // A cancelled sequence is not late, so its flush is not given up.
        if why == Kind::TimedOut && !was_forsaken && self.order.flush_is_forsaken() {
            self.quarantine_flush(now);
        }
        for at in sequences {
            if let Some(parent) = self.families.get_mut(at) {
                parent.bio.fail(queue_fault(why));
                if why == Kind::TimedOut {
                    self.counters.timeouts.add(1);
                }
                if let Role::Sequence { steps, .. } = &mut parent.role {
                    *steps = 0;
                }
            }
            self.advance_sequence(now, at);
        }
    }

    /// Sets the ranges (first byte, byte past the last) that requests of other queues of the device may still change.
    pub fn set_outside_doubts(&mut self, now: Time, ranges: impl Iterator<Item = (u64, u64)>) {
        self.doubts.set_outside(ranges);
        if self.doubts.exist() {
            self.doubt_arose(now);
        }
        self.release_held(now);
        self.attend(now);
    }

    /// Whether bios wait for the end of a doubt.
    #[inline]
    pub fn holds_for_doubt(&self) -> bool {
        !self.doubts.held.is_empty()
    }

    /// Fails the bios that wait for the end of a doubt and match with [`Kind::LaneStalled`]: the queue in doubt is not run.
    /// Returns whether there were any.
    pub fn fail_held(&mut self, now: Time, which: &dyn Fn(&Bio) -> bool) -> bool {
        let mut stalled: Vec<Bio> = Vec::new();
        take_matching(&mut self.doubts.held, which, &mut stalled);
        let any = !stalled.is_empty();
        self.fail_all(now, stalled, Kind::LaneStalled);
        self.attend(now);
        any
    }

    /// The running flush serves no sequence any more.
    pub(super) fn quarantine_flush(&mut self, now: Time) {
        let mut started = self.store.table.in_state(State::Started);
        let flush = started.find(|&index| {
            self.store.table.at(index).op == Op::Flush
                && !self.store.table.at(index).marks.contains(Marks::QUARANTINED)
        });
        drop(started);
        if let Some(index) = flush {
            self.quarantine(now, index);
            self.look_whether_stuck(now);
        }
    }

    /// A barrier cannot succeed while a change of the device may arrive at any time, so barriers fail.
    pub(super) fn doubt_arose(&mut self, now: Time) {
        self.attention = true;
        self.fail_barrier(now, Kind::InDoubt);
        self.fail_unsent_tag(now);
    }

    /// Whether a request may go to the driver unchanged.
    pub(super) fn may_start(&self, index: u32) -> bool {
        let request = self.store.table.at(index);
        !request.marks.contains(Marks::WITHDRAWN)
            && match request.op {
                Op::Flush => true,
                Op::Command => !self.store.table.any_bio(index, |bio| self.doubts.concern(bio)),
                _ => !self.doubts.overlap(request.pos, request.end()),
            }
    }

    /// Dismantles a request that may not start: withdrawn bios are dropped, bios that overlap a range in doubt are
    /// held, and the others start next, each in a request of its own. A soft barrier behind it, or in it, would be passed
    /// by bios that are held, so these fail.
    pub(super) fn take_apart(&mut self, now: Time, index: u32) {
        self.tell_completed(now, index);
        let (dir, bios) = (self.store.table.at(index).op.dir(), self.store.table.at(index).bios);
        if self.store.table.at(index).marks.contains(Marks::WITHDRAWN) {
            self.withdrawn -= 1;
        }
        if self.store.elevator.is_some() {
            self.store.pool.put(dir);
        }
        self.counters.dismantled.add(1);
        let is_soft = |&index: &u32| self.store.table.at(index).flags.contains(Flags::SOFT_BARRIER);
        let keeps_place = [index].iter().chain(&self.store.ready).any(is_soft);
        for _ in 0..bios {
            let Some(bio) = self.store.table.pop_bio(index) else { break };
            if bio.flags().contains(Flags::ORPHAN) {
                self.keep_spare(bio);
            } else if keeps_place && self.doubts.concern(&bio) {
                self.fail(now, bio, order::IN_DOUBT);
            } else {
                self.set_aside(bio);
            }
        }
        // The slot is free now, and a barrier may have waited for that.
        self.attend(now);
    }
}
