//! A frame's state word: whether its memory may be read, and by how many readers it is being read.
//!
//! Any number of readers pin a frame that is ready. The one store clears `READY` before it changes anything,
//! and may change the frame if no reader had it pinned at that moment. `tests/interleavings` checks every
//! interleaving of a few of them.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// The contents are valid, and readers may pin the frame and read it.
const READY: u32 = 1 << 31;
/// A device may write to the memory.
pub(super) const FILLING: u32 = 1 << 30;
/// A device may read from the memory.
pub(super) const WRITING: u32 = 1 << 29;
/// Number of pins.
const PINS: u32 = (1 << 24) - 1;
/// At this number of pins no reader gets another one, so that the count cannot overflow even if a program
/// leaks its references.
pub(super) const MOST_PINS: u32 = 1 << 23;

/// At first it is closed, has no page, and is in no chain.
#[derive(Default)]
pub(super) struct Frame {
    pub(super) page: AtomicU64,
    word: AtomicU32,
    /// The link to the next frame in the chain of the index.
    pub(super) next: AtomicU32,
}

impl Frame {
    /// Whether a reader could pin the frame. That may just change.
    pub(super) fn is_ready(&self) -> bool {
        self.word.load(Ordering::Relaxed) & READY != 0
    }

    /// Pins the frame if it is ready and holds the page. A frame that is not ready is never pinned, so that
    /// every pin is that of a reader.
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
        // The frame may have got another page between the two loads.
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

    /// Allows readers to pin the frame.
    pub(super) fn open(&self) {
        self.word.fetch_or(READY, Ordering::Release);
    }

    /// Stops readers from pinning the frame. Returns whether it has no pins.
    pub(super) fn close(&self) -> bool {
        self.word.fetch_and(!READY, Ordering::AcqRel) & PINS == 0
    }

    /// Whether the frame has pins.
    pub(super) fn is_pinned(&self) -> bool {
        self.word.load(Ordering::Acquire) & PINS != 0
    }

    /// The state word; 0 if only the store can access the memory.
    pub(super) fn word(&self) -> u32 {
        self.word.load(Ordering::Acquire)
    }

    /// Whether the memory is lent to be filled, and only for that: no other lane accesses it, and no reader
    /// can pin the frame.
    pub(super) fn is_lent_to_fill(&self) -> bool {
        self.word() & (READY | FILLING | WRITING) == FILLING
    }

    /// A device gets the memory for the use that `bit` denotes.
    pub(super) fn lend(&self, bit: u32) {
        self.word.fetch_or(bit, Ordering::Relaxed);
    }

    /// The device has returned the memory.
    pub(super) fn give_back(&self, bit: u32) {
        self.word.fetch_and(!bit, Ordering::AcqRel);
    }

    /// What the memory was lent to be filled with is there: the lane that has it gives it back, and lets readers pin the frame.
    pub(super) fn open_filled(&self) {
        // Only the lane changes these two bits now, so this sets the one and clears the other.
        self.word.fetch_add(READY - FILLING, Ordering::Release);
    }

    /// Pins the frame for the store, ready or not: it is not changed until [`unpin`](Frame::unpin).
    pub(super) fn hold(&self) {
        self.word.fetch_add(1, Ordering::Relaxed);
    }
}
