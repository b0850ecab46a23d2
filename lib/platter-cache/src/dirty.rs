//! The dirty pages in the order in which they became dirty, and when to write them back.

use super::extents::Extents;
use super::order::{Order, Place};
use platter_block::time::{Span, Time};
use std::collections::VecDeque;

/// When dirty pages are written back, as in Linux 2.6's `pdflush` (`mm/page-writeback.c`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WriteBack {
    /// Write-back begins at this number of dirty pages (`dirty_background_ratio`).
    pub(super) background: u32,
    /// Writers wait while there are more dirty pages than this (`dirty_ratio`).
    pub(super) limit: u32,
    /// Age at which a dirty page is written back (`dirty_expire_centisecs`).
    pub(super) expire: Span,
    /// How often ages are checked (`dirty_writeback_centisecs`).
    pub(super) interval: Span,
    /// A flush of a range writes back all dirty pages if there are at most this many.
    pub(super) gather: u32,
    /// Write-backs in flight while there is no hurry.
    pub(super) depth: u32,
}

/// Which of the oldest dirty pages an attempt to write them back takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    /// Those that became dirty at this time or before.
    pub(super) since: Option<Time>,
    /// Those that were put aside at this time or before.
    pub(super) aside: Option<Time>,
}

impl Due {
    pub(super) const ALL: Due = Due { since: Some(Time(u64::MAX)), aside: Some(Time(u64::MAX)) };
    /// All that have not been put aside.
    pub(super) const NOT_ASIDE: Due = Due { aside: None, ..Due::ALL };
}

/// The dirty pages of a cache.
pub(super) struct Dirty {
    pub(super) rules: WriteBack,
    /// By age, and so by epoch; the time is when the page became dirty.
    pub(super) order: Order,
    /// Pages that could not be written when their turn came, because their write-back failed or a command was changing them; the
    /// time is when they were put aside.
    pub(super) aside: Order,
    /// Entries chosen to be written back next, the first page last.
    pub(super) chosen: Vec<Place>,
    /// Pages with a dirty version, by position.
    pub(super) extents: Extents,
    seq: u32,
    /// Dirty pages, including those being written.
    pub(super) count: u32,
    /// Pages that will be dirty when data has been copied into them.
    pub(super) pending: u32,
    /// Since when `pending` has not been 0.
    expected_since: Time,
    /// Number of dirty pages of each epoch, oldest first.
    epochs: VecDeque<u32>,
    /// The number of the oldest epoch.
    first_epoch: u16,
    /// When ages are checked next.
    pub(super) next_look: Time,
    /// After a failed attempt: no other attempt before this time unless a caller asks for it.
    pub(super) not_before: Option<Time>,
    /// How long the next attempt that times out postpones the one after it.
    pause: Span,
    /// The last pause after an attempt that failed at once.
    retry: Span,
    /// Failed attempts since the last success.
    pub(super) failed: u32,
    /// Dirty pages that are being written.
    pub(super) writing: u32,
    /// More pages have expired than could be written at once.
    pub(super) owed: bool,
    /// Too many pages are dirty, but none can be written before another write is complete.
    pub(super) stalled: bool,
}

/// How long write-back pauses after the first attempt that timed out; doubled with each further one.
const FIRST_PAUSE: Span = Span::from_millis(100);
const LONGEST_PAUSE: Span = Span::from_secs(60);

/// Longest pause after an attempt that failed at once, unless the interval is longer. The first pause is the interval, and each
/// next one is twice as long. With a short interval and without such pauses, write-back to a removed device sends request after
/// request that fails. The downside: after the device returns, dirty pages are written that much later.
const LONGEST_RETRY: Span = Span::from_secs(5);

/// Most epochs with dirty pages; a further barrier waits until there are fewer.
pub(super) const MAX_EPOCHS: usize = 4096;

