//! Copying between bios and frames, and from one frame to another, without the lock.

use super::{FRAME, Frames, Held};
use crate::blocks::runs;
use platter_block::bio::Bio;
use platter_block::segment::Segment;
use std::sync::atomic::Ordering;

/// What a new version of a page keeps of the one before.
pub(in super::super) struct Kept {
    /// The frame of the version before.
    pub(in super::super) from: Held,
    /// The blocks to copy.
    pub(in super::super) blocks: u8,
}

impl Frames {
    /// Copies from a held frame to the next `len` bytes of a reading bio, and releases the frame.
    pub(in super::super) fn copy_out(&self, held: Held, offset: usize, bio: &mut Bio, len: usize) {
        assert!(offset + len <= FRAME, "a page has {FRAME} bytes");
        self.copy_to(held.0, offset, bio, len);
        self.release_copied(held);
    }

    /// Copies the next `len` bytes of a writing bio into a frame that the store has lent for this.
    pub(in super::super) fn copy_in(&self, frame: u32, offset: usize, bio: &mut Bio, len: usize) {
        assert!(offset + len <= FRAME, "a page has {FRAME} bytes");
        assert!(self.frames[frame as usize].is_lent_to_fill(), "a frame in use was to be changed");
        each_piece(bio, len, |piece, at| {
            // SAFETY: nothing else accesses the frame's memory: it was closed, not pinned and with no device when the
            // store lent it for this copy, and while it is lent no other lane opens or lends it; tasks that hold it by then
            // only wait. The bio is with the cache between its submission and its completion, so its memory is valid for
            // reads, and it is not the cache's.
            unsafe {
                let to = self.address(frame).add(offset + at);
                piece.copy_to(std::slice::from_raw_parts_mut(to, piece.len() as usize));
            }
        });
    }

    /// Copies from a frame that an I/O has filled to the next `len` bytes of the reading bio of the same lane, and lets
    /// readers pin it. The engine has not taken the completion of the I/O yet: until it does, only the lane that has it
    /// may do this.
    pub(in super::super) fn copy_filled(&self, frame: u32, offset: usize, bio: &mut Bio, len: usize) {
        assert!(offset + len <= FRAME, "a page has {FRAME} bytes");
        let state = &self.frames[frame as usize];
        assert!(state.is_lent_to_fill(), "a frame was to be read that no device has filled");
        self.copy_to(frame, offset, bio, len);
        state.open_filled();
    }

    /// Copies what a new version keeps into its frame, which the store has lent for this, and releases the frame of the version
    /// before.
    pub(in super::super) fn copy_kept(&self, kept: Kept, to: u32) {
        let from = kept.from.0;
        assert!(from != to, "a page was to be copied to itself");
        assert!(self.frames[to as usize].is_lent_to_fill(), "a frame in use was to be changed");
        for run in runs(kept.blocks) {
            // SAFETY: two different frames. Nothing else accesses the second, as in `copy_in`; the first is held and no device
            // fills it, so it is not written to.
            unsafe {
                let (from, to) = (self.address(from).add(run.start), self.address(to).add(run.start));
                std::ptr::copy_nonoverlapping(from, to, run.len());
            }
        }
        self.release_copied(kept.from);
    }

    /// Lets readers pin a frame into which its lane has copied the rest of its page. The engine has not been told yet: until
    /// it is, only the lane may do this.
    pub(in super::super) fn open_copied(&self, frame: u32) {
        let state = &self.frames[frame as usize];
        assert!(state.is_lent_to_fill(), "a frame was to be read into which nothing was copied");
        state.open_filled();
    }

    /// Releases a frame that was held for copying.
    pub(in super::super) fn release_copied(&self, held: Held) {
        self.unpin(held.0);
        self.copying.fetch_sub(1, Ordering::SeqCst);
    }

    /// Copies from a pinned frame to the next `len` bytes of a bio.
    pub(super) fn copy_to(&self, frame: u32, offset: usize, bio: &mut Bio, len: usize) {
        each_piece(bio, len, |piece, at| {
            // SAFETY: the frame is pinned and no device fills it, so its memory does not change. The bio is
            // with the cache between its submission and its completion, or lent to it for the call, so its memory is valid for
            // writes; it is not the cache's, so the two do not overlap.
            unsafe {
                let from = self.address(frame).add(offset + at);
                piece.copy_from(std::slice::from_raw_parts(from, piece.len() as usize));
            }
        });
    }
}

/// Calls `each` with the pieces of the next `len` bytes of a bio, and the number of those bytes before each; then these bytes are
/// done.
fn each_piece(bio: &mut Bio, len: usize, mut each: impl FnMut(Segment, usize)) {
    let mut at = 0;
    for segment in bio.segments() {
        let piece = segment.slice(0, (len - at) as u32);
        each(piece, at);
        at += piece.len() as usize;
        if at == len {
            break;
        }
    }
    bio.advance(len as u64);
}
