//! Looking for requests at intervals, instead of being woken for each.
//!
//! A thread that answers faster than its client sends sleeps after each request, and the client pays for waking it. If
//! several requests arrive within [`INTERVAL`], it is cheaper for both to sleep that long and take them together, as
//! network cards do with interrupts. Replies are never held back. Whether it pays cannot be seen from the requests that
//! have arrived, so it is tried, and seldom where it was in vain: a client with one request at a time is delayed once in
//! thousands of requests.

use std::num::NonZeroU64;
use std::time::Duration;

/// How long requests are left to gather.
const INTERVAL: Duration = Duration::from_micros(30);

/// The precision that the system is asked for, in ns; by default it sleeps 50 us longer.
const SLACK_NS: NonZeroU64 = NonZeroU64::new(1000).unwrap();

/// Requests that must arrive in an interval for another one to follow.
const WORTH: u32 = 4;

/// Requests until the next attempt, after one that was not in vain and at most.
const LEAST_PAUSE: u32 = 64;
const MOST_PAUSE: u32 = 8192;

pub(super) struct Moderation {
    /// The thread has slept for an interval last.
    is_on: bool,
    /// Requests that were taken since the thread last had nothing to do.
    taken: u32,
    /// Requests until the next attempt, and how many those were at the last failure.
    left: u32,
    pause: u32,
    has_slack: bool,
}

impl Default for Moderation {
    fn default() -> Moderation {
        Moderation { is_on: false, taken: 0, left: LEAST_PAUSE, pause: LEAST_PAUSE, has_slack: false }
    }
}

impl Moderation {
    /// Whether requests are left to gather now.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// A request was taken.
    #[inline]
    pub(super) fn taken(&mut self) {
        self.taken += 1;
    }

    /// The thread has nothing to do. Returns whether it is to sleep for an interval, and not until the next request.
    #[inline]
    pub(super) fn is_due(&mut self) -> bool {
        let taken = std::mem::take(&mut self.taken);
        if self.is_on {
            if taken >= WORTH {
                self.pause = LEAST_PAUSE;
            } else {
                self.pause = (self.pause * 2).min(MOST_PAUSE);
                (self.is_on, self.left) = (false, self.pause);
            }
        } else {
            self.left = self.left.saturating_sub(taken);
            self.is_on = self.left == 0;
        }
        self.is_on
    }

    pub(super) fn sleep(&mut self) {
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
        let (mut moderation, mut count, mut was_on) = (Moderation::default(), 0, false);
        for _ in 0..turns {
            (0..taken(was_on)).for_each(|_| moderation.taken());
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
        assert!(intervals(1000, |was_on| if was_on { 8 } else { 1 }) > 900);
        // A client that gives fewer than it is worth.
        assert!(intervals(100_000, |was_on| if was_on { WORTH - 1 } else { 1 }) < 20);
    }
}
