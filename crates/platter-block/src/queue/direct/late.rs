//! What happens to bios that are late, cancelled or given up, and what the queue's owner may ask and set.

use super::{DirectQueue, Slot};
use crate::bio::{Bio, Flags};
use crate::defect::{self, Defect};
use crate::fault::{Fault, Kind};
use crate::queue::Rest;
use crate::queue::doubt::Watch;
use crate::queue::pause::{NEVER, queue_fault, take_matching};
use crate::request::Marks;
use crate::time::Time;
use crate::trace::Sink;
use alloc::boxed::Box;
use alloc::vec::Vec;

impl DirectQueue {
    /// Checks whether a bio may be admitted now, and sets its deadline.
    pub(super) fn admit_in_time(&mut self, now: Time, bio: &mut Bio) -> Result<(), Fault> {
        if self.stuck {
            return Err(queue_fault(Kind::Stuck));
        }
        if let (Some(timeout), None) = (self.settings.timeout, bio.deadline()) {
            bio.set_deadline(Some(now + timeout));
        }
        let Some(at) = bio.deadline() else { return Ok(()) };
        if at <= now {
            self.counters.timeouts.add(1);
            return Err(queue_fault(Kind::TimedOut));
        }
        let next = self.next_deadline.map_or(at, |next| next.min(at));
        self.next_deadline = Some(next);
        // Even if the deadline is an old one: while the queue was idle, the alarm was not set for it.
        self.arm(next);
        Ok(())
    }

    /// Sets the alarm to `at` unless it is earlier.
    pub(super) fn arm(&mut self, at: Time) {
        self.alarm = self.alarm.min(at);
    }

    #[cold]
    pub(super) fn run_timers(&mut self, now: Time) -> bool {
        if self.next_deadline.is_some_and(|at| now >= at) {
            self.expire(now);
        }
        if self.paused.next() <= now {
            self.paused.end(now, &mut self.retries);
            self.note_attention();
        }
        if self.is_idle() {
            // The deadline was that of a bio that left in time. The alarm is no longer set for it, so the next bio
            // must not rely on it.
            self.next_deadline = None;
        }
        self.alarm = self.next_wakeup().unwrap_or(NEVER);
        true
    }

    /// Fails every bio whose deadline has passed. If the driver has the bio, its memory stays with the request until
    /// the driver returns it; a bio over borrowed memory is not given up.
    fn expire(&mut self, now: Time) {
        let late = move |bio: &Bio| bio.deadline().is_some_and(|at| at <= now);
        if !defect::is_on(Defect::DeadlineFromStart) {
            self.withdraw(now, &late, Kind::TimedOut);
        }
        self.give_up(now, &late);
        let left = self.bios().filter(|bio| !bio.flags().contains(Flags::ORPHAN));
        self.next_deadline = left.filter_map(Bio::deadline).filter(|&at| at > now).min();
        self.attend(now);
    }

    /// The bios in the queue, including those that the queue made.
    fn bios(&self) -> impl Iterator<Item = &Bio> {
        let lists = [&self.backlog, &self.waiting, &self.retries, &self.doubts.held];
        let queued = lists.into_iter().flatten().chain(self.paused.bios());
        queued.chain(self.families.bios()).chain(self.slots.iter().flat_map(Slot::bios))
    }

    /// Fails every bio that matches and that the driver does not have.
    fn withdraw(&mut self, now: Time, which: &dyn Fn(&Bio) -> bool, why: Kind) {
        let (mut out, mut in_doubt): (Vec<Bio>, Vec<Bio>) = (Vec::new(), Vec::new());
        take_matching(&mut self.waiting, which, &mut out);
        take_matching(&mut self.retries, which, &mut out);
        self.paused.withdraw(which, &mut out);
        let before = self.backlog.len();
        take_matching(&mut self.backlog, which, &mut out);
        if self.backlog.len() < before {
            self.recount();
        }
        take_matching(&mut self.doubts.held, which, &mut in_doubt);
        self.fail_all(now, out, why);
        self.fail_all(now, in_doubt, if why == Kind::TimedOut { Kind::InDoubt } else { why });
        self.note_attention();
    }

