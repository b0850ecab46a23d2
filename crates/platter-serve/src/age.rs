//! How long requests have gone unanswered, without a reading of the clock for each.
//!
//! Time is divided into slots, which a [`Ticker`] advances about once a second. A request is counted in the slot in which
//! it arrived. The age of the oldest request is that of the oldest slot that is not empty: exact to a slot, at the cost
//! of two additions for each request.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const SLOTS: usize = 32;

/// The slots, for all clients of a server.
pub struct Ticker {
    origin: Instant,
    current: AtomicU8,
    /// When each slot began, in ns since the origin.
    births: [AtomicU64; SLOTS],
}

/// The requests of one client by slot.
#[derive(Default)]
pub struct Ages {
    counts: [AtomicU32; SLOTS],
}

/// The slot of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark(u8);

impl Default for Ticker {
    fn default() -> Ticker {
        let births = std::array::from_fn(|_| AtomicU64::new(0));
        Ticker { origin: Instant::now(), current: AtomicU8::new(0), births }
    }
}

impl Ticker {
    /// Begins the next slot, if there is one that is empty at all of these clients. Called by one thread at a time.
    pub fn tick<'a>(&self, now: Instant, clients: impl Iterator<Item = &'a Ages> + Clone) {
        let current = usize::from(self.current.load(Ordering::Relaxed));
        let is_empty =
            |slot: &usize| clients.clone().all(|ages| ages.counts[*slot].load(Ordering::Relaxed) == 0);
        let after = (1..SLOTS).map(|step| (current + step) % SLOTS);
        if let Some(slot) = after.into_iter().find(is_empty) {
            self.births[slot].store(self.nanos(now), Ordering::Relaxed);
            self.current.store(slot as u8, Ordering::Relaxed);
        }
    }

    fn nanos(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.origin).as_nanos()).unwrap_or(u64::MAX)
    }
}

impl Ages {
    /// Counts a request that has arrived.
    #[inline]
    pub fn begin(&self, ticker: &Ticker) -> Mark {
        let slot = ticker.current.load(Ordering::Relaxed);
        self.counts[usize::from(slot)].fetch_add(1, Ordering::Relaxed);
        Mark(slot)
    }

    /// The request has been answered.
    #[inline]
    pub fn end(&self, mark: Mark) {
        self.counts[usize::from(mark.0)].fetch_sub(1, Ordering::Relaxed);
    }

    /// The age of the oldest request that has not been answered, at most one slot too large; `None`: all have been.
    pub fn oldest(&self, ticker: &Ticker, now: Instant) -> Option<Duration> {
        let filled =
            self.counts.iter().zip(&ticker.births).filter(|(count, _)| count.load(Ordering::Relaxed) > 0);
        let born = filled.map(|(_, birth)| birth.load(Ordering::Relaxed)).min()?;
        Some(Duration::from_nanos(ticker.nanos(now).saturating_sub(born)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_request_keeps_its_age_while_others_come_and_go() {
        let (ticker, ages, other) = (Ticker::default(), Ages::default(), Ages::default());
        let at = |seconds: u64| ticker.origin + Duration::from_secs(seconds);
        assert_eq!(ages.oldest(&ticker, at(5)), None);
        ticker.tick(at(10), [&ages, &other].into_iter());
        let stuck = ages.begin(&ticker);
        for second in 11..200 {
            ticker.tick(at(second), [&ages, &other].into_iter());
            let mark = other.begin(&ticker);
            let age = ages.oldest(&ticker, at(second + 1)).unwrap();
            assert_eq!(age.as_secs(), second + 1 - 10);
            assert_eq!(other.oldest(&ticker, at(second + 1)).unwrap().as_secs(), 1);
            other.end(mark);
        }
        ages.end(stuck);
        assert_eq!(ages.oldest(&ticker, at(300)), None);
    }

    #[test]
    fn when_every_slot_is_filled_the_last_one_stays() {
        let (ticker, ages) = (Ticker::default(), Ages::default());
        let at = |seconds: u64| ticker.origin + Duration::from_secs(seconds);
        for second in 0..100 {
            ticker.tick(at(second), [&ages].into_iter());
            ages.begin(&ticker);
        }
        assert_eq!(ages.oldest(&ticker, at(100)).unwrap().as_secs(), 100);
    }
}
