//! Writing dirty pages back: in batches, in order of position, each run of them one bio.

use super::engine::Engine;
use super::frames::{Loan, NONE};
use super::ios::{IoKey, IoKind};
use super::pages::{FAILED, FILLING, PASSED, WRITING, runs};
use platter_block::bio::Bio;
use platter_block::readahead::PAGE;
use platter_block::time::Time;

/// Pages that are written back at a time, of those whose time has come.
const BATCH: usize = 1024;

/// Dirty neighbours that are taken along behind a page.
const NEIGHBOURS: u64 = 64;

struct Open {
    key: IoKey,
    bio: Bio,
    /// Nothing joins it.
    alone: bool,
}

impl Engine {
    /// Does what is due: writes back what has been dirty for too long, and more while too much is dirty.
    pub(super) fn tend(&mut self, now: Time) {
        let rules = *self.rules();
        while self.pages.dirty.wakeup(now).is_some_and(|at| at <= now) {
            let over = self.pages.dirty.count > rules.background;
            let looks = now >= self.pages.dirty.next_look || self.pages.dirty.owed;
            if now >= self.pages.dirty.next_look {
                self.pages.dirty.next_look = now + rules.interval;
            }
            let expired = |since: Time| looks && since + rules.expire <= now;
            let mut any = self.write_oldest(|since| over || expired(since), true);
            if !any && !looks {
                return;
            }
            while looks && any {
                any = self.write_oldest(expired, true);
            }
            self.pages.dirty.owed = looks && self.is_full();
            if over && !looks {
                // The rest when these are done.
                return;
            }
        }
    }

    /// Starts to write back a batch of the pages that have been dirty longest, as far as they are `due`. Whether
    /// there were any.
    /// What could not be written before is tried only `again`.
    pub(super) fn write_oldest(&mut self, due: impl Fn(Time) -> bool, again: bool) -> bool {
        if self.is_full() {
            self.pages.dirty.stalled = true;
            return false;
        }
        let mut batch = std::mem::take(&mut self.batch);
        let (dirty, metas) = self.pages.dirty_and_metas();
        let oldest = dirty.oldest_epoch();
        let mut later = std::mem::take(&mut self.later);
        dirty.take(BATCH, &mut batch, |frame, seq, since| {
            let meta = &metas[frame as usize];
            if meta.seq != seq || meta.dirty == 0 || meta.is(WRITING) {
                return None;
            }
            if !due(since) {
                return Some(false);
            }
            let waits = meta.epoch != oldest || meta.older != NONE || meta.is(FILLING | PASSED);
            if waits || (meta.is(FAILED) && !again) {
                // Its turn comes when what is before it is written.
                later.push((frame, seq, since));
                return None;
            }
            Some(true)
        });
        later.drain(..).rev().for_each(|entry| self.pages.dirty.put_back(entry));
        self.later = later;
        self.add_neighbours(&mut batch);
        let any = !batch.is_empty();
        self.pages.dirty.stalled |= !any;
        self.write_back(&mut batch);
        self.batch = batch;
        any
    }

    /// Whether so much is under way that no write-back is begun.
    fn is_full(&self) -> bool {
        self.ios.out >= self.congestion.max(BATCH as u32)
    }

    /// Takes dirty pages next to those of a batch along, so that the disk gets runs.
    fn add_neighbours(&self, batch: &mut Vec<u32>) {
        let chosen = batch.len();
        for at in 0..chosen {
            let page = self.pages.store.page(batch[at]);
            for next in page + 1..page.saturating_add(NEIGHBOURS) {
                match self.pages.store.find(next) {
                    Some(frame) if self.pages.may_write(frame) => batch.push(frame),
                    _ => break,
                }
            }
        }
        if batch.len() > chosen {
            batch.sort_unstable();
            batch.dedup();
        }
    }

    /// Starts to write back frames that may be written, and empties the list.
    pub(super) fn write_back(&mut self, batch: &mut Vec<u32>) {
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
                    self.pages.store.lease(&mut bio, Loan::WriteBack, pos);
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
        let mut bio = self.ios.bio();
        self.pages.store.lease(&mut bio, Loan::WriteBack, pos);
        Open { key, bio, alone }
    }

    fn send_write(&mut self, open: Option<Open>) {
        if let Some(Open { key, bio, .. }) = open {
            self.stage_write(key, bio);
        }
    }

    fn stage_write(&mut self, key: IoKey, mut bio: Bio) {
        self.ios.sign(key, &mut bio);
        self.staged.push((bio, false));
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