impl WriteBack {
    /// Dirty pages up to which there is no hurry: the middle between the background share and the limit, up to which Linux's
    /// writers run freely (`dirty_freerun_ceiling` in `mm/page-writeback.c`).
    pub(super) fn free_run(&self) -> u32 {
        self.background.midpoint(self.limit)
    }
}

impl Dirty {
    pub(super) fn new(rules: WriteBack) -> Dirty {
        let (first_epoch, next_look) = (0, Time::default());
        Dirty {
            rules,
            order: Order::default(),
            aside: Order::default(),
            chosen: Vec::new(),
            extents: Extents::default(),
            seq: 0,
            count: 0,
            pending: 0,
            expected_since: Time(0),
            epochs: VecDeque::from([0]),
            first_epoch,
            next_look,
            not_before: None,
            pause: FIRST_PAUSE,
            retry: Span::ZERO,
            failed: 0,
            writing: 0,
            owed: false,
            stalled: false,
        }
    }

    /// Pages that count against the limit: dirty ones, and those that will be.
    pub(super) fn taken(&self) -> u32 {
        self.count + self.pending
    }

    /// A page is clean, and will be dirty when data has been copied into it: the caller subtracts it from `pending` then.
    pub(super) fn expect(&mut self, now: Time) {
        if self.taken() == 0 {
            self.next_look = now + self.rules.interval;
        }
        if self.pending == 0 {
            self.expected_since = now;
        }
        self.pending += 1;
    }

    /// The epoch of pages written now.
    pub(super) fn epoch(&self) -> u16 {
        self.first_epoch.wrapping_add(self.epochs.len() as u16 - 1)
    }

    /// The epoch whose pages may be written back.
    pub(super) fn oldest_epoch(&self) -> u16 {
        self.first_epoch
    }

    /// Whether all dirty pages are of one epoch.
    pub(super) fn is_one_epoch(&self) -> bool {
        self.epochs.len() == 1
    }

    /// Whether another barrier may begin two epochs: its own and that of the writes after it.
    pub(super) fn has_room(&self) -> bool {
        self.epochs.len() + 2 <= MAX_EPOCHS
    }

    /// Begins an epoch: pages written from now on must not reach the disk before those that are dirty.
    pub(super) fn next_epoch(&mut self) {
        if self.epochs.back() != Some(&0) {
            self.epochs.push_back(0);
        }
    }

    /// Counts a page that has become dirty. Returns its sequence number, which is never 0.
    pub(super) fn add(&mut self, page: u64, now: Time) -> u32 {
        if self.count == 0 {
            self.next_look = now + self.rules.interval;
        }
        self.count += 1;
        if let Some(last) = self.epochs.back_mut() {
            *last += 1;
        }
        let seq = self.next_seq();
        self.order.push_back((page, seq, now));
        seq
    }

    fn next_seq(&mut self) -> u32 {
        self.seq = self.seq.wrapping_add(1).max(1);
        self.seq
    }

    /// Puts a page aside whose write-back has failed. Returns its new sequence number.
    pub(super) fn fail(&mut self, page: u64, now: Time) -> u32 {
        let seq = self.next_seq();
        self.set_aside(page, seq, now);
        seq
    }

    /// Puts a page aside that has been taken from an order.
    pub(super) fn set_aside(&mut self, page: u64, seq: u32, now: Time) {
        self.aside.push_back((page, seq, now));
    }

    /// Pages that were put aside at this time or before are tried again: after an interval, or as soon as an attempt may follow one
    /// that has failed.
    pub(super) fn retry_from(&self, now: Time) -> Option<Time> {
        match self.not_before {
            Some(at) if at <= now => Some(now),
            _ => now.0.checked_sub(self.rules.interval.0).map(Time),
        }
    }

    /// When the first of them is tried again.
    fn next_retry(&self) -> Option<Time> {
        let waited = self.aside.front().map(|(.., since)| since + self.rules.interval)?;
        let at = self.not_before.map_or(waited, |at| at.min(waited));
        Some(if self.stalled { at.max(self.next_look) } else { at })
    }

