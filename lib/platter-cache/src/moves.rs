//! Copies from one frame to another, which the lane makes without the lock.
//!
//! A page moves when the cache becomes smaller, and when blocks of it are to be read while a device has its frame. Its new
//! frame counts as being filled until the lane, in the next turn, says that the data is there.

use super::frames::{Frames, Kept};
use super::ios::IoKey;

/// What a turn has planned to copy.
#[derive(Default)]
pub(super) struct Moves {
    /// What tasks wait for that need one of the pages.
    pub(super) key: Option<IoKey>,
    pub(super) copies: Vec<(u32, Kept)>,
    /// Frames that are free when the copies are made.
    pub(super) vacated: Vec<u32>,
    pub(super) is_copied: bool,
}

impl Moves {
    /// Whether copies are planned.
    pub(super) fn is_begun(&self) -> bool {
        self.key.is_some()
    }

    /// Makes the copies, without the lock. Returns whether there were any.
    pub(super) fn copy(&mut self, frames: &Frames) -> bool {
        if self.copies.is_empty() {
            return false;
        }
        self.copies.drain(..).for_each(|(to, kept)| frames.copy_kept(kept, to));
        self.is_copied = true;
        true
    }
}
