//! Reads that a cache answers without a bio.

use super::placement::Placement;
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

/// The frames of the shards of a cache, with a share of them. A frame has the number that it has in its shard times the number
/// of shards, plus that of its shard.
pub(super) struct InShards {
    placement: Arc<Placement>,
    shards: Vec<Arc<Shared>>,
}

impl InShards {
    pub(super) fn new(placement: Arc<Placement>, shards: Vec<Arc<Shared>>) -> InShards {
        InShards { placement, shards }
    }
}

// SAFETY: as for `InMemory`, in each shard; a frame's number names one frame of one shard.
unsafe impl Resident for InShards {
    #[inline]
    fn read(&self, mut pos: u64, mut out: &mut [u8]) -> bool {
        while !out.is_empty() {
            let page = pos / PAGE;
            let len = (self.placement.end_of(page) * PAGE - pos).min(out.len() as u64) as usize;
            let (part, rest) = out.split_at_mut(len);
            if !self.shards[self.placement.shard_of(page) as usize].frames.read(pos, part) {
                return false;
            }
            (pos, out) = (pos + len as u64, rest);
        }
        true
    }

    #[inline]
    fn pin(&self, pos: u64) -> Option<Pinned> {
        let page = pos / PAGE;
        let shard = self.placement.shard_of(page);
        let shared = &self.shards[shard as usize];
        let frame = shared.frames.pin(page)?;
        shared.frames.hit(frame);
        let len = (shared.geometry.size - page * PAGE).min(PAGE) as u32;
        let number = frame * self.shards.len() as u32 + shard;
        Some(Pinned { data: shared.frames.data(frame), len, frame: number })
    }

    // SAFETY: the caller got the frame from `pin` and unpins it once: pins and unpins are balanced.
    #[inline]
    unsafe fn unpin(&self, frame: u32) {
        let count = self.shards.len() as u32;
        self.shards[(frame % count) as usize].frames.unpin(frame / count);
    }
}
