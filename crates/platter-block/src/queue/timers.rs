//! Time in a queue: deadlines, pauses before another attempt, and when the queue wants to be called.
//!
//! There is one alarm, so that a call at which no timer is due costs one comparison. It may be early: of a timer that was
//! set it is not known whether it is still needed. Deadlines are in the bios; when one passes the queue looks at all of
//! them, which takes time in proportion to their number but costs nothing for the bios that complete in time.

use super::Queue;
use crate::bio::{Bio, Flags};
use crate::defect::{self, Defect};
use crate::fault::{Fault, Kind, Stage};
use crate::time::{Span, Time};
use crate::trace::Action;
use alloc::vec::Vec;

/// When a timer that is not set is due.
pub(super) const NEVER: Time = Time(u64::MAX);

/// How often a bio is started again after an error that says nothing about the disk (an interruption, a shortage of
/// memory in the system).
pub const RETRIES: u8 = 12;

/// Pause before the first of these attempts. Each further pause is twice as long: 4.1 s in all.
pub const FIRST_PAUSE: Span = Span::from_millis(1);

/// A bio that is to be started again.
pub(super) struct Paused {
    at: Time,
    pub(super) bio: Bio,
}

// Linux errno values that a completion may have although nothing is wrong with the disk.
const EINTR: u64 = 4;
const EAGAIN: u64 = 11;
const ENOMEM: u64 = 12;
const ECANCELED: u64 = 125;

impl Queue {
    /// When the queue wants [`Queue::tick`] to be called although nothing happened.
    pub fn next_wakeup(&self) -> Option<Time> {
        let alarm = self.next_timer();
        Time::earliest(self.elevator_wakeup(), if alarm == NEVER { None } else { Some(alarm) })
    }

    /// Time has passed: runs the timers that are due. Returns whether one was, after which requests may be with the
    /// driver that nothing waits for any more.
    #[inline]
    pub fn tick(&mut self, now: Time) -> bool {
        now >= self.alarm && self.run_timers(now)
    }

    #[cold]
    fn run_timers(&mut self, now: Time) -> bool {
        if self.plug.deadline().is_some_and(|at| now >= at) {
            self.unplug(now, Action::UnplugTimer);
        }
        if self.order.deadline().is_some_and(|at| now >= at) {
            self.start_flush(now);
        }
        if self.next_deadline.is_some_and(|at| now >= at) {
            self.expire(now);
        }
        if self.next_pause() <= now {
            self.end_pauses(now);
        }
        if self.barrier_deadline().is_some_and(|at| now >= at) {
            self.fail_barrier(now, Kind::LaneStalled);
        }
        if self.is_idle() {
            // It is of a bio that has left in time. The alarm is not set for it any more, so the next bio must not find it.
            self.next_deadline = None;
        }
        self.alarm = self.next_timer();
        true
    }

    /// When the first timer is due that is still needed.
    fn next_timer(&self) -> Time {
        // Of an empty queue the deadline is one of a bio that has left in time.
        let deadline = self.next_deadline.filter(|_| !self.is_idle());
        let times = [self.plug.deadline(), self.order.deadline(), deadline, self.barrier_deadline()];
        times.into_iter().flatten().chain([self.next_pause()]).min().unwrap_or(NEVER)
    }

    /// Has the queue look at its timers at `at`.
    #[inline]
    pub(super) fn arm(&mut self, at: Time) {
        self.alarm = self.alarm.min(at);
    }

    /// Whether a bio may be let in now, and until when it has time.
    pub(super) fn admit_in_time(&mut self, now: Time, bio: &mut Bio) -> Result<(), Fault> {
        if self.stuck {
            return Err(Fault::new(Kind::Stuck, Stage::Queue));
        }
        if let (Some(timeout), None) = (self.settings.timeout, bio.deadline()) {
            bio.set_deadline(Some(now + timeout));
        }
        let Some(at) = bio.deadline() else { return Ok(()) };
        if at <= now {
            self.counters.timeouts.add(1);
            return Err(Fault::new(Kind::TimedOut, Stage::Queue));
        }
        self.note_deadline(at);
        Ok(())
    }

    fn note_deadline(&mut self, at: Time) {
        let next = self.next_deadline.map_or(at, |next| next.min(at));
        self.next_deadline = Some(next);
        // Also if it is an old one: while the queue was idle the alarm was not set for it.
        self.arm(next);
    }

    /// Fails every bio whose deadline has passed. The memory of one that the driver has stays with the request until the
    /// driver gives it back; one over borrowed memory is not given up.
    #[cold]
    fn expire(&mut self, now: Time) {
        let late = move |bio: &Bio| bio.deadline().is_some_and(|at| at <= now);
        if !defect::is_on(Defect::DeadlineFromStart) {
            self.withdraw(now, &late, Kind::TimedOut);
        }
        self.give_up(now, &late);
        let mut next = NEVER;
        self.for_each_bio(|bio| {
            let at = bio.deadline().filter(|&at| at > now && !bio.flags().contains(Flags::ORPHAN));
            next = next.min(at.unwrap_or(NEVER));
        });
        self.next_deadline = (next != NEVER).then_some(next);
        self.attend(now);
    }

    /// Visits the bios in the queue, those that the queue made among them.
    fn for_each_bio(&self, mut each: impl FnMut(&Bio)) {
        let waiting = self.waiting.iter().flatten();
        let paused = self.paused.iter().map(|paused| &paused.bio);
        waiting.chain(&self.retries).chain(paused).for_each(&mut each);
        self.doubts.held().chain(self.order.held_back()).for_each(&mut each);
        self.families.bios().for_each(&mut each);
        self.table.for_each_bio(each);
    }

    /// Whether a bio that failed with `result` is to be started again although it failed by itself.
    pub(super) fn may_pass(bio: &Bio, result: i64) -> bool {
        let errno = result.unsigned_abs();
        matches!(errno, EINTR | EAGAIN | ENOMEM | ECANCELED)
            && !bio.flags().intersects(Flags::LAST | Flags::ORPHAN)
            // Readahead would rather fail than wait.
            && !(errno == EAGAIN && bio.flags().contains(Flags::READAHEAD))
    }

    /// Starts a bio again after a pause. Gives it back when it has had all its attempts.
    #[cold]
    pub(super) fn pause(&mut self, now: Time, mut bio: Bio) -> Option<Bio> {
        let attempts = bio.count_attempt();
        if attempts >= RETRIES {
            return Some(bio);
        }
        let at = now + Span(FIRST_PAUSE.0 << attempts);
        bio.add_flags(Flags::ALONE);
        self.counters.requeues.add(1);
        if self.sink.is_some() {
            self.trace_bio(now, Action::Requeue, &bio);
        }
        self.paused.push(Paused { at, bio });
        self.arm(at);
        self.attention = true;
        self.note_held();
        None
    }

    fn next_pause(&self) -> Time {
        self.paused.iter().map(|paused| paused.at).min().unwrap_or(NEVER)
    }

    fn end_pauses(&mut self, now: Time) {
        let all = core::mem::take(&mut self.paused);
        let (over, rest): (Vec<Paused>, Vec<Paused>) = all.into_iter().partition(|paused| paused.at <= now);
        self.paused = rest;
        self.retries.extend(over.into_iter().map(|paused| paused.bio));
        self.note_held();
    }
}
