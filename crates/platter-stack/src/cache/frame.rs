//! A frame's word of state: who may look at its memory, and who does.
//!
//! Any number of readers pin a frame that is ready; one store takes `READY` away before it changes anything, and may
//! change it if nobody had it pinned at that moment. `tests/interleavings` runs every interleaving of a few of them.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Contents are valid and whoever pins the frame may read them.
const READY: u32 = 1 << 31;
/// A device may write to the memory.
pub(super) const FILLING: u32 = 1 << 30;
/// A device may read from the memory.
pub(super) const WRITING: u32 = 1 << 29;
/// How many have the frame pinned.
const PINS: u32 = (1 << 24) - 1;
/// With so many nobody else gets one, so that the count never runs over into nothing, not even if a program forgets
/// its references instead of dropping them.
pub(super) const MOST_PINS: u32 = 1 << 23;

pub(super) struct Frame {
    pub(super) page: AtomicU64,
    word: AtomicU32,
    /// The next frame in the chain of the index.
    pub(super) next: AtomicU32,
}

impl Frame {
    /// A closed frame of no page; `next` ends its chain.
    pub(super) fn new(next: u32) -> Frame {
        Frame { page: AtomicU64::new(u64::MAX), word: AtomicU32::new(0), next: AtomicU32::new(next) }
    }

    /// Only a ready frame is ever pinned, so that pins are never those of somebody who does not read.
    #[inline]
    pub(super) fn pin_if_ready(&self, page: u64) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if word & (READY | MOST_PINS) != READY {
                return false;
            }
            match self.word.compare_exchange_weak(word, word + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        // It may have become another page's between the two looks.
        let same = self.page.load(Ordering::Relaxed) == page;
        if !same {
            self.unpin();
        }
        same
    }

    #[inline]
    pub(super) fn unpin(&self) {
        self.word.fetch_sub(1, Ordering::Release);
    }

    /// Lets everybody pin the frame.
    pub(super) fn open(&self) {
        self.word.fetch_or(READY, Ordering::Release);
    }

    /// Lets nobody pin the frame from now on. Whether nobody has it pinned.
    pub(super) fn close(&self) -> bool {
        self.word.fetch_and(!READY, Ordering::AcqRel) & PINS == 0
    }

    /// Whether somebody has the frame pinned.
    pub(super) fn is_pinned(&self) -> bool {
        self.word.load(Ordering::Acquire) & PINS != 0
    }

    /// The word as it is; 0 if nobody but the store can reach the memory now, nor get at it.
    pub(super) fn word(&self) -> u32 {
        self.word.load(Ordering::Acquire)
    }

    /// A device has the memory, to do what `bit` says.
    pub(super) fn lend(&self, bit: u32) {
        self.word.fetch_or(bit, Ordering::Relaxed);
    }

    /// It is done with that.
    pub(super) fn give_back(&self, bit: u32) {
        self.word.fetch_and(!bit, Ordering::AcqRel);
    }

    /// Pins the frame on behalf of the store, ready or not: it is not changed until [`unpin`](Frame::unpin).
    pub(super) fn hold(&self) {
        self.word.fetch_add(1, Ordering::Relaxed);
    }
}
