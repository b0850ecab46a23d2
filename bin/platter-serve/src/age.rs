//! How long requests have gone unanswered, without a reading of the clock for each.
//!
//! Time is divided into slots, which a [`Ticker`] advances about once a second. A request is counted in the slot in which
//! it arrived. The age of the oldest request is that of the oldest slot that is not empty: exact to a slot, at the cost
//! of two additions for each request.
//!
//! While no request is unanswered the ticker rests, so that an idle server does not wake up. The first request after that
//! reads the clock and wakes the thread that advances the slots, at most once for each slot.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

const SLOTS: usize = 32;

/// Marks the current slot while the ticker rests.
const RESTING: u8 = 0x80;

/// The slots, for all clients of a server.
pub struct Ticker {
    origin: Instant,
    current: AtomicU8,
    /// When each slot began, in ns since the origin.
    births: [AtomicU64; SLOTS],
    /// Held while the current slot changes.
    changing: Mutex<()>,
    waker: OnceLock<Box<dyn Fn() + Send + Sync>>,
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
        Ticker {
            origin: Instant::now(),
            current: AtomicU8::new(0),
            births,
            changing: Mutex::default(),
            waker: OnceLock::new(),
        }
    }
}

impl Ticker {
    /// Sets what is called when the first request arrives after [`tick`](Ticker::tick) has returned true. Only the first
    /// call counts.
    pub fn set_waker(&self, wake: impl Fn() + Send + Sync + 'static) {
        let _ = self.waker.set(Box::new(wake));
    }

    /// Begins the next slot, if there is one that is empty at all of these clients. Returns whether the ticker rests: all
    /// slots are empty, and the next call is due a slot's time after the waker has been called. Without a waker it
    /// never rests.
    pub fn tick<'a>(&self, now: Instant, clients: impl Iterator<Item = &'a Ages> + Clone) -> bool {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let current = usize::from(self.current.load(Ordering::Relaxed) & !RESTING);
        let is_empty =
            |slot: &usize| clients.clone().all(|ages| ages.counts[*slot].load(Ordering::Relaxed) == 0);
        let after = (1..SLOTS).map(|step| (current + step) % SLOTS);
        if let Some(slot) = after.into_iter().find(is_empty) {
            self.births[slot].store(self.nanos(now), Ordering::Relaxed);
            self.current.store(slot as u8, Ordering::Relaxed);
        }
        let rests = self.waker.get().is_some() && (0..SLOTS).all(|slot| is_empty(&slot));
        if rests {
            self.current.fetch_or(RESTING, Ordering::Relaxed);
        }
        rests
    }

    /// Ends the rest, for a request that arrives. Returns its slot.
    #[cold]
    fn resume(&self) -> u8 {
        let changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let current = self.current.load(Ordering::Relaxed);
        let slot = current & !RESTING;
        if slot == current {
            return slot;
        }
        // A request that arrived just when the rest began is in this slot too, and becomes younger, once.
        self.births[usize::from(slot)].store(self.nanos(Instant::now()), Ordering::Relaxed);
        self.current.store(slot, Ordering::Relaxed);
        drop(changing);
        if let Some(wake) = self.waker.get() {
            wake();
        }
        slot
    }

    fn nanos(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.origin).as_nanos()).unwrap_or(u64::MAX)
    }
}

impl Ages {
    /// Counts a request that has arrived.
    #[inline]
    pub fn begin(&self, ticker: &Ticker) -> Mark {
        let mut slot = ticker.current.load(Ordering::Relaxed);
        if slot & RESTING != 0 {
            slot = ticker.resume();
        }
        self.counts[usize::from(slot)].fetch_add(1, Ordering::Relaxed);
        Mark(slot)
    }

    /// The request has been answered.
    #[inline]
    pub fn end(&self, mark: Mark) {
        self.counts[usize::from(mark.0)].fetch_sub(1, Ordering::Relaxed);
    }

    /// How many requests have not been answered.
    pub fn unanswered(&self) -> u32 {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
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
    use std::sync::Arc;

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
    fn the_ticker_rests_until_a_request_arrives() {
        let (ticker, ages, woken) = (Ticker::default(), Ages::default(), Arc::new(AtomicU32::new(0)));
        let later = |seconds: u64| Instant::now() + Duration::from_secs(seconds);
        assert!(!ticker.tick(later(0), [&ages].into_iter()), "nothing could wake it");
        let count = Arc::clone(&woken);
        ticker.set_waker(move || _ = count.fetch_add(1, Ordering::Relaxed));
        let first = ages.begin(&ticker);
        assert!(!ticker.tick(later(0), [&ages].into_iter()), "a request is unanswered");
        ages.end(first);
        assert!(ticker.tick(later(0), [&ages].into_iter()));
        assert!(ticker.tick(later(0), [&ages].into_iter()), "it rests on");
        assert_eq!(woken.load(Ordering::Relaxed), 0);
        let began = Instant::now();
        let marks = [ages.begin(&ticker), ages.begin(&ticker)];
        assert_eq!(woken.load(Ordering::Relaxed), 1, "only the first request wakes it");
        let age = ages.oldest(&ticker, began + Duration::from_secs(5)).unwrap();
        assert!(age <= Duration::from_secs(5), "{age:?}: not as old as the slot that rested");
        assert!(!ticker.tick(later(1), [&ages].into_iter()));
        marks.into_iter().for_each(|mark| ages.end(mark));
        assert!(ticker.tick(later(2), [&ages].into_iter()));
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
