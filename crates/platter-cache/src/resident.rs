//! Reads that a cache answers without a bio.

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
        read_at_once(bio, &self.0.gate, |bio, from| {
            let (frames, end) = (&self.0.frames, bio.end());
            (from..end.div_ceil(PAGE)).all(|page| frames.is_ready(page)) && {
                frames.read_bio(bio, end);
                bio.is_empty()
            }
        })
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

/// Reads all of a bio by `read`, which gets its first page, between two looks at the gate: no barrier may be under way or come
/// between its parts. If that is not possible the bio is as before.
fn read_at_once(bio: &mut Bio, gate: &BarrierGate, read: impl FnOnce(&mut Bio, u64) -> bool) -> bool {
    let (pos, len) = (bio.pos(), bio.len());
    let Some(open) = gate.open_since().filter(|_| bio.op() == Op::Read) else { return false };
    let is_read = read(bio, pos / PAGE) && gate.open_since() == Some(open);
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
        let frames = |page| &self.shards[self.placement.shard_of(page) as usize].frames;
        read_at_once(bio, &self.gate, |bio, from| {
            let end = bio.end();
            let is_there = (from..end.div_ceil(PAGE)).all(|page| frames(page).is_ready(page));
            while is_there && bio.pos() < end {
                let page = bio.pos() / PAGE;
                let part = (self.placement.end_of(page) * PAGE).min(end);
                frames(page).read_bio(bio, part);
                if bio.pos() < part {
                    break;
                }
            }
            bio.is_empty()
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
