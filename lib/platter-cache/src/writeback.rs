//! Writes back dirty pages in batches, in order of position, each run of pages as one bio.

use super::blocks::runs;
use super::dirty::Due;
use super::engine::Engine;
use super::frames::{Loan, Store};
use super::ios::{IoKey, IoKind};
use super::pages::{FAILED, WRITING};
use crate::readahead::PAGE;
use platter_block::bio::Bio;
use platter_block::time::Time;

/// Most write-backs in flight. Reads do not count: many readers must not keep dirty pages from being written.
pub(super) const MAX_WRITES: u32 = 1024;

/// Entries of the order of dirty pages that are checked in one turn.
const LOOKS: usize = 1024;

/// Pages whose write-back begins in one turn.
pub(super) const BATCH: usize = 256;

/// Most dirty pages following a page that are written with it.
const NEIGHBOURS: u64 = 64;

/// What an attempt to write back the oldest dirty pages has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Oldest {
    /// Write-backs have begun.
    Begun,
    /// Only entries of pages that are not dirty any more or were put aside, so far: the next turn looks at others.
    Later,
    /// No page can be written back now.
    None,
}

struct Open {
    key: IoKey,
    bio: Bio,
    /// No other page may be added to it.
    alone: bool,
}

impl Engine {
    /// Does a piece of the background work: jobs, and writing back pages that have been dirty for too long,
    /// or any pages while too many are dirty.
    ///
    /// `moved`: the turn has ended moves. Then it plans none, so that a lane does not go on with turns until the cache has its new size.
    pub(super) fn run_background(&mut self, now: Time, moved: bool) {
        self.run_jobs();
        if !moved {
            self.resize(now);
        }
        let rules = self.pages.dirty.rules;
        if self.is_spent() || self.pages.dirty.wakeup(now).is_none_or(|at| at > now) {
            return;
        }
        let dirty = &mut self.pages.dirty;
        dirty.skip_looks(now);
        let over = dirty.count > rules.background;
        let looks = now >= dirty.next_look || dirty.owed;
        if now >= dirty.next_look {
            dirty.next_look = now + rules.interval;
        }
        let expired = now.0.checked_sub(rules.expire.0).filter(|_| looks).map(Time);
        let since = if over { Due::ALL.since } else { expired };
        let most = self.most_writes(now);
        let found = self.write_oldest(now, Due { since, aside: self.pages.dirty.retry_from(now) }, most);
        // The rest is done in the next turn.
        self.pages.dirty.owed = looks && (found != Oldest::None || self.is_full(most));
    }

    /// Starts to write back some of the oldest dirty pages, as far as they are `due`. About `most` are in flight at most.
    pub(super) fn write_oldest(&mut self, now: Time, due: Due, most: u32) -> Oldest {
        if self.is_full(most) {
            self.pages.dirty.stalled = true;
            return Oldest::None;
        }
        let mut has_more = false;
        let mut chosen = std::mem::take(&mut self.pages.dirty.chosen);
        let is_rest = !chosen.is_empty();
        if !is_rest {
            let (is_more, passed) = self.pages.choose(now, LOOKS, &mut chosen, due);
            has_more = is_more;
            // In reverse order, so that the first page is popped from the end.
            chosen.sort_unstable_by_key(|&(page, ..)| std::cmp::Reverse(page));
            self.work += 1 + (passed + chosen.len()) as u32 / 16;
        }
        let mut batch = std::mem::take(&mut self.batch);
        // Pages before this one are in the batch.
        let (mut next, mut runs) = (0, self.ios.writing);
        while batch.len() < BATCH
            && runs < most
            && let Some((page, seq, _)) = chosen.pop()
        {
            let Some(frame) = self.pages.version(page, seq).filter(|_| page >= next) else { continue };
            // One that was chosen while those put aside were due, too.
            let is_early = due.aside.is_none() && self.pages.info(frame).is(FAILED);
            if self.pages.may_write(frame) && !is_early {
                batch.push(frame);
                // One that follows the run before it may join that.
                runs += u32::from(page > next || next == 0);
                next = self.add_neighbours(page, &mut batch);
            } else if !self.pages.info(frame).is(WRITING) {
                self.pages.dirty.set_aside(page, seq, now);
            }
        }
        // Of what an earlier turn had left, none can be written: the orders were not looked at.
        has_more |= is_rest && chosen.is_empty();
        self.pages.dirty.chosen = chosen;
        let found = match (batch.is_empty(), has_more) {
            (false, _) => Oldest::Begun,
            (true, true) => Oldest::Later,
            (true, false) => Oldest::None,
        };
        self.pages.dirty.stalled |= found == Oldest::None;
        self.write_back(&mut batch, false);
        self.batch = batch;
        found
    }

