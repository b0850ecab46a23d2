//! What has to be written back, in the order in which it became so, and when.

use super::extents::Extents;
use super::places::Places;
use platter_block::time::{Span, Time};
use std::collections::VecDeque;

/// When dirty pages are written back, as Linux 2.6's `pdflush` has it (`mm/page-writeback.c`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WriteBack {
    /// Writing back begins when so many pages are dirty (`dirty_background_ratio`).
    pub(super) background: u32,
    /// Writers wait while more are (`dirty_ratio`).
    pub(super) limit: u32,
    /// A page is written back when it has been dirty for so long (`dirty_expire_centisecs`).
    pub(super) expire: Span,
    /// How often that is looked at (`dirty_writeback_centisecs`).
    pub(super) interval: Span,
    /// A flush of a range takes along all that is dirty if that is no more pages.
    pub(super) gather: u32,
}

/// A page's place in the order: the page, its number, and since when it is dirty. Stale as soon as no version of the page
/// has that number.
pub(super) type Place = (u64, u32, Time);

/// The dirty pages of a cache.
pub(super) struct Dirty {
    pub(super) rules: WriteBack,
    /// Places by age: first these, then those of `ring`. Stale ones are dropped from the front of `ring` on the way here.
    tidied: Places<Place>,
    ring: Places<Place>,
    /// Places taken out to be written back next, the first page last.
    pub(super) chosen: Vec<Place>,
    /// Pages of which some version is dirty, by position.
    pub(super) extents: Extents,
    seq: u32,
    /// Pages that are dirty, being written ones included.
    pub(super) count: u32,
    /// Dirty pages of each epoch, the oldest first.
    epochs: VecDeque<u32>,
    /// The number of the oldest.
    first_epoch: u16,
    /// Next look at what has expired.
    pub(super) next_look: Time,
    /// The last attempt failed: not tried again before, unless somebody asks.
    pub(super) not_before: Option<Time>,
    /// How long the next attempt that times out, or meets one that has, puts off the one after it.
    pause: Span,
    /// How long the last attempt that failed at once put off the one after it.
    retry: Span,
    /// Attempts that have failed since one went well.
    pub(super) failed: u32,
    /// Of those that are dirty: being written.
    pub(super) writing: u32,
    /// Of those that are being written: in doubt. Their write has timed out, and the device still has their memory.
    pub(super) in_doubt: u32,
    /// More has expired than could be written at once.
    pub(super) owed: bool,
    /// Too much is dirty, but nothing of it can be written before something else has been.
    pub(super) stalled: bool,
}

/// How long write-back pauses after the first attempt that timed out; doubled with each.
const FIRST_PAUSE: Span = Span::from_millis(100);
const LONGEST_PAUSE: Span = Span::from_secs(60);

/// Longest pause after an attempt that failed at once, unless the interval is longer. The first such pause is the interval,
/// and it doubles: with a short interval, write-back to a device that is gone would else keep an elevator busy with requests
/// that fail, and whatever gives way to other requests (an idle class) would wait as long as the device is gone. The
/// downside: a device that works again gets what is dirty that much later.
const LONGEST_RETRY: Span = Span::from_secs(5);

/// Places that are tidied at a time.
const TIDY: usize = 256;

/// Epochs that may be dirty at once; a barrier beyond waits until there are fewer.
pub(super) const MAX_EPOCHS: usize = 4096;

impl Dirty {
    pub(super) fn new(rules: WriteBack) -> Dirty {
        let (first_epoch, next_look) = (0, Time::default());
        Dirty {
            rules,
            tidied: Places::default(),
            ring: Places::default(),
            chosen: Vec::new(),
            extents: Extents::default(),
            seq: 0,
            count: 0,
            epochs: VecDeque::from([0]),
            first_epoch,
            next_look,
            not_before: None,
            pause: FIRST_PAUSE,
            retry: Span::ZERO,
            failed: 0,
            writing: 0,
            in_doubt: 0,
            owed: false,
            stalled: false,
        }
    }

    /// What is written now belongs to this epoch.
    pub(super) fn epoch(&self) -> u16 {
        self.first_epoch.wrapping_add(self.epochs.len() as u16 - 1)
    }

    /// The epoch of which pages may be written back.
    pub(super) fn oldest_epoch(&self) -> u16 {
        self.first_epoch
    }

    /// Whether all that is dirty is of one epoch.
    pub(super) fn is_one_epoch(&self) -> bool {
        self.epochs.len() == 1
    }

    /// Whether another barrier may begin an epoch for itself and one for what comes after it.
    pub(super) fn has_room(&self) -> bool {
        self.epochs.len() + 2 <= MAX_EPOCHS
    }

    /// What is written from now on must not reach the disk before what is dirty.
    pub(super) fn next_epoch(&mut self) {
        if self.epochs.back() != Some(&0) {
            self.epochs.push_back(0);
        }
    }

