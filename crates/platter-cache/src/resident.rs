//! Reads that a cache answers without a bio.

use super::shared::Shared;
use crate::readahead::PAGE;
use platter_block::resident::{Pinned, Resident};
use std::sync::Arc;

/// The frames of a cache, with a share of the cache.
pub(super) struct InMemory(Arc<Shared>);

impl InMemory {
    pub(super) fn new(shared: &Arc<Shared>) -> InMemory {
        InMemory(Arc::clone(shared))
    }
}

// SAFETY: `Frames::read` writes only to `out`. A pinned frame is neither given to another page nor written to
// before it is unpinned (`Frames::pin`, `PageTable::writable`). Its memory lives as long as the cache, of
// which `self` has a share.
unsafe impl Resident for InMemory {
    #[inline]
    fn read(&self, pos: u64, out: &mut [u8]) -> bool {
        self.0.frames.read(pos, out)
    }

    #[inline]
    fn pin(&self, pos: u64) -> Option<Pinned> {
        let frames = &self.0.frames;
        let frame = frames.pin(pos / PAGE)?;
        frames.hit(frame);
        let len = (self.0.geometry.size - pos / PAGE * PAGE).min(PAGE) as u32;
        Some(Pinned { data: frames.data(frame), len, frame })
    }

    // SAFETY: the caller got the frame from `pin` and unpins it once: pins and unpins are balanced.
    #[inline]
    unsafe fn unpin(&self, frame: u32) {
        self.0.frames.unpin(frame);
    }
}
