//! What has to be written back, in the order in which it became so, and when.

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

/// A page's place in the order. Stale as soon as the page's number is another.
#[derive(Clone, Copy, Debug)]
struct Entry {
    frame: u32,
    seq: u32,
    since: Time,
}

/// The dirty pages of a cache.
pub(super) struct Dirty {
    pub(super) rules: WriteBack,
    ring: VecDeque<Entry>,
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
    /// Of those that are dirty: being written.
    pub(super) writing: u32,
    /// More has expired than could be written at once.
    pub(super) owed: bool,
    /// Too much is dirty, but nothing of it can be written before something else has been.
    pub(super) stalled: bool,
}

/// A page's place in the order, for taking it out and putting it back.
pub(super) type Place = (u32, u32, Time);

/// Epochs that may be dirty at once; a barrier beyond waits until there are fewer.
pub(super) const MAX_EPOCHS: usize = 4096;

impl Dirty {
    pub(super) fn new(rules: WriteBack) -> Dirty {
        let (ring, epochs) = (VecDeque::new(), VecDeque::from([0]));
        let (first_epoch, next_look) = (0, Time::default());
        Dirty {
            rules,
            ring,
            seq: 0,
            count: 0,
            epochs,
            first_epoch,
            next_look,
            not_before: None,
            writing: 0,
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
    pub(super) fn add(&mut self, frame: u32, now: Time) -> u32 {
        if self.count == 0 {
            self.next_look = now + self.rules.interval;
        }
        self.count += 1;
        if let Some(last) = self.epochs.back_mut() {
            *last += 1;
        }
        self.queue(frame, now)
    }

    /// A dirty page finds its place behind all others (again).
    pub(super) fn queue(&mut self, frame: u32, now: Time) -> u32 {
        self.seq = self.seq.wrapping_add(1).max(1);
        self.ring.push_back(Entry { frame, seq: self.seq, since: now });
        self.seq
    }

    /// A dirty page has gone to another frame and keeps its place.
    pub(super) fn moved(&mut self, from: u32, to: u32, seq: u32, now: Time) {
        match self.ring.iter_mut().find(|entry| entry.seq == seq && entry.frame == from) {
            Some(entry) => entry.frame = to,
            None => self.ring.push_back(Entry { frame: to, seq, since: now }),
        }
    }

    /// Puts a page that was taken back to the front.
    pub(super) fn put_back(&mut self, (frame, seq, since): Place) {
        self.ring.push_front(Entry { frame, seq, since });
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

    /// Takes the oldest pages that `is_due` says of, given the frame, its number and since when it is dirty, into
    /// `out`, at most `most`; `None` from it: the entry is stale and goes. Stops at the first that is not due.
    pub(super) fn take(
        &mut self,
        most: usize,
        out: &mut Vec<u32>,
        mut is_due: impl FnMut(u32, u32, Time) -> Option<bool>,
    ) {
        while out.len() < most
            && let Some(&Entry { frame, seq, since }) = self.ring.front()
        {
            match is_due(frame, seq, since) {
                Some(false) => break,
                Some(true) => out.push(frame),
                None => {}
            }
            self.ring.pop_front();
        }
    }

    /// All pages in order, with their numbers; stale ones among them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.ring.iter().map(|entry| (entry.frame, entry.seq))
    }

    /// Drops stale entries when they are most of all.
    pub(super) fn tidy(&mut self, is_live: impl Fn(u32, u32) -> bool) {
        if self.ring.len() > 64 && self.ring.len() > 2 * self.count as usize {
            self.ring.retain(|entry| is_live(entry.frame, entry.seq));
        }
    }

    /// When write-back has something to do by itself.
    pub(super) fn wakeup(&self, now: Time) -> Option<Time> {
        if self.count == 0 {
            return None;
        }
        let over = (self.owed || self.count - self.writing > self.rules.background) && !self.stalled;
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
        let numbers: Vec<u32> = (0..4).map(|frame| dirty.add(frame, Time(u64::from(frame)))).collect();
        let mut out = Vec::new();
        dirty.take(2, &mut out, |frame, seq, _| (numbers[frame as usize] == seq).then_some(true));
        assert_eq!(out, [0, 1]);
        dirty.take(8, &mut out, |_, _, since| Some(since < Time(3)));
        assert_eq!(out, [0, 1, 2]);
    }
}
