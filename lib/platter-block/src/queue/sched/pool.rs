//! The request pool of Linux 2.6: a number of requests per direction, congestion marks, and batching: a
//! context that had to wait may then take several requests without waiting again. And the pool of Linux 2.4, in which
//! bios wait until a batch of requests is free.
//!
//! Example with 128 requests a direction: context 7 takes the 128th read request. The pool is full now, and for 20 ms context 7 may take 32 more; all
//! others wait, even when requests come back, until one of them is woken: then it may take 32 beyond the limit. At 192 it ends for all. From 113 requests
//! the queue is congested (readahead and write-back hold off), below 103 it is not any more. By the rules of 2.4 a waiter is woken when 32 are free.

use super::Settings;
use crate::bio::Context;
use crate::elevator::{Dir, MayQueue};
use crate::time::{Span, Time};

/// Requests that a batching context may take beyond the limit.
pub const CONGESTION_BATCH: u32 = 32;
/// How long a context batches (HZ/50).
const BATCH_TIME: Span = Span::from_millis(20);

/// Slots that the table needs: each direction may reach 3n/2 by batching.
pub(super) fn capacity(settings: &Settings) -> usize {
    2 * (settings.nr_requests as usize * 3 / 2)
}

/// How bios that wait for a request get one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PoolRules {
    /// Linux 2.6: as soon as one is free. A context that had to wait, or that filled the queue, may take
    /// [`CONGESTION_BATCH`] requests beyond the limit.
    #[default]
    Batching,
    /// Linux 2.4: when a quarter of the requests of both directions (at most 32) is free in the direction of the bio. No
    /// context goes beyond the limit.
    Quarter,
}

/// Most free requests that a waiter of Linux 2.4 waits for.
const QUARTER_MAX: u32 = 32;

/// State of the pool for observers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Requests in use.
    pub used: u32,
    /// Whether readahead and write-back should hold off.
    pub congested: bool,
    /// Whether only batching contexts may allocate.
    pub full: bool,
}

#[derive(Clone, Copy)]
struct Batch {
    context: Context,
    left: u32,
    until: Time,
}

pub(super) struct RequestPool {
    limit: u32,
    rules: PoolRules,
    /// A waiter gets a request while fewer are in use.
    wake_below: u32,
    /// The queue is congested at or above this number of used requests (113 of 128), and no longer below the other
    /// (103 of 128; the lower mark of 2.6.10).
    congestion: [u32; 2],
    side: [PoolStats; 2],
    batch: [Option<Batch>; 2],
}

impl RequestPool {
    pub(super) fn new(settings: &Settings) -> RequestPool {
        let (limit, rules) = (settings.nr_requests, settings.pool);
        let wake_below = match rules {
            PoolRules::Batching => limit,
            // A quarter of the requests of both directions is half of those of one.
            PoolRules::Quarter => limit - (limit / 2).clamp(1, QUARTER_MAX) + 1,
        };
        let off = (limit - limit / 8 - limit / 16).saturating_sub(1);
        let congestion = [limit - limit / 8 + 1, off.max(1)];
        RequestPool {
            limit,
            rules,
            wake_below,
            congestion,
            side: [PoolStats::default(); 2],
            batch: [None; 2],
        }
    }

    fn is_batching(&mut self, now: Time, dir: Dir, context: Context) -> bool {
        match &mut self.batch[dir as usize] {
            Some(batch) if batch.context == context && batch.left > 0 && now <= batch.until => {
                batch.left -= 1;
                true
            }
            _ => false,
        }
    }

    /// Lets `context` batch, because it was woken after waiting or because it filled the queue.
    pub(super) fn start_batch(&mut self, now: Time, dir: Dir, context: Context) {
        if self.rules == PoolRules::Quarter {
            return;
        }
        let batch = Batch { context, left: CONGESTION_BATCH, until: now + BATCH_TIME };
        self.batch[dir as usize] = Some(batch);
    }

    /// Takes a request out of the pool if the rules allow it.
    #[inline]
    pub(super) fn take(&mut self, now: Time, dir: Dir, context: Context, may: MayQueue) -> bool {
        let PoolStats { used, full, .. } = self.side[dir as usize];
        if may == MayQueue::No || full || used + 1 >= self.limit {
            return self.take_last(now, dir, context, may);
        }
        self.take_always(dir);
        true
    }

    /// The same where few requests are left, or none.
    #[cold]
    fn take_last(&mut self, now: Time, dir: Dir, context: Context, may: MayQueue) -> bool {
        let used = self.side[dir as usize].used;
        if may == MayQueue::No {
            return false;
        }
        if used + 1 >= self.limit && !self.side[dir as usize].full && used < self.limit {
            self.side[dir as usize].full = true;
            self.start_batch(now, dir, context);
        } else if self.side[dir as usize].full
            && may != MayQueue::Must
            && !self.is_batching(now, dir, context)
        {
            return false;
        }
        if used >= self.limit * 3 / 2 && may != MayQueue::Must {
            return false;
        }
        self.take_always(dir);
        true
    }

