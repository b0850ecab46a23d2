//! Polling the ring for a short time before sleeping.
//!
//! A sleep costs the thread about as much as 20 us of polling costs it: three system calls and two context switches.
//! While it sleeps, a driver that keeps a fixed number of requests in flight has to notify it, and soon sleeps as well:
//! the two then work in turns, never at the same time. So the thread polls first, for at most as long as a sleep costs.
//! Whether the driver is quick enough cannot be known in advance: each poll in vain doubles the number of sleeps until
//! the next one.

use std::time::{Duration, Instant};

/// How long a poll takes at most.
const LIMIT: Duration = Duration::from_micros(20);

/// Looks at the ring between two looks at the clock.
const LOOKS: u32 = 16;

/// Requests since the last sleep or poll without which polling is not tried: with fewer it costs more than it saves.
const WORTH: u32 = 4;

/// Most sleeps in a row without a poll.
const MOST_PAUSE: u32 = 1023;

/// When to poll.
#[derive(Default)]
pub(super) struct Polling {
    /// Requests since the thread last had nothing to do.
    taken: u32,
    /// Sleeps without a poll: that are left, and in all after the next poll in vain.
    left: u32,
    pause: u32,
}

impl Polling {
    /// Requests were taken.
    #[inline]
    pub(super) fn taken(&mut self, count: u32) {
        self.taken = self.taken.saturating_add(count);
    }

    /// The thread has nothing to do. Returns whether it is to poll before it sleeps.
    pub(super) fn is_due(&mut self) -> bool {
        if std::mem::take(&mut self.taken) < WORTH {
            return false;
        }
        let is_due = self.left == 0;
        self.left = self.left.saturating_sub(1);
        is_due
    }

    /// Polls until there is something to do or the time is over. Returns whether there is.
    pub(super) fn poll(&mut self, is_ready: impl Fn() -> bool) -> bool {
        let begun = Instant::now();
        let mut found = false;
        while !found && begun.elapsed() < LIMIT {
            found = (0..LOOKS).any(|_| {
                std::hint::spin_loop();
                is_ready()
            });
        }
        self.ended(found);
        found
    }

    /// How many sleeps there are between two polls now.
    #[cfg(test)]
    pub(super) fn pause(&self) -> u32 {
        self.pause
    }

    fn ended(&mut self, found: bool) {
        self.pause = if found { 0 } else { (2 * self.pause + 1).min(MOST_PAUSE) };
        self.left = self.pause;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of polls in `sleeps` sleeps, if `taken` requests are taken before each sleep and each poll finds a
    /// request (`found`) or none.
    fn polls(sleeps: u32, taken: u32, found: bool) -> u32 {
        let mut polling = Polling::default();
        let mut count = 0;
        for _ in 0..sleeps {
            polling.taken(taken);
            if polling.is_due() {
                count += 1;
                polling.ended(found);
            }
        }
        count
    }

    #[test]
    fn polls_in_vain_become_seldom_and_others_do_not() {
        assert_eq!(polls(10_000, WORTH, true), 10_000);
        // 10 until the pause is 1023 sleeps, and one after each of these.
        assert!((10..=20).contains(&polls(10_000, WORTH, false)));
        assert_eq!(polls(10_000, WORTH - 1, true), 0);
    }

    #[test]
    fn one_success_ends_the_pauses() {
        let mut polling = Polling { taken: 0, left: 0, pause: MOST_PAUSE };
        polling.ended(false);
        assert_eq!(polling.left, MOST_PAUSE);
        assert!(polling.poll(|| true));
        polling.taken(WORTH);
        assert!(polling.is_due());
    }

    #[test]
    fn a_poll_ends_without_success() {
        assert!(!Polling::default().poll(|| false));
    }
}
