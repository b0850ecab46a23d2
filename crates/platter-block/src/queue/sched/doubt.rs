//! What the shared queue does about requests that have timed out.

use super::{SchedQueue, order};
use crate::bio::{Bio, Flags, Op};
use crate::defect::{self, Defect};
use crate::fault::{Fault, Kind, Stage};
use crate::queue::doubt::Watch;
use crate::queue::pause::take_matching;
use crate::request::{Marks, State};
use crate::time::Time;
use alloc::boxed::Box;
use alloc::vec::Vec;

impl SchedQueue {
    /// Sets the watch that is told of requests that are given up. The owner of the queue then decides when the queue
    /// is [stuck](SchedQueue::set_stuck).
    pub fn set_watch(&mut self, watch: Option<Box<dyn Watch>>) {
        self.doubts.watch = watch;
    }

    /// Whether some range of the device is in doubt.
    pub fn is_in_doubt(&self) -> bool {
        self.doubts.exist()
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
        for mut bio in stalled {
            bio.fail(Fault::new(Kind::LaneStalled, Stage::Queue));
            self.finish(now, bio);
        }
        self.attend(now);
        any
    }

    /// Sets whether given-up requests hold the whole depth of the device. While they do, everything that has not
    /// started fails with [`Kind::Stuck`], and so does every new bio.
    pub fn set_stuck(&mut self, now: Time, stuck: bool) {
        if stuck && !self.stuck {
            self.stuck = true;
            self.withdraw(now, &|_| true, Kind::Stuck);
        }
        self.stuck = stuck;
        self.note_attention();
    }

    /// Whether a bio that its request did not complete may be retried.
    pub(super) fn may_restart(&mut self) -> bool {
        let may = self.doubts.watch.as_mut().is_none_or(|watch| watch.may_restart());
        if !may {
            self.count_as_complete();
        }
        may
    }

    /// Without a watch, a queue is stuck when its given-up requests fill its depth.
    fn look_whether_stuck(&mut self, now: Time) {
        if self.doubts.watch.is_none() && !defect::is_on(Defect::StuckDepthIgnored) {
            self.set_stuck(now, self.quarantined >= self.settings.depth);
        }
    }

    /// Gives up bios that match and that the driver has: they fail with [`Kind::TimedOut`], and their memory stays
    /// with their requests until the driver returns it. Bios over borrowed memory are not given up.
    pub(super) fn give_up(&mut self, now: Time, which: &dyn Fn(&Bio) -> bool) {
        let started: Vec<u32> = self.table.in_state(State::Started).collect();
        let mut late: Vec<Bio> = Vec::new();
        let in_doubt = self.doubts.own();
        for index in started {
            self.give_up_of(now, index, which, &mut late);
        }
        if self.doubts.own() > in_doubt {
            self.doubt_arose(now);
        }
        self.look_whether_stuck(now);
        for mut bio in late {
            bio.fail(Fault::new(Kind::TimedOut, Stage::Queue));
            self.counters.timeouts.add(1);
            self.finish(now, bio);
        }
        self.note_attention();
    }

    /// Gives up all requests that the driver has, except those over borrowed memory. Ranges that they still change
    /// are in doubt. For an owner that goes away.
    pub fn give_up_all(&mut self, now: Time) {
        self.give_up(now, &|_| true);
    }

    /// Whether the driver has borrowed memory.
    pub fn has_borrowed(&self) -> bool {
        let lent = |bio: &Bio| bio.flags().contains(Flags::BORROWED) && bio.op().has_data();
        self.table.in_state(State::Started).any(|index| !self.table.all_bios(index, |bio| !lent(bio)))
    }

    /// Gives up the bios of one request that match; adds the bios that their submitters get to `late`.
    fn give_up_of(&mut self, now: Time, index: u32, which: &dyn Fn(&Bio) -> bool, late: &mut Vec<Bio>) {
        let SchedQueue { table, doubts, families, .. } = self;
        let (before, op) = (late.len(), table.at(index).op);
        let mut in_doubt = false;
        table.for_each_bio_mut(index, |bio| {
            if !bio.flags().contains(Flags::ORPHAN) && !order::is_own_flush(bio) && which(bio) {
                late.extend(doubts.give_up(families, (index, op), bio, &mut in_doubt));
            }
        });
        if in_doubt {
            table.at_mut(index).marks.add(Marks::IN_DOUBT);
        }
        if late.len() > before && table.all_bios(index, |bio| bio.flags().contains(Flags::ORPHAN)) {
            self.quarantine(now, index);
        }
    }

