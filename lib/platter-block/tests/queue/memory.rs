//! Memory of bios and a disk's accesses to it: the only module of these tests with `unsafe` code.

use platter_block::bio::Bio;
use platter_block::buf::{IoBuf, IoBufMut};
use platter_block::fault::Fault;
use platter_block::segment::{RegionId, Segment};
use std::sync::{Arc, Weak};

/// Alignment that every buffer starts with.
const ALIGN: usize = 4096;

/// Memory of one bio: pieces with gaps between them, filled with a canary that must survive.
pub(crate) struct Buffer {
    store: Vec<u8>,
    parts: Vec<(usize, usize)>,
    alive: Arc<()>,
}

const CANARY: u8 = 0xC5;

impl Buffer {
    /// Pieces of these lengths; `gaps[i]` bytes lie before piece `i` (missing gaps are 0, so that pieces
    /// touch).
    pub(crate) fn new(lens: &[usize], gaps: &[usize]) -> Buffer {
        let total: usize = lens.iter().chain(gaps).sum();
        let store = vec![CANARY; total + ALIGN];
        let mut at = store.as_ptr().align_offset(ALIGN);
        let mut parts = Vec::new();
        for (i, &len) in lens.iter().enumerate() {
            at += gaps.get(i).copied().unwrap_or(0);
            parts.push((at, len));
            at += len;
        }
        Buffer { store, parts, alive: Arc::new(()) }
    }

    /// Dead when the buffer is dropped.
    pub(crate) fn life(&self) -> Weak<()> {
        Arc::downgrade(&self.alive)
    }

    /// Fills the pieces, one after the other, with `data`.
    pub(crate) fn scatter(&mut self, mut data: &[u8]) {
        for &(at, len) in &self.parts {
            self.store[at..at + len].copy_from_slice(&data[..len]);
            data = &data[len..];
        }
    }

    /// The contents of the pieces.
    pub(crate) fn gather(&self) -> Vec<u8> {
        self.parts.iter().flat_map(|&(at, len)| self.store[at..at + len].iter().copied()).collect()
    }

    /// Whether everything outside the pieces is unchanged.
    pub(crate) fn margins_are_whole(&self) -> bool {
        let mut outside = vec![true; self.store.len()];
        self.parts.iter().for_each(|&(at, len)| outside[at..at + len].fill(false));
        self.store.iter().zip(outside).all(|(&byte, out)| !out || byte == CANARY)
    }
}

// SAFETY: every piece lies inside `store`, whose heap memory does not move when the buffer does, and which
// no other code touches while a bio owns the buffer.
unsafe impl IoBuf for Buffer {
    fn byte_len(&self) -> usize {
        self.parts.iter().map(|part| part.1).sum()
    }

    unsafe fn add_segments(&mut self, bio: &mut Bio) -> Result<(), Fault> {
        let base = self.store.as_mut_ptr();
        self.parts.iter().try_for_each(|&(at, len)| {
            // SAFETY: as for the whole implementation.
            unsafe { bio.push_segment(Segment::new(base.add(at), len as u32, RegionId::NONE)) }
        })
    }
}

// SAFETY: the pieces are initialised bytes of an exclusively owned vector.
unsafe impl IoBufMut for Buffer {}

/// Copies from the disk into the segments, until either ends.
pub(crate) fn fill_segments(segments: &[Segment], mut data: &[u8]) {
    for segment in segments {
        let len = data.len().min(segment.len() as usize);
        // SAFETY: the request that carries the segment is with the fake disk.
        unsafe { segment.slice(0, len as u32).copy_from(&data[..len]) };
        data = &data[len..];
    }
}

/// Copies from the segments onto the disk, until either ends.
pub(crate) fn drain_segments(segments: &[Segment], mut data: &mut [u8]) {
    for segment in segments {
        let (now, later) = data.split_at_mut(data.len().min(segment.len() as usize));
        // SAFETY: the request that carries the segment is with the fake disk.
        unsafe { segment.slice(0, now.len() as u32).copy_to(now) };
        data = later;
    }
}