    /// Most write-backs in flight that no task waits for, so that reads do not wait behind them.
    fn most_writes(&self, now: Time) -> u32 {
        self.pages.dirty.depth(now, MAX_WRITES)
    }

    /// Whether too much is in flight to begin a write-back.
    fn is_full(&self, most: u32) -> bool {
        self.ios.writing >= most
    }

    /// Adds the dirty pages that follow a page, so that the disk gets runs. Returns the first page that is
    /// not added.
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

    /// Starts to write back the frames that may be written, on the lane of the current caller if `own`, and empties
    /// the list. The I/Os started are added to `begun`.
    pub(super) fn write_back(&mut self, batch: &mut Vec<u32>, own: bool) {
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
            let info = *self.pages.info(frame);
            let alone = info.is(FAILED);
            let mut first = true;
            for piece in pieces(info.dirty, info.valid) {
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
                    self.send_write(open.take(), own);
                    open = Some(self.begin_write(pos, alone));
                } else if !first && let Some(Open { key, bio, .. }) = open.take() {
                    // Several pieces of one page are one I/O, so that the page is clean when all of them are
                    // written.
                    self.stage_write(key, bio, own);
                    let mut bio = self.ios.bio();
                    Store::lease(&mut bio, &self.ios.get(key).state.lent, Loan::WriteBack, pos);
                    open = Some(Open { key, bio, alone });
                }
                if let Some(open) = &mut open {
                    let part = (piece.start, len);
                    let lent = self.pages.store.lend(frame, part, Loan::WriteBack, &mut open.bio);
                    lent.expect(
                        "no device fills a page that may be written, and the bio was ended before it was full",
                    );
                    if first {
                        self.ios.get(open.key).state.frames.push(frame);
                        self.pages.begin_write(frame, open.key.index());
                    }
                }
                first = false;
            }
        }
        self.send_write(open, own);
    }

    fn begin_write(&mut self, pos: u64, alone: bool) -> Open {
        let key = self.ios.begin(IoKind::WriteBack);
        self.begun.push(key);
        let mut bio = self.ios.bio();
        Store::lease(&mut bio, &self.ios.get(key).state.lent, Loan::WriteBack, pos);
        Open { key, bio, alone }
    }

    fn send_write(&mut self, open: Option<Open>, own: bool) {
        if let Some(Open { key, bio, .. }) = open {
            self.stage_write(key, bio, own);
        }
    }

    fn stage_write(&mut self, key: IoKey, mut bio: Bio, own: bool) {
        self.ios.sign(key, &mut bio);
        self.send(bio, own);
    }
}

/// The byte ranges of a page to write: from its first dirty block to its last if all blocks between are
/// valid, else each run of dirty blocks.
fn pieces(dirty: u8, valid: u8) -> impl Iterator<Item = std::ops::Range<usize>> {
    let hull = match dirty {
        0 => 0,
        _ => (0xffu8 << dirty.trailing_zeros()) & (0xff >> dirty.leading_zeros()),
    };
    runs(if hull & !valid == 0 { hull } else { dirty })
}
