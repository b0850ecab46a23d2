//! Data of writes, which is copied into frames without the lock.
//!
//! A turn chooses the frames and marks them as being filled, as if a device did it: all others wait for the I/O of
//! the copy. The lane copies after the turn. If that was the last step of its only bio, and no task waits, it leaves the end
//! of the copy to the next thread that takes the lock ([`Late`](super::late::Late)): such a write takes the lock once. Otherwise its
//! next turn, which follows at once, marks the pages as written.

use super::frames::{Frames, Kept};
use super::ios::IoKey;
use platter_block::bio::Bio;
use platter_block::time::Time;

/// A part of a bio, and where it goes.
pub(super) struct Part {
    pub(super) frame: u32,
    pub(super) offset: u32,
    pub(super) len: u32,
    /// What it keeps of an older version of the page.
    pub(super) kept: Option<Kept>,
    /// The page is whole when the data is there.
    pub(super) is_whole: bool,
}

/// The parts of a write that are to be copied, in the order of the bio.
#[derive(Default)]
pub(super) struct Inflow {
    /// What others wait for that need one of the pages.
    pub(super) key: Option<IoKey>,
    pub(super) parts: Vec<Part>,
    /// When the frames were chosen.
    pub(super) since: Time,
    /// The copy is the last step of the bio.
    pub(super) is_last: bool,
    is_copied: bool,
    /// Frames of older versions were released.
    has_released: bool,
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

    /// Whether the last copy has released frames, which tasks may wait for. Says so once.
    pub(super) fn take_released(&mut self) -> bool {
        std::mem::take(&mut self.has_released)
    }

    /// Copies the data, if that is to be done now. Without the lock.
    pub(super) fn copy(&mut self, frames: &Frames, bio: &mut Bio) -> bool {
        if self.key.is_none() || self.is_copied {
            return false;
        }
        for part in &mut self.parts {
            if let Some(kept) = part.kept.take() {
                frames.copy_kept(kept, part.frame);
                self.has_released = true;
            }
            frames.copy_in(part.frame, part.offset as usize, bio, part.len as usize);
        }
        self.is_copied = true;
        true
    }

    /// Resets to the initial state and keeps allocated memory.
    pub(super) fn reset(&mut self) {
        (self.key, self.is_copied, self.is_last, self.has_released) = (None, false, false, false);
        self.parts.clear();
    }
}