    /// Nothing waits for the request any more. It keeps its slot until the driver returns it.
    pub(super) fn quarantine(&mut self, now: Time, index: u32) {
        self.tell_completed(now, index);
        self.table.at_mut(index).marks.add(Marks::QUARANTINED);
        self.quarantined += 1;
        self.doubts.quarantine(index);
        if self.table.at(index).flags.contains(Flags::TAGGED) {
            // What the device has behind an ordered tag relies on its place.
            self.doubts.given_up.retain(|&tag| tag != index);
        }
        self.attention = true;
    }

    /// The running flush serves no sequence any more.
    pub(super) fn quarantine_flush(&mut self, now: Time) {
        let mut started = self.table.in_state(State::Started);
        let flush = started.find(|&index| {
            self.table.at(index).op == Op::Flush && !self.table.at(index).marks.contains(Marks::QUARANTINED)
        });
        drop(started);
        if let Some(index) = flush {
            self.quarantine(now, index);
            self.look_whether_stuck(now);
        }
    }

    /// The driver has returned a request; called before anything else is done with it.
    pub(super) fn take_back(&mut self, now: Time, index: u32) {
        let marks = self.table.at(index).marks;
        if marks == Marks::NONE {
            return;
        }
        self.doubts.returned(index);
        if marks.contains(Marks::QUARANTINED) {
            self.quarantined -= 1;
            self.look_whether_stuck(now);
        }
        if marks.contains(Marks::IN_DOUBT) {
            self.doubts.end(index);
            self.release_held(now);
        }
    }

    /// A barrier cannot succeed while a change of the device may arrive at any time, so barriers fail.
    fn doubt_arose(&mut self, now: Time) {
        self.attention = true;
        if !defect::is_on(Defect::BarrierWaitsForQuarantine) {
            self.fail_barrier(now, Kind::InDoubt);
            self.fail_unsent_tag(now);
        }
    }

    /// Admits the bios that no longer overlap a range in doubt, in the order of their submission.
    fn release_held(&mut self, now: Time) {
        for _ in 0..self.doubts.held.len() {
            let Some(bio) = self.doubts.held.pop_front() else { return };
            match self.doubts.concern(&bio) {
                true => self.doubts.held.push_back(bio),
                false => self.admit(now, bio),
            }
        }
    }

    /// Whether a request may go to the driver unchanged.
    pub(super) fn may_start(&self, index: u32) -> bool {
        let request = self.table.at(index);
        !request.marks.contains(Marks::WITHDRAWN)
            && match request.op {
                Op::Flush => true,
                Op::Command => !self.table.any_bio(index, |bio| self.doubts.concern(bio)),
                _ => !self.doubts.overlap(request.pos, request.end()),
            }
    }

    /// Dismantles a request that may not start: withdrawn bios are dropped, bios that overlap a range in doubt are
    /// held, and the others start next, each in a request of its own. A soft barrier behind it, or in it, would be passed
    /// by bios that are held, so these fail.
    pub(super) fn take_apart(&mut self, now: Time, index: u32) {
        self.tell_completed(now, index);
        let (dir, bios) = (self.table.at(index).op.dir(), self.table.at(index).bios);
        if self.table.at(index).marks.contains(Marks::WITHDRAWN) {
            self.withdrawn -= 1;
        }
        if self.elevator.is_some() {
            self.pool.put(dir);
        }
        self.counters.dismantled.add(1);
        let is_soft = |&index: &u32| self.table.at(index).flags.contains(Flags::SOFT_BARRIER);
        let keeps_place = [index].iter().chain(&self.ready).any(is_soft);
        for _ in 0..bios {
            let Some(mut bio) = self.table.pop_bio(index) else { break };
            if bio.flags().contains(Flags::ORPHAN) {
                self.keep_spare(bio);
            } else if self.doubts.concern(&bio) {
                if keeps_place && !defect::is_on(Defect::SoftBarrierPassed) {
                    bio.fail(order::IN_DOUBT);
                    self.finish(now, bio);
                } else {
                    self.doubts.held.push_back(bio);
                }
            } else {
                bio.add_flags(Flags::ALONE);
                self.retries.push_back(bio);
            }
        }
        // The slot is free now, and a barrier may have waited for that.
        self.attend(now);
    }
}