    fn fail_all(&mut self, now: Time, bios: Vec<Bio>, kind: Kind) {
        for bio in bios {
            if matches!(kind, Kind::TimedOut | Kind::InDoubt) {
                self.counters.timeouts.add(1);
            }
            self.fail(now, bio, queue_fault(kind));
        }
    }

    /// Aborts the bios that match. Those that have not started fail at once with [`Kind::Cancelled`]. For the others,
    /// `ask` is called with the tags of their requests; they are not retried, whatever their result.
    pub fn cancel(&mut self, now: Time, which: &dyn Fn(&Bio) -> bool, ask: &mut dyn FnMut(u32)) {
        self.withdraw(now, which, Kind::Cancelled);
        for (tag, slot) in self.slots.iter_mut().enumerate() {
            let mut found = false;
            for bio in slot.bios_mut().filter(|bio| !bio.flags().contains(Flags::ORPHAN) && which(bio)) {
                bio.add_flags(Flags::LAST);
                found = true;
            }
            if found {
                slot.plain = false;
                ask(tag as u32);
            }
        }
        self.attend(now);
    }

    /// A barrier passes although requests of this queue have not been reported, because the device has completed them
    /// all. If such a request turns out to have failed or to be short, it is not retried, because the retry would
    /// come after the barrier; its bios fail.
    pub fn count_as_complete(&mut self) {
        for slot in &mut self.slots {
            slot.plain = false;
            slot.bios_mut().for_each(|bio| bio.add_flags(Flags::LAST));
        }
    }

    /// Whether a bio that its request did not complete may be retried.
    pub(super) fn may_restart(&mut self) -> bool {
        let may = self.doubts.watch.as_mut().is_none_or(|watch| watch.may_restart());
        if !may {
            self.count_as_complete();
        }
        may
    }

    /// Sets the watch that is told of requests that are given up. The owner of the queue then decides when the queue
    /// is [stuck](DirectQueue::set_stuck).
    pub fn set_watch(&mut self, watch: Option<Box<dyn Watch>>) {
        self.doubts.watch = watch;
    }

    /// The tag of a request that was given up as a whole and not returned by this call before: the driver may be
    /// asked to cancel it.
    pub fn next_given_up(&mut self) -> Option<u32> {
        self.doubts.given_up.pop()
    }

    /// Whether some request that was given up may still change the device.
    pub fn is_in_doubt(&self) -> bool {
        self.doubts.exist()
    }

