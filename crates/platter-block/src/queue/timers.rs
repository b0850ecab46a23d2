//! Timers of a queue: deadlines, pauses before retries, and the queue's next wake-up.
//!
//! There is a single alarm, so that a call at which no timer is due costs one comparison. The alarm may be early,
//! because its timer may have become unnecessary. Deadlines are stored in the bios; when one passes, the queue
//! examines all bios. That takes time in proportion to their number, but costs nothing for bios that complete in
//! time.

use super::Queue;
use crate::bio::{Bio, Flags};
use crate::defect::{self, Defect};
use crate::fault::{Fault, Kind, Stage};
use crate::time::{Span, Time};
use crate::trace::Action;
use alloc::vec::Vec;

/// Due time of a timer that is not set.
pub(super) const NEVER: Time = Time(u64::MAX);

/// How often a bio is retried after an error that says nothing about the disk (an interruption, a shortage of memory
/// in the system).
pub const RETRIES: u8 = 12;

/// Pause before the first retry. Each further pause is twice as long: 4.1 s in all.
pub const FIRST_PAUSE: Span = Span::from_millis(1);

/// A bio that waits for its retry.
pub(super) struct Paused {
    at: Time,
    pub(super) bio: Bio,
}

// Linux errno values that a completion may have although the disk is not faulty.
const EINTR: u64 = 4;
const EAGAIN: u64 = 11;
const ENOMEM: u64 = 12;
const ECANCELED: u64 = 125;

impl Queue {
    /// When the queue wants [`Queue::tick`] to be called even if nothing happens.
    pub fn next_wakeup(&self) -> Option<Time> {
        let alarm = self.next_timer();
        Time::earliest(self.elevator_wakeup(), if alarm == NEVER { None } else { Some(alarm) })
    }

    /// Runs the timers that are due at `now`. Returns whether one was due; the driver may then have requests that
    /// nothing waits for any more.
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
            // The deadline was that of a bio that left in time. The alarm is no longer set for it, so the next bio
            // must not rely on it.
            self.next_deadline = None;
        }
        self.alarm = self.next_timer();
        true
    }

    /// Time of the first timer that is still needed.
    fn next_timer(&self) -> Time {
        // The deadline of an empty queue belongs to a bio that left in time.
        let deadline = self.next_deadline.filter(|_| !self.is_idle());
        let times = [self.plug.deadline(), self.order.deadline(), deadline, self.barrier_deadline()];
        times.into_iter().flatten().chain([self.next_pause()]).min().unwrap_or(NEVER)
    }

    /// Sets the alarm to `at` unless it is earlier.
    #[inline]
    pub(super) fn arm(&mut self, at: Time) {
        self.alarm = self.alarm.min(at);
    }

    /// Checks whether a bio may be admitted now, and sets its deadline.
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
        // Even if the deadline is an old one: while the queue was idle, the alarm was not set for it.
        self.arm(next);
    }

    /// Fails every bio whose deadline has passed. If the driver has the bio, its memory stays with the request until
    /// the driver returns it; a bio over borrowed memory is not given up.
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

    /// Visits the bios in the queue, including those that the queue made.
    fn for_each_bio(&self, mut each: impl FnMut(&Bio)) {
        let waiting = self.waiting.iter().flatten();
        let paused = self.paused.iter().map(|paused| &paused.bio);
        waiting.chain(&self.retries).chain(paused).for_each(&mut each);
        self.doubts.held().chain(self.order.held_back()).for_each(&mut each);
        self.families.bios().for_each(&mut each);
        self.table.for_each_bio(each);
    }

    /// Whether a bio whose request failed with `result` is to be retried although it was alone in the request.
    pub(super) fn may_pass(bio: &Bio, result: i64) -> bool {
        let errno = result.unsigned_abs();
        matches!(errno, EINTR | EAGAIN | ENOMEM | ECANCELED)
            && !bio.flags().intersects(Flags::LAST | Flags::ORPHAN)
            // Readahead must fail rather than wait.
            && !(errno == EAGAIN && bio.flags().contains(Flags::READAHEAD))
    }

    /// Retries a bio after a pause. Returns it if it has used up its attempts.
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