    /// A page has become dirty: its number in the order, never 0.
    pub(super) fn add(&mut self, page: u64, now: Time) -> u32 {
        if self.count == 0 {
            self.next_look = now + self.rules.interval;
        }
        self.count += 1;
        if let Some(last) = self.epochs.back_mut() {
            *last += 1;
        }
        self.queue(page, now)
    }

    /// A dirty page finds its place behind all others (again).
    pub(super) fn queue(&mut self, page: u64, now: Time) -> u32 {
        self.seq = self.seq.wrapping_add(1).max(1);
        self.ring.push_back((page, self.seq, now));
        self.seq
    }

    /// Puts a page that was taken back to the front.
    pub(super) fn put_back(&mut self, place: Place) {
        self.tidied.push_front(place);
    }

    /// A page of an epoch is not dirty any more.
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

    /// The number given last.
    pub(super) fn last_seq(&self) -> u32 {
        self.seq
    }

    /// Looks at the oldest `looks` places and takes those that `is_due` says of into `out`; `None` from it: the place is
    /// stale and goes. Stops at the first that is not due.
    pub(super) fn take(
        &mut self,
        looks: usize,
        out: &mut Vec<Place>,
        mut is_due: impl FnMut(Place) -> Option<bool>,
    ) {
        for _ in 0..looks {
            let ring = if self.tidied.is_empty() { &mut self.ring } else { &mut self.tidied };
            let Some(&place) = ring.front() else { break };
            match is_due(place) {
                Some(false) => break,
                Some(true) => out.push(place),
                None => {}
            }
            ring.pop_front();
        }
    }

    /// Drops some stale places when they are most of all, and keeps the order.
    pub(super) fn tidy(&mut self, is_live: impl Fn(u64, u32) -> bool) {
        if self.tidied.len() + self.ring.len() <= 64 + 2 * self.count as usize {
            return;
        }
        if self.ring.is_empty() {
            std::mem::swap(&mut self.tidied, &mut self.ring);
        }
        for _ in 0..TIDY {
            let Some(place) = self.ring.pop_front() else { break };
            if is_live(place.0, place.1) {
                self.tidied.push_back(place);
            }
        }
    }

    /// Write-back works.
    pub(super) fn went_well(&mut self) {
        self.not_before = None;
        (self.pause, self.retry) = (FIRST_PAUSE, Span::ZERO);
        self.failed = 0;
    }

    /// It does not: not tried again for a while. `slow`: because something timed out.
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

    /// When write-back has something to do by itself.
    pub(super) fn wakeup(&self, now: Time) -> Option<Time> {
        if self.count == 0 {
            return None;
        }
        let some = self.owed || !self.chosen.is_empty();
        let over = (some || self.count - self.writing > self.rules.background) && !self.stalled;
        let look = if over { now } else { self.next_look };
        Some(self.not_before.map_or(look, |at| look.max(at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: WriteBack = WriteBack {
        background: 10,
        limit: 20,
        expire: Span::from_secs(30),
        interval: Span::from_secs(5),
        gather: 0,
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

    #[test]
    fn pages_come_in_the_order_in_which_they_became_dirty() {
        let mut dirty = Dirty::new(RULES);
        let numbers: Vec<u32> = (0..4).map(|page| dirty.add(page, Time(page))).collect();
        let mut out = Vec::new();
        let pages = |out: &[Place]| out.iter().map(|&(page, ..)| page).collect::<Vec<_>>();
        dirty.take(2, &mut out, |(page, seq, _)| (numbers[page as usize] == seq).then_some(true));
        assert_eq!(pages(&out), [0, 1]);
        dirty.take(8, &mut out, |(.., since)| Some(since < Time(3)));
        assert_eq!(pages(&out), [0, 1, 2]);
        // One that is put back is the next again.
        dirty.put_back(out[1]);
        out.clear();
        dirty.take(8, &mut out, |_| Some(true));
        assert_eq!(pages(&out), [1, 3]);
    }

    /// What is stale goes a few at a time, wherever it is; the rest stays in order, also while more comes.
    #[test]
    fn stale_places_go_and_the_order_stays() {
        let mut dirty = Dirty::new(RULES);
        let live: Vec<u32> = (0..100).map(|page| dirty.add(page, Time(0))).collect();
        let mut rounds = 0;
        for page in 0..100_000 {
            // As a page that is written again and again.
            dirty.queue(1000 + page, Time(1));
            let before = dirty.tidied.len() + dirty.ring.len();
            dirty.tidy(|page, seq| live.get(page as usize) == Some(&seq));
            rounds += u32::from(dirty.tidied.len() + dirty.ring.len() < before);
        }
        assert!(rounds > 10 && dirty.tidied.len() + dirty.ring.len() <= 64 + 200 + TIDY);
        let mut out = Vec::new();
        dirty.take(usize::MAX, &mut out, |(page, ..)| (page < 1000).then_some(true));
        assert_eq!(out.iter().map(|&(page, ..)| page).collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
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
        // Several of one attempt count once.
        (0..3).for_each(|_| dirty.went_wrong(Time(0), true));
        assert_eq!(dirty.not_before, Some(Time(100_000_000)));
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