    /// A page of an epoch is no longer dirty.
    pub(super) fn remove(&mut self, epoch: u16) {
        self.count -= 1;
        let at = usize::from(epoch.wrapping_sub(self.first_epoch));
        if let Some(pages) = self.epochs.get_mut(at) {
            *pages -= 1;
        }
        while self.epochs.len() > 1 && self.epochs.front() == Some(&0) {
            self.epochs.pop_front();
            self.first_epoch = self.first_epoch.wrapping_add(1);
        }
    }

    /// The last sequence number given out.
    pub(super) fn last_seq(&self) -> u32 {
        self.seq
    }

    /// Drops some stale entries when they are the majority.
    pub(super) fn tidy(&mut self, is_live: impl Fn(u64, u32) -> bool) {
        self.order.tidy(self.count, &is_live);
        self.aside.tidy(self.count, &is_live);
    }

    /// Records a successful write-back.
    pub(super) fn went_well(&mut self) {
        (self.not_before, self.stalled) = (None, false);
        (self.pause, self.retry) = (FIRST_PAUSE, Span::ZERO);
        self.failed = 0;
    }

    /// Records a failed write-back, which postpones the next attempt. `slow`: a write timed out.
    pub(super) fn went_wrong(&mut self, now: Time, slow: bool) {
        self.failed = self.failed.saturating_add(1);
        // Otherwise it is another one of the same attempt.
        let is_next = self.not_before.is_none_or(|at| at <= now);
        if !slow {
            let interval = self.rules.interval;
            if is_next {
                let doubled = Span(self.retry.0.saturating_mul(2));
                self.retry = doubled.min(LONGEST_RETRY).max(interval);
            }
            self.not_before = Some(now + self.retry.max(interval));
            return;
        }
        if !is_next {
            return;
        }
        self.not_before = Some(now + self.pause);
        self.pause = Span(self.pause.0.saturating_mul(2)).min(LONGEST_PAUSE);
    }

    /// How many of `most` write-backs may be in flight: the fewest until more pages are dirty than may be without
    /// hurry or one is older than it may be; all at the limit, and at twice that age.
    ///
    /// As Linux's throttling of write-back (`block/blk-wbt.c`, 4.10), which gives background writes a quarter of the depth of the
    /// disk, others a half, and all to those that tasks wait for. Here it is a matter of degree.
    pub(super) fn depth(&self, now: Time, most: u32) -> u32 {
        let part =
            |done: u64, whole: u64| (u128::from(done) * 1024 / u128::from(whole.max(1))).min(1024) as u64;
        let WriteBack { limit, expire, depth, .. } = self.rules;
        let free_run = self.rules.free_run();
        let many = part(self.taken().saturating_sub(free_run).into(), limit.saturating_sub(free_run).into());
        let age = self.order.front().map_or(Span::ZERO, |(.., since)| now.since(since));
        let old = part(age.0.saturating_sub(expire.0), expire.0);
        let more = most.saturating_sub(depth);
        depth.min(most) + (u64::from(more) * many.max(old) / 1024) as u32
    }

    /// When write-back has work to do even if nothing else happens.
    pub(super) fn wakeup(&self, now: Time) -> Option<Time> {
        if self.taken() == 0 {
            return None;
        }
        let some = self.owed || !self.chosen.is_empty();
        let over = some || self.is_over_background(self.count);
        let look = match (over, self.stalled) {
            (true, false) => now,
            (true, true) => self.next_look,
            (false, _) => self.needed_look(),
        };
        let only_aside = !over && self.order.front().is_none() && self.pending == 0;
        let look = self.next_retry().map_or(look, |at| if only_aside { at } else { at.min(look) });
        Some(self.not_before.map_or(look, |at| look.max(at)))
    }

    /// Whether `dirty` pages exceed the background limit. Pages that are being written do not count.
    fn is_over_background(&self, dirty: u32) -> bool {
        dirty.saturating_sub(self.writing) > self.rules.background
    }

