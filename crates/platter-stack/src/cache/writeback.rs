//! Writing dirty pages back: in batches, in order of position, each run of them one bio.

use super::engine::Engine;
use super::frames::{Loan, Store};
use super::ios::{IoKey, IoKind};
use super::pages::{FAILED, WRITING, runs};
use platter_block::bio::Bio;
use platter_block::defect::{self, Defect};
use platter_block::readahead::PAGE;
use platter_block::time::Time;

/// Write-backs under way beyond which none is begun. What is read does not count: a crowd of readers must not keep what is
/// dirty from the disk.
pub(super) const MAX_WRITES: u32 = 1024;

/// Places in the order of dirty pages that are looked at in one go.
const LOOKS: usize = 1024;

/// Pages whose write-back begins in one go.
pub(super) const BATCH: usize = 256;

/// Dirty neighbours that are taken along behind a page.
const NEIGHBOURS: u64 = 64;

struct Open {
    key: IoKey,
    bio: Bio,
    /// Nothing joins it.
    alone: bool,
}

impl Engine {
    /// Does a piece of what is due in the background: jobs, and writing back what has been dirty for too long, or
    /// whatever is as long as too much is.
    pub(super) fn run_background(&mut self, now: Time) {
        self.run_jobs();
        let rules = self.pages.dirty.rules;
        if self.is_spent() || self.pages.dirty.wakeup(now).is_none_or(|at| at > now) {
            return;
        }
        let dirty = &mut self.pages.dirty;
        let over = dirty.count > rules.background;
        let looks = now >= dirty.next_look || dirty.owed;
        if now >= dirty.next_look {
            dirty.next_look = now + rules.interval;
        }
        let expired = |since: Time| looks && since + rules.expire <= now;
        let any = self.write_oldest(|since| over || expired(since), true);
        // The rest in the next go.
        self.pages.dirty.owed = looks && (any || self.is_full());
    }

    /// Starts to write back some of the pages that have been dirty longest, as far as they are `due`. Whether there were
    /// any. What could not be written before is tried only `again`.
    pub(super) fn write_oldest(&mut self, due: impl Fn(Time) -> bool, again: bool) -> bool {
        if self.is_full() {
            self.pages.dirty.stalled = true;
            return false;
        }
        let mut chosen = std::mem::take(&mut self.pages.dirty.chosen);
        if chosen.is_empty() {
            self.pages.choose(LOOKS, &mut chosen, due, again);
            // From the back, so that the first can be taken from the end.
            chosen.sort_unstable_by_key(|&(page, ..)| std::cmp::Reverse(page));
            self.work += 1 + chosen.len() as u32 / 16;
        }
        let mut batch = std::mem::take(&mut self.batch);
        // Pages before this are in the batch.
        let mut next = 0;
        while batch.len() < BATCH
            && let Some(place) = chosen.pop()
        {
            let (page, seq, _) = place;
            let Some(frame) = self.pages.version(page, seq).filter(|_| page >= next) else { continue };
            if self.pages.may_write(frame) {
                batch.push(frame);
                next = self.add_neighbours(page, &mut batch);
            } else if !self.pages.meta(frame).is(WRITING) {
                self.pages.dirty.put_back(place);
            }
        }
        self.pages.dirty.chosen = chosen;
        let any = !batch.is_empty();
        self.pages.dirty.stalled |= !any;
        self.write_back(&mut batch);
        self.batch = batch;
        any
    }

    /// Whether so much is under way that no write-back is begun.
    fn is_full(&self) -> bool {
        if defect::is_on(Defect::CacheWriteBackCountsAllIo) {
            return self.ios.out >= MAX_WRITES;
        }
        self.ios.writing >= MAX_WRITES
    }

    /// Takes dirty pages behind one along, so that the disk gets runs. The first page that is not.
    fn add_neighbours(&self, page: u64, batch: &mut Vec<u32>) -> u64 {
        let end = page.saturating_add(NEIGHBOURS).min(page + 1 + BATCH.saturating_sub(batch.len()) as u64);
        for next in page + 1..end {
            match self.pages.store.find(next) {
                Some(frame) if self.pages.may_write(frame) => batch.push(frame),
                _ => return next,
            }
        }
        end.max(page + 1)
    }

    /// Starts to write back frames that may be written, and empties the list. What has begun is in `begun` then.
    pub(super) fn write_back(&mut self, batch: &mut Vec<u32>) {
        self.begun.clear();
        self.work += batch.len() as u32;
        let store = &self.pages.store;
        batch.sort_unstable_by_key(|&frame| store.page(frame));
        let (max_bytes, max_segments) = (self.max_bytes(), self.max_segments());
        let mut open = None::<Open>;
        for frame in batch.drain(..) {
            if !self.pages.may_write(frame) {
                continue;
            }
            let page = self.pages.store.page(frame);
            let bytes = self.pages.bytes_of(page);
            let meta = *self.pages.meta(frame);
            let alone = meta.is(FAILED);
            let mut first = true;
            for piece in pieces(meta.dirty, meta.valid) {
                let (pos, len) = (page * PAGE + piece.start as u64, piece.end.min(bytes) - piece.start);
                let fits = first
                    && open.as_ref().is_some_and(|open| {
                        !alone
                            && !open.alone
                            && open.bio.end() == pos
                            && open.bio.len() + len as u64 <= max_bytes
                            && open.bio.segment_count() < max_segments
                    });
                if !fits && first {
                    self.send_write(open.take());
                    open = Some(self.begin_write(pos, alone));
                } else if !first && let Some(Open { key, bio, .. }) = open.take() {
                    // Several pieces of one page are one I/O, so that the page is clean when all are.
                    self.stage_write(key, bio);
                    let mut bio = self.ios.bio();
                    Store::lease(&mut bio, &self.ios.get(key).lent, Loan::WriteBack, pos);
                    open = Some(Open { key, bio, alone });
                }
                if let Some(open) = &mut open {
                    let part = (piece.start, len);
                    let lent = self.pages.store.lend(frame, part, Loan::WriteBack, &mut open.bio);
                    lent.expect(
                        "no device fills a page that may be written, and the bio was cut before it was full",
                    );
                    if first {
                        self.ios.get(open.key).frames.push(frame);
                        self.pages.begin_write(frame, open.key.index);
                    }
                }
                first = false;
            }
        }
        self.send_write(open);
    }

    fn begin_write(&mut self, pos: u64, alone: bool) -> Open {
        let key = self.ios.begin(IoKind::WriteBack);
        self.begun.push(key);
        let mut bio = self.ios.bio();
        Store::lease(&mut bio, &self.ios.get(key).lent, Loan::WriteBack, pos);
        Open { key, bio, alone }
    }

    fn send_write(&mut self, open: Option<Open>) {
        if let Some(Open { key, bio, .. }) = open {
            self.stage_write(key, bio);
        }
    }

    fn stage_write(&mut self, key: IoKey, mut bio: Bio) {
        self.ios.sign(key, &mut bio);
        self.send(bio, false);
    }
}

/// What is written of a page: from its first dirty block to the last, if all between is valid, else each run.
fn pieces(dirty: u8, valid: u8) -> impl Iterator<Item = std::ops::Range<usize>> {
    let hull = match dirty {
        0 => 0,
        _ => (0xffu8 << dirty.trailing_zeros()) & (0xff >> dirty.leading_zeros()),
    };
    runs(if hull & !valid == 0 { hull } else { dirty })
}
