//! How far the memory of a cache's frames is populated, and how far it should be.

use super::memory::LARGE_PAGE;
use crate::readahead::PAGE;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// When the memory of frames is populated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefault {
    /// On the first use of each.
    Off,
    /// Ahead of use, in the background.
    Ahead,
    /// When the cache is opened.
    Open,
}

/// Frames populated at a time.
pub(super) const PIECE: u32 = (LARGE_PAGE / PAGE as usize) as u32;

/// A cache with fewer frames is not populated ahead: a thread would cost more than it saves.
pub(super) const FEWEST: u32 = 4 * PIECE;

/// Most frames ahead of those in use: 64 MiB, and at most a quarter of the cache.
const MOST: u32 = 32 * PIECE;

/// How many frames of a cache have been used, and how many have memory.
#[derive(Default)]
pub(super) struct Ahead {
    used: AtomicU32,
    pub(super) ready: AtomicU32,
    /// Frames to populate ahead of use; 0: none.
    pub(super) most: u32,
    /// All that the cache may use has memory.
    is_whole: bool,
    /// Frames that the cache may use.
    limit: AtomicU32,
    /// The thread has been told.
    pub(super) is_told: AtomicBool,
}

impl Ahead {
    /// Of a cache of at most `count` frames, which uses the first `used` at first.
    pub(super) fn new(count: u32, used: u32, prefault: Prefault) -> Ahead {
        let is_on = prefault == Prefault::Ahead && count >= FEWEST;
        let most = if is_on { MOST.min(count / 4 / PIECE * PIECE) } else { 0 };
        let is_whole = prefault == Prefault::Open;
        Ahead { most, is_whole, limit: AtomicU32::new(used), ..Ahead::default() }
    }

    /// No memory behind this frame was populated, except of frames that were used.
    pub(super) fn populated(&self) -> u32 {
        match self.is_whole {
            true => self.limit.load(Ordering::Relaxed),
            // The thread may be at a piece.
            false if self.most > 0 => self.ready.load(Ordering::Relaxed).saturating_add(PIECE),
            false => 0,
        }
    }

    /// The cache may use the first `limit` frames from now on. The memory of those behind is gone.
    pub(super) fn set_limit(&self, limit: u32) {
        self.limit.store(limit, Ordering::Relaxed);
        self.ready.fetch_min(limit / PIECE * PIECE, Ordering::Relaxed);
    }

    /// The first `used` frames are or were in use.
    pub(super) fn use_first(&self, used: u32) {
        self.used.store(used, Ordering::Relaxed);
    }

    /// The next frame to populate, if there are fewer than `most` of `count` frames left that are.
    pub(super) fn next(&self, count: u32, most: u32) -> Option<u32> {
        let (used, ready) = (self.used.load(Ordering::Relaxed), self.ready.load(Ordering::Relaxed));
        let next = ready.max(used / PIECE * PIECE);
        let count = count.min(self.limit.load(Ordering::Relaxed));
        (used > 0 && next < count && next < used.saturating_add(most)).then_some(next)
    }

    /// Whether few frames are left whose memory is there, and the thread does not know.
    #[inline]
    pub(super) fn is_short(&self, count: u32) -> bool {
        self.most > 0 && !self.is_told.load(Ordering::Relaxed) && self.next(count, self.most / 2).is_some()
    }
}
