//! Copies from one frame to another, which the lane makes without the lock.
//!
//! A page moves when the cache becomes smaller, and when blocks of it are to be read while a device has its frame. Its new
//! frame counts as being filled until the lane, in the next turn, says that the data is there.

use super::engine::Engine;
use super::frames::{Frames, Kept};
use super::ios::{IoKey, IoKind};
use super::pages::{FILLING, Moved};
use platter_block::time::Time;

/// What a turn has planned to copy.
#[derive(Default)]
pub(super) struct Moves {
    /// What tasks wait for that need one of the pages.
    key: Option<IoKey>,
    copies: Vec<(u32, Kept)>,
    /// Frames that are free when the copies are made.
    vacated: Vec<u32>,
    is_copied: bool,
}

impl Moves {
    /// Whether copies are planned.
    pub(super) fn is_begun(&self) -> bool {
        self.key.is_some()
    }

    /// Whether they have been made.
    pub(super) fn is_copied(&self) -> bool {
        self.is_copied
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

impl Engine {
    /// Plans to copy to a frame, which is closed, what it keeps of another one.
    pub(super) fn plan_move(&mut self, Moved { to, kept, vacated }: Moved) -> IoKey {
        let (moves, ios) = (&mut self.moves, &mut self.ios);
        let key = *moves.key.get_or_insert_with(|| ios.begin(IoKind::Move));
        ios.get(key).state.frames.push(to);
        self.pages.store.begin_copy(to);
        let info = self.pages.info_mut(to);
        info.flags |= FILLING;
        info.io = key.index();
        moves.copies.push((to, kept));
        moves.vacated.extend(vacated);
        key
    }

    /// The copies have been made.
    pub(super) fn moved(&mut self, now: Time, moves: &mut Moves) {
        moves.is_copied = false;
        let Some(key) = moves.key.take() else { return };
        self.copied(now, key, None);
        self.pages.vacate(moves.vacated.drain(..));
    }
}
