//! Ranges in doubt: ranges that a given-up request may still change.
//!
//! A changing request whose bios have timed out is still with the driver, so its data may reach the disk at any later
//! time, over newer data. Until the driver returns it, nothing that overlaps it is started. Requests are checked when
//! they are about to start, because every request passes that point, however it was queued, merged or retried.

use super::complete::NO_PARENT;
use super::{Queue, order};
use crate::bio::{Bio, Flags, Op};
use crate::defect::{self, Defect};
use crate::fault::{Fault, Kind, Stage};
use crate::request::{Marks, State};
use crate::time::Time;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Receives the events of requests that were given up while the driver has them, for devices of several queues, whose
/// other queues must know. Called before the queue returns the bios that were given up.
pub trait Watch: Send {
    /// A request may still change the `len` bytes at `pos`.
    fn in_doubt(&mut self, tag: u32, pos: u64, len: u64);

    /// A request was given up as a whole. It keeps its place with the driver.
    fn quarantined(&mut self, tag: u32);

    /// The driver has returned a request that an earlier call reported.
    fn returned(&mut self, tag: u32);

    /// A request has failed or is short, and the queue would retry it or its bios. `false`: a barrier has passed
    /// because the device has completed everything that the driver had. Neither this request nor any other of those
    /// may be retried; their bios fail.
    fn may_restart(&mut self) -> bool {
        true
    }
}

struct Range {
    tag: u32,
    pos: u64,
    end: u64,
}

#[derive(Default)]
pub(super) struct Doubts {
    own: Vec<Range>,
    /// Ranges of other queues: first byte, and byte past the last.
    outside: Vec<(u64, u64)>,
    /// Bios that overlap a range in doubt.
    held: VecDeque<Bio>,
    watch: Option<Box<dyn Watch>>,
}

impl Doubts {
    #[inline]
    pub(super) fn exist(&self) -> bool {
        !self.own.is_empty() || !self.outside.is_empty()
    }

    pub(super) fn holds_none(&self) -> bool {
        self.held.is_empty()
    }

    pub(super) fn held(&self) -> impl ExactSizeIterator<Item = &Bio> {
        self.held.iter()
    }

    pub(super) fn held_mut(&mut self) -> &mut VecDeque<Bio> {
        &mut self.held
    }

    fn overlap(&self, pos: u64, end: u64) -> bool {
        self.own.iter().any(|range| range.pos < end && pos < range.end)
            || self.outside.iter().any(|range| range.0 < end && pos < range.1)
    }
}

impl Queue {
    /// Sets the watch that is told of requests that are given up. The owner of the queue then decides when the queue
    /// is [stuck](Queue::set_stuck).
    pub fn set_watch(&mut self, watch: Option<Box<dyn Watch>>) {
        self.doubts.watch = watch;
    }

    /// Whether some range of the device is in doubt.
    pub fn is_in_doubt(&self) -> bool {
        self.doubts.exist()
    }

    /// Sets the ranges (first byte, byte past the last) that requests of other queues of the device may still change.
    pub fn set_outside_doubts(&mut self, now: Time, ranges: impl Iterator<Item = (u64, u64)>) {
        self.doubts.outside.clear();
        self.doubts.outside.extend(ranges);
        if self.doubts.exist() {
            self.doubt_arose(now);
        }
        self.release_held(now);
        self.attend(now);
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
        let in_doubt = self.doubts.own.len();
        for index in started {
            self.give_up_of(now, index, which, &mut late);
        }
        if self.doubts.own.len() > in_doubt {
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
        let Queue { table, doubts, families, .. } = self;
        let (before, op) = (late.len(), table.at(index).op);
        let mut in_doubt = false;
        table.for_each_bio_mut(index, |bio| {
            let flags = bio.flags();
            if flags.contains(Flags::ORPHAN) || order::is_own_flush(bio) || !which(bio) {
                return;
            }
            let (pos, len) = (bio.pos(), bio.len());
            if !op.has_data() {
                late.push(bio.leave_placeholder());
            } else if !flags.contains(Flags::BORROWED) {
                let face = bio.abandon();
                if families.lends_memory(face.parent()) {
                    families.orphaned(face.parent());
                } else {
                    bio.set_parent(NO_PARENT);
                }
                late.push(face);
            } else {
                return;
            }
            if op.changes() && !defect::is_on(Defect::DoubtIgnored) {
                in_doubt = true;
                doubts.own.push(Range { tag: index, pos, end: pos + len });
                doubts.watch.iter_mut().for_each(|watch| watch.in_doubt(index, pos, len));
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
        self.given_up.push(index);
        self.doubts.watch.iter_mut().for_each(|watch| watch.quarantined(index));
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
        self.given_up.retain(|&tag| tag != index);
        self.doubts.watch.iter_mut().for_each(|watch| watch.returned(index));
        if marks.contains(Marks::QUARANTINED) {
            self.quarantined -= 1;
            self.look_whether_stuck(now);
        }
        if marks.contains(Marks::IN_DOUBT) {
            self.doubts.own.retain(|range| range.tag != index);
            self.release_held(now);
        }
    }

    /// A barrier cannot succeed while a change of the device may arrive at any time, so barriers fail.
    fn doubt_arose(&mut self, now: Time) {
        self.attention = true;
        if !defect::is_on(Defect::BarrierWaitsForQuarantine) {
            self.fail_barrier(now, Kind::InDoubt);
        }
    }

    /// Admits the bios that no longer overlap a range in doubt, in the order of their submission.
    fn release_held(&mut self, now: Time) {
        for _ in 0..self.doubts.held.len() {
            let Some(bio) = self.doubts.held.pop_front() else { return };
            match self.doubts.overlap(bio.pos(), bio.end()) {
                true => self.doubts.held.push_back(bio),
                false => self.admit(now, bio),
            }
        }
    }

    /// Whether a request may go to the driver unchanged.
    pub(super) fn may_start(&self, index: u32) -> bool {
        let request = self.table.at(index);
        !request.marks.contains(Marks::WITHDRAWN)
            && (request.op == Op::Flush || !self.doubts.overlap(request.pos, request.end()))
    }

    /// Dismantles a request that may not start: withdrawn bios are dropped, bios that overlap a range in doubt are
    /// held, and the others start next, each in a request of its own.
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
        for _ in 0..bios {
            let Some(mut bio) = self.table.pop_bio(index) else { break };
            if bio.flags().contains(Flags::ORPHAN) {
                self.keep_spare(bio);
            } else if self.doubts.overlap(bio.pos(), bio.end()) {
                self.doubts.held.push_back(bio);
            } else {
                bio.add_flags(Flags::ALONE);
                self.retries.push_back(bio);
            }
        }
        // The slot is free now, and a barrier may have waited for that.
        self.attend(now);
    }
}