    /// Whether write-back begins when data has been copied that is being copied now.
    pub(super) fn awaits_copies(&self) -> bool {
        self.is_over_background(self.taken()) && !self.is_over_background(self.count)
    }

    /// The first look at which a page is old enough, if none becomes clean before. No thread wakes for those before it.
    fn needed_look(&self) -> Time {
        let oldest = self.order.front().map(|(.., since)| since);
        let oldest = oldest.or((self.pending > 0).then_some(self.expected_since));
        oldest.map_or(self.next_look, |since| self.look_from(since + self.rules.expire))
    }

    /// The first look that is not before a time.
    fn look_from(&self, at: Time) -> Time {
        let (ahead, interval) = (at.since(self.next_look).0, self.rules.interval.0.max(1));
        self.next_look + Span(ahead.div_ceil(interval).saturating_mul(interval))
    }

    /// Passes over the looks for which no thread woke.
    pub(super) fn skip_looks(&mut self, now: Time) {
        if self.needed_look() > now {
            self.next_look = self.look_from(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::order::Fate;
    use super::*;

    const RULES: WriteBack = WriteBack {
        background: 10,
        limit: 20,
        expire: Span::from_secs(30),
        interval: Span::from_secs(5),
        gather: 0,
        depth: 32,
    };

    #[test]
    fn epochs_end_when_their_last_page_is_clean() {
        let mut dirty = Dirty::new(RULES);
        dirty.add(1, Time(0));
        dirty.next_epoch();
        dirty.next_epoch();
        assert_eq!((dirty.epoch(), dirty.oldest_epoch()), (1, 0));
        dirty.add(2, Time(0));
        dirty.remove(0);
        assert_eq!((dirty.epoch(), dirty.oldest_epoch(), dirty.count), (1, 1, 1));
        dirty.remove(1);
        assert_eq!((dirty.epoch(), dirty.oldest_epoch(), dirty.count), (1, 1, 0));
    }

    /// A page that failed does not keep others from being written, and is tried again when the pause is over.
    #[test]
    fn pages_that_failed_are_put_aside() {
        let mut dirty = Dirty::new(RULES);
        let at = |seconds: u64| Time(seconds * 1_000_000_000);
        (0..2).for_each(|page| _ = dirty.add(page, at(0)));
        dirty.order.take(1, &mut Vec::new(), |_| Fate::Taken);
        dirty.went_wrong(at(30), false);
        dirty.fail(0, at(30));
        assert_eq!((dirty.order.front(), dirty.aside.front()), (Some((1, 2, at(0))), Some((0, 3, at(30)))));
        assert_eq!(dirty.wakeup(at(30)), Some(at(35)));
        // Another page is written meanwhile: this one still waits.
        dirty.order.take(1, &mut Vec::new(), |_| Fate::Taken);
        dirty.went_well();
        assert_eq!(dirty.wakeup(at(31)), Some(at(35)));
        // Nothing can be written now: not before the next look.
        (dirty.stalled, dirty.next_look) = (true, at(40));
        assert_eq!(dirty.wakeup(at(36)), Some(at(40)));
    }

    #[test]
    fn more_is_in_flight_as_dirty_pages_are_many_or_old() {
        let mut dirty = Dirty::new(WriteBack { background: 100, limit: 200, depth: 24, ..RULES });
        (0..100).for_each(|page| _ = dirty.add(page, Time(0)));
        let at = |seconds: u64| Time(seconds * 1_000_000_000);
        assert_eq!([0, 30, 45, 60, 90].map(|now| dirty.depth(at(now), 1024)), [24, 24, 524, 1024, 1024]);
        (100..150).for_each(|page| _ = dirty.add(page, Time(0)));
        assert_eq!(dirty.depth(at(0), 1024), 24);
        (150..175).for_each(|page| _ = dirty.add(page, Time(0)));
        assert_eq!([0, 30, 50].map(|now| dirty.depth(at(now), 1024)), [524, 524, 690]);
        (175..250).for_each(|page| _ = dirty.add(page, Time(0)));
        assert_eq!((dirty.depth(at(0), 1024), dirty.depth(at(0), 10)), (1024, 10));
    }

    #[test]
    fn there_is_no_look_before_a_page_is_old_enough() {
        let mut dirty = Dirty::new(RULES);
        let seconds = |time: Option<Time>| time.map(|at| at.0 / 1_000_000_000);
        let at = |seconds: u64| Time(seconds * 1_000_000_000);
        assert_eq!(dirty.wakeup(at(0)), None);
        dirty.add(1, at(2));
        dirty.add(2, at(3));
        assert_eq!(seconds(dirty.wakeup(at(3))), Some(32));
        // The looks stay 5 s apart.
        dirty.skip_looks(at(15));
        assert_eq!((seconds(Some(dirty.next_look)), seconds(dirty.wakeup(at(15)))), (Some(17), Some(32)));
        dirty.skip_looks(at(17));
        assert_eq!(seconds(Some(dirty.next_look)), Some(17));
        dirty.order.take(1, &mut Vec::new(), |_| Fate::Taken);
        assert_eq!(seconds(dirty.wakeup(at(32))), Some(37));
        // A look that is late is not passed over.
        dirty.skip_looks(at(40));
        assert_eq!(seconds(Some(dirty.next_look)), Some(17));
        // With too many dirty pages nothing waits for a look, unless none can be written.
        (3..20).for_each(|page| _ = dirty.add(page, at(40)));
        assert_eq!(seconds(dirty.wakeup(at(41))), Some(41));
        dirty.stalled = true;
        assert_eq!(seconds(dirty.wakeup(at(41))), Some(17));
    }

    #[test]
    fn attempts_that_time_out_come_less_often_until_one_goes_well() {
        let mut dirty = Dirty::new(RULES);
        let mut waits = |slow| {
            let now = dirty.not_before.unwrap_or_default();
            dirty.went_wrong(now, slow);
            dirty.not_before.unwrap().since(now).as_millis()
        };
        assert_eq!([(); 3].map(|()| waits(true)), [100, 200, 400]);
        assert_eq!((waits(false), waits(true)), (5000, 800));
        assert_eq!([(); 8].map(|()| waits(true))[7], 60_000);
        dirty.went_well();
        assert_eq!(dirty.not_before, None);
        // Several failures of one attempt count once.
        (0..3).for_each(|_| dirty.went_wrong(Time(0), true));
        assert_eq!(dirty.not_before, Some(Time(100_000_000)));
    }

    #[test]
    fn a_success_is_an_occasion_to_write() {
        let mut dirty = Dirty::new(RULES);
        (0..20).for_each(|page| _ = dirty.add(page, Time(0)));
        dirty.went_wrong(Time(0), true);
        dirty.stalled = true;
        assert_eq!(dirty.wakeup(Time(1)), Some(dirty.next_look));
        dirty.went_well();
        assert_eq!(dirty.wakeup(Time(1)), Some(Time(1)));
    }

    #[test]
    fn attempts_that_fail_at_once_come_less_often_too() {
        let mut dirty = Dirty::new(WriteBack { interval: Span::from_millis(1), ..RULES });
        let mut wait = || {
            let now = dirty.not_before.unwrap_or_default();
            // Several of one attempt count once.
            (0..3).for_each(|_| dirty.went_wrong(now, false));
            dirty.not_before.unwrap().since(now).as_millis()
        };
        assert_eq!([(); 4].map(|()| wait()), [1, 2, 4, 8]);
        assert_eq!([(); 12].map(|()| wait())[11], 5000);
        dirty.went_well();
        dirty.went_wrong(Time(0), false);
        assert_eq!(dirty.not_before, Some(Time(1_000_000)));
    }
}
