//! Reads that a cache answers without a bio.

use super::frames::Frames;
use super::placement::Placement;
use super::shared::Shared;
use crate::readahead::PAGE;
use platter_block::bio::{Bio, Op};
use platter_block::resident::{Pinned, Resident};
use platter_stack::barrier_gate::BarrierGate;
use std::sync::Arc;

/// The frames of a cache, with a share of the cache.
pub(super) struct InMemory(Arc<Shared>);

impl InMemory {
    pub(super) fn new(shared: &Arc<Shared>) -> InMemory {
        InMemory(Arc::clone(shared))
    }
}

// SAFETY: `Frames::read` writes only to `out`, and `Frames::read_bio`, which is called for reads alone, to the memory of the
// bio. A pinned frame is neither given to another page nor written to before it is unpinned (`Frames::pin`,
// `PageTable::writable`). Its memory lives as long as the cache, of which `self` has a share.
unsafe impl Resident for InMemory {
    #[inline]
    fn read(&self, pos: u64, out: &mut [u8]) -> bool {
        self.0.frames.read(pos, out)
    }

    fn read_bio(&self, bio: &mut Bio) -> bool {
        read_at_once(bio, &self.0.gate, |_| (&self.0.frames, u64::MAX))
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

/// Reads all of a bio if that is possible at once; if not, the bio is as before. `frames` says where a page is, and the page up
/// to which the following ones are there too. Between the two looks at the gate no barrier may be under way or come.
fn read_at_once<'a>(bio: &mut Bio, gate: &BarrierGate, frames: impl Fn(u64) -> (&'a Frames, u64)) -> bool {
    let (pos, len, end) = (bio.pos(), bio.len(), bio.end());
    let Some(open) = gate.open_since().filter(|_| bio.op() == Op::Read) else { return false };
    // A read that lacks a page copies and counts none.
    if !(pos / PAGE..end.div_ceil(PAGE)).all(|page| frames(page).0.is_ready(page)) {
        return false;
    }
    while bio.pos() < end {
        let (frames, last) = frames(bio.pos() / PAGE);
        let part = last.saturating_mul(PAGE).min(end);
        frames.read_bio(bio, part);
        if bio.pos() < part {
            break;
        }
    }
    let is_read = bio.is_empty() && gate.open_since() == Some(open);
    if !is_read {
        bio.rewind(pos, len);
    }
    is_read
}

/// The frames of the shards of a cache, with a share of them. A frame has the number that it has in its shard times the number
/// of shards, plus that of its shard.
pub(super) struct InShards {
    placement: Arc<Placement>,
    shards: Vec<Arc<Shared>>,
    gate: Arc<BarrierGate>,
}

impl InShards {
    /// `gate` is that of the whole cache: barriers do not go through those of its shards.
    pub(super) fn new(
        placement: Arc<Placement>,
        shards: Vec<Arc<Shared>>,
        gate: Arc<BarrierGate>,
    ) -> InShards {
        InShards { placement, shards, gate }
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

    fn read_bio(&self, bio: &mut Bio) -> bool {
        read_at_once(bio, &self.gate, |page| {
            let shard = &self.shards[self.placement.shard_of(page) as usize];
            (&*shard.frames, self.placement.end_of(page))
        })
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