    /// Requests that were given up as a whole and that the driver still has. They keep their places with it.
    pub fn quarantined(&self) -> u32 {
        self.quarantined
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

    /// Without a watch, a queue is stuck when its given-up requests fill its depth.
    fn look_whether_stuck(&mut self, now: Time) {
        if self.doubts.watch.is_none() && !defect::is_on(Defect::StuckDepthIgnored) {
            self.set_stuck(now, self.quarantined >= self.settings.depth);
        }
    }

    /// Gives up all requests that the driver has, except those over borrowed memory. Ranges that they still change
    /// are in doubt. For an owner that goes away.
    pub fn give_up_all(&mut self, now: Time) {
        self.give_up(now, &|_| true);
    }

    /// Gives up bios that match and that the driver has: they fail with [`Kind::TimedOut`], and their memory stays
    /// with their requests until the driver returns it. Bios over borrowed memory are not given up.
    fn give_up(&mut self, now: Time, which: &dyn Fn(&Bio) -> bool) {
        let mut late: Vec<Bio> = Vec::new();
        for tag in 0..self.slots.len() as u32 {
            self.give_up_of(tag, which, &mut late);
        }
        self.look_whether_stuck(now);
        for bio in late {
            self.counters.timeouts.add(1);
            self.fail(now, bio, queue_fault(Kind::TimedOut));
        }
        self.note_attention();
    }

    /// Gives up the bios of one request that match; adds the bios that their submitters get to `late`.
    fn give_up_of(&mut self, tag: u32, which: &dyn Fn(&Bio) -> bool, late: &mut Vec<Bio>) {
        let DirectQueue { slots, doubts, families, .. } = self;
        let slot = &mut slots[tag as usize];
        let Some(op) = slot.bio.as_ref().map(Bio::op) else { return };
        let (before, mut in_doubt) = (late.len(), false);
        for bio in slot.bios_mut().filter(|bio| !bio.flags().contains(Flags::ORPHAN) && which(bio)) {
            late.extend(doubts.give_up(families, (tag, op), bio, &mut in_doubt));
        }
        if late.len() == before {
            return;
        }
        slot.plain = false;
        if in_doubt {
            slot.marks.add(Marks::IN_DOUBT);
        }
        if slot.bios().all(|bio| bio.flags().contains(Flags::ORPHAN)) {
            slot.marks.add(Marks::QUARANTINED);
            doubts.quarantine(tag);
            self.quarantined += 1;
        }
    }

    /// The driver has returned a request with these marks.
    pub(super) fn take_back(&mut self, now: Time, tag: u32, marks: Marks) {
        if marks == Marks::NONE {
            return;
        }
        self.doubts.returned(tag);
        if marks.contains(Marks::QUARANTINED) {
            self.quarantined -= 1;
            self.look_whether_stuck(now);
        }
        if marks.contains(Marks::IN_DOUBT) {
            self.doubts.end(tag);
            self.release_held(now);
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

    /// Whether a request overlaps a range in doubt.
    pub(super) fn overlaps_doubt(&self, bio: &Bio, more: &[Bio]) -> bool {
        match more.last() {
            None => self.doubts.concern(bio),
            Some(last) => self.doubts.overlap(bio.pos(), last.end()),
        }
    }

    /// Dismantles a request that overlaps a range in doubt: bios that do are held, and the others start next, each in
    /// a request of its own.
    #[cold]
    pub(super) fn take_apart(&mut self, first: Bio, mut more: Vec<Bio>) {
        self.counters.dismantled.add(1);
        for mut bio in core::iter::once(first).chain(more.drain(..)) {
            if self.doubts.concern(&bio) {
                self.doubts.held.push_back(bio);
            } else {
                bio.add_flags(Flags::ALONE);
                self.retries.push_back(bio);
            }
        }
        self.keep_list(more);
    }

    /// Requests with the driver.
    #[inline]
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Requests that are with the driver or could be given to it.
    #[inline]
    pub fn demand(&self) -> u32 {
        self.used() + self.retries.len() as u32
    }

    /// Changes how many requests may be with the driver at once (at least one).
    #[inline]
    pub fn set_depth(&mut self, depth: u32) {
        self.settings.depth = depth.max(1);
    }

    /// Whether the queue holds nothing at all (except completed bios).
    pub fn is_idle(&self) -> bool {
        self.used() == 0 && self.is_drained() && self.families.is_empty()
    }

    /// Whether everything that was admitted has completed, except requests given up.
    pub(super) fn is_drained(&self) -> bool {
        let given_up = if defect::is_on(Defect::BarrierWaitsForQuarantine) { 0 } else { self.quarantined };
        self.used() == given_up
            && self.waiting.is_empty()
            && self.retries.is_empty()
            && self.paused.is_empty()
            && self.doubts.held.is_empty()
            && self.families.are_released()
    }

    /// Whether the queue holds nothing that could still start or complete to a submitter.
    pub fn is_settled(&self) -> bool {
        self.rest() == Rest::Settled
    }

    /// Whether the driver has borrowed memory.
    pub fn has_borrowed(&self) -> bool {
        let lent = |bio: &Bio| bio.flags().contains(Flags::BORROWED) && bio.op().has_data();
        self.slots.iter().flat_map(Slot::bios).any(lent)
    }

    /// Starts no further request; requests with the driver continue.
    pub fn freeze(&mut self) {
        self.frozen = true;
        self.note_attention();
    }

    /// The size of the device has changed. Bios beyond its end fail from now on, with [`Kind::Gone`] if they are
    /// below the `largest` size that the device has had. Bios submitted earlier go to the driver unchanged.
    pub fn set_size(&mut self, size: u64, largest: u64) {
        (self.geometry.size, self.common.size, self.largest) = (size, size, largest);
    }

    /// Sends trace events to `sink`; `None` stops tracing.
    pub fn set_sink(&mut self, sink: Option<Box<dyn Sink>>) {
        self.sink = sink;
        self.note_attention();
    }
}