    /// Whether the first waiter of a direction may have a request.
    pub(super) fn may_wake(&self, dir: Dir) -> bool {
        self.side[dir as usize].used < self.wake_below
    }

    /// Takes a request out of the pool regardless of the rules.
    #[inline]
    pub(super) fn take_always(&mut self, dir: Dir) {
        let [on, _] = self.congestion;
        let side = &mut self.side[dir as usize];
        side.used += 1;
        side.congested |= side.used >= on;
    }

    /// Returns a request to the pool. `true`: a waiter may be woken.
    #[inline]
    pub(super) fn put(&mut self, dir: Dir) -> bool {
        let [_, off] = self.congestion;
        let side = &mut self.side[dir as usize];
        side.used = side.used.saturating_sub(1);
        side.congested &= side.used >= off;
        side.full &= side.used + 1 > self.limit;
        side.used < self.wake_below
    }

    pub(super) fn stats(&self, dir: Dir) -> PoolStats {
        self.side[dir as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn pool_of(nr_requests: u32, pool: PoolRules) -> RequestPool {
        RequestPool::new(&Settings { nr_requests, pool, ..Settings::default() })
    }

    #[test]
    fn the_pool_of_2_4_wakes_at_a_quarter_and_ends_at_its_limit() {
        for (limit, wake_at) in [(64, 32), (32, 16), (128, 96), (1, 0), (2, 1)] {
            let mut pool = pool_of(limit, PoolRules::Quarter);
            assert_eq!(fill(&mut pool, 1000, 1), limit, "no batch goes beyond the limit");
            pool.start_batch(Time(0), Dir::Write, Context::new(1));
            assert_eq!(fill(&mut pool, 1000, 1), 0);
            let woken: Vec<u32> = (0..limit).rev().filter(|_| pool.put(Dir::Write)).collect();
            assert_eq!(woken.first(), Some(&wake_at), "of {limit}");
            assert!(pool.may_wake(Dir::Write));
        }
        let mut pool = pool_of(64, PoolRules::Quarter);
        fill(&mut pool, 64, 1);
        pool.put(Dir::Write);
        assert!(!pool.may_wake(Dir::Write) && pool.may_wake(Dir::Read));
        assert_eq!(fill(&mut pool, 9, 2), 1, "a newcomer takes what is free");
    }

    fn fill(pool: &mut RequestPool, n: u32, who: u32) -> u32 {
        (0..n).take_while(|_| pool.take(Time(0), Dir::Write, Context::new(who), MayQueue::May)).count() as u32
    }

    #[test]
    fn the_marks_are_those_of_2_6_10() {
        let mut pool = pool_of(128, PoolRules::Batching);
        assert_eq!(fill(&mut pool, 112, 1), 112);
        assert!(!pool.stats(Dir::Write).congested);
        fill(&mut pool, 1, 1);
        assert!(pool.stats(Dir::Write).congested);
        for _ in 0..10 {
            pool.put(Dir::Write);
        }
        assert!(pool.stats(Dir::Write).congested);
        pool.put(Dir::Write);
        assert!(!pool.stats(Dir::Write).congested);
    }

    #[test]
    fn who_fills_the_queue_batches_and_others_wait() {
        let mut pool = pool_of(128, PoolRules::Batching);
        assert_eq!(fill(&mut pool, 128, 1), 128);
        assert!(!pool.take(Time(0), Dir::Write, Context::new(2), MayQueue::May));
        assert_eq!(fill(&mut pool, 1000, 1), CONGESTION_BATCH);
        assert!(pool.take(Time(0), Dir::Read, Context::new(2), MayQueue::May));
        assert!(pool.take(Time(0), Dir::Write, Context::new(2), MayQueue::Must));
        assert!(!pool.take(Time(0), Dir::Read, Context::new(2), MayQueue::No));
    }

    #[test]
    fn batching_ends_after_20_ms_and_at_three_halves() {
        let mut pool = pool_of(128, PoolRules::Batching);
        fill(&mut pool, 128, 1);
        let late = Time(0) + Span::from_millis(21);
        assert!(!pool.take(late, Dir::Write, Context::new(1), MayQueue::May));
        for who in 2..10 {
            pool.start_batch(late, Dir::Write, Context::new(who));
            while pool.take(late, Dir::Write, Context::new(who), MayQueue::May) {}
        }
        assert_eq!(pool.stats(Dir::Write).used, 192);
    }
}
