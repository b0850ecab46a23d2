//! Timers of a queue: deadlines, pauses before retries, and the queue's next wake-up.
//!
//! There is a single alarm, so that a call at which no timer is due costs one comparison. The alarm may be early,
//! because its timer may have become unnecessary. Deadlines are stored in the bios; when one passes, the queue
//! examines all bios. That takes time in proportion to their number, but costs nothing for bios that complete in
//! time.

use super::SchedQueue;
use crate::bio::{Bio, Flags};
use crate::defect::{self, Defect};
use crate::fault::{Fault, Kind, Stage};
use crate::queue::pause::NEVER;
use crate::time::{Span, Time};
use crate::trace::{Action, Event};

/// How much longer a barrier waits if the queue was not run at the end of its time.
const GRACE: Span = Span::from_secs(1);

impl SchedQueue {
    /// When the queue wants [`SchedQueue::tick`] to be called even if nothing happens.
    #[inline]
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
        if self.paused.next() <= now {
            self.paused.end(now, &mut self.retries);
            self.note_held();
        }
        if let Some(at) = self.barrier_deadline().filter(|&at| now >= at) {
            // A whole program that was stopped runs its lanes one after the other: the others get the chance to.
            match self.order.barrier_until {
                None if now.since(at) > GRACE => self.order.barrier_until = Some(now + GRACE),
                _ => self.fail_barrier(now, Kind::LaneStalled),
            }
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
        times.into_iter().flatten().chain([self.paused.next()]).min().unwrap_or(NEVER)
    }

    /// Sets the alarm to `at` unless it is earlier.
    #[inline]
    pub(super) fn arm(&mut self, at: Time) {
        self.alarm = self.alarm.min(at);
    }

    /// Checks whether a bio may be admitted now, and sets its deadline.
    #[inline]
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
        waiting.chain(&self.retries).chain(self.paused.bios()).for_each(&mut each);
        self.doubts.held.iter().chain(self.order.held_back()).for_each(&mut each);
        self.families.bios().for_each(&mut each);
        self.table.for_each_bio(each);
    }

    /// Retries a bio after a pause. Returns it if it has used up its attempts.
    #[cold]
    pub(super) fn pause(&mut self, now: Time, bio: Bio, result: i64) -> Option<Bio> {
        match self.paused.begin(now, bio, result, self.settings.barrier_timeout) {
            Err(tried) => return Some(tried),
            Ok(at) => self.arm(at),
        }
        self.counters.requeues.add(1);
        if let (Some(sink), Some(bio)) = (&mut self.sink, self.paused.last()) {
            sink.event(&Event::of_bio(now, Action::Requeue, bio));
        }
        self.attention = true;
        self.note_held();
        None
    }
}
