//! Data of large writes, which is copied into frames without the lock.
//!
//! A turn chooses the frames and marks them as being filled, as if a device did it: all others wait for the I/O of
//! the copy. The lane copies after the turn, and its next turn, which follows at once, marks the pages as written. A
//! small write is copied in the turn: that takes less time than the lock.

use super::frames::Frames;
use super::ios::IoKey;
use platter_block::bio::Bio;

/// A part of a bio, and where it goes.
pub(super) struct Part {
    pub(super) frame: u32,
    pub(super) offset: u32,
    pub(super) len: u32,
    /// The page was clean: it counts as dirty from now on.
    pub(super) was_clean: bool,
}

/// The parts of a write that are to be copied, in the order of the bio.
#[derive(Default)]
pub(super) struct Inflow {
    /// What others wait for that need one of the pages.
    pub(super) key: Option<IoKey>,
    pub(super) parts: Vec<Part>,
    is_copied: bool,
}

impl Inflow {
    /// Whether frames have been chosen and not been marked as written yet.
    pub(super) fn is_begun(&self) -> bool {
        self.key.is_some()
    }

    /// Whether the data is in the frames.
    pub(super) fn is_copied(&self) -> bool {
        self.is_copied
    }

    /// Copies the data, if that is to be done now. Without the lock.
    pub(super) fn copy(&mut self, frames: &Frames, bio: &mut Bio) -> bool {
        if self.key.is_none() || self.is_copied {
            return false;
        }
        for part in &self.parts {
            frames.copy_in(part.frame, part.offset as usize, bio, part.len as usize);
        }
        self.is_copied = true;
        true
    }

    /// Resets to the initial state and keeps allocated memory.
    pub(super) fn reset(&mut self) {
        (self.key, self.is_copied) = (None, false);
        self.parts.clear();
    }
}
