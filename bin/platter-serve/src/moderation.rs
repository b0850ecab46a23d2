//! Looking for requests at intervals, instead of being woken for each.
//!
//! A thread that answers faster than its client sends sleeps after each request, and the client pays for waking it. If
//! several requests arrive within [`INTERVAL`], it is cheaper for both to sleep that long and take them together, as
//! network cards do with interrupts. Replies are never held back. Whether it pays cannot be seen from the requests that
//! have arrived, so it is tried, and seldom where it was in vain: a client with one request at a time is delayed once in
//! thousands of requests. A client that sends many at once and waits for all replies would only be delayed, so it is not
//! tried while as many arrive together anyway, and it ends now and then to see whether they do.

use std::num::NonZeroU64;
use std::time::Duration;

/// How long requests are left to gather.
const INTERVAL: Duration = Duration::from_micros(30);

/// The precision that the system is asked for, in ns; by default it sleeps 50 us longer.
const SLACK_NS: NonZeroU64 = NonZeroU64::MIN;

/// Requests that must arrive in an interval for another one to follow.
const WORTH: u32 = 4;

/// Intervals in a row, until requests are awaited again for a while.
const ROW: u32 = 4096;

/// Requests until the next attempt, after one that was not in vain and at most.
const LEAST_PAUSE: u32 = 64;
const MOST_PAUSE: u32 = 8192;

pub(crate) struct Moderation {
    many: u32,
    /// Intervals that may follow each other from now on; 0: requests are awaited.
    row: u32,
    /// Requests that were taken since the thread last had nothing to do.
    taken: u32,
    /// Requests until the next attempt, and how many they are after an interval.
    left: u32,
    pause: u32,
    has_slack: bool,
}

impl Moderation {
    /// `many`: requests that come together without intervals and show that a client sends them so.
    pub(crate) fn new(many: u32) -> Moderation {
        Moderation { many, row: 0, taken: 0, left: LEAST_PAUSE, pause: LEAST_PAUSE, has_slack: false }
    }

    /// Whether requests are left to gather now.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.row > 0
    }

    /// Requests were taken.
    #[inline]
    pub(crate) fn taken(&mut self, count: u32) {
        self.taken += count;
    }

    /// The thread has nothing to do. Returns whether it is to sleep for an interval, and not until the next request.
    #[inline]
    pub(crate) fn is_due(&mut self) -> bool {
        let taken = std::mem::take(&mut self.taken);
        if self.row > 0 {
            self.pause = if taken >= WORTH { LEAST_PAUSE } else { (self.pause * 2).min(MOST_PAUSE) };
            self.row = if taken >= WORTH { self.row - 1 } else { 0 };
            self.left = self.pause;
        } else if taken < self.many {
            self.left = self.left.saturating_sub(taken);
            self.row = if self.left == 0 { ROW } else { 0 };
        }
        self.row > 0
    }

    pub(crate) fn sleep(&mut self) {
        if !std::mem::replace(&mut self.has_slack, true) {
            // Without it intervals are longer.
            let _ = rustix::thread::set_current_timer_slack(Some(SLACK_NS));
        }
        std::thread::sleep(INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests that a thread with nothing to do has taken each time: how often it sleeps for an interval.
    fn intervals(turns: u32, taken: impl Fn(bool) -> u32) -> u32 {
        let (mut moderation, mut count, mut was_on) = (Moderation::new(16), 0, false);
        for _ in 0..turns {
            moderation.taken(taken(was_on));
            was_on = moderation.is_due();
            count += u32::from(was_on);
        }
        count
    }

    #[test]
    fn clients_with_few_requests_are_delayed_seldom_and_others_are_moderated() {
        // One request at a time: the pauses double.
        assert!((5..=20).contains(&intervals(100_000, |_| 1)));
        assert_eq!(intervals(1000, |_| 0), 0);
        // Requests come one by one, but many during an interval.
        assert!(intervals(10_000, |was_on| if was_on { 8 } else { 1 }) > 9000);
        // Many come together anyway.
        assert_eq!(intervals(1000, |_| 32), 0);
        // A client that gives fewer than it is worth.
        assert!(intervals(100_000, |was_on| if was_on { WORTH - 1 } else { 1 }) < 20);
    }
}
