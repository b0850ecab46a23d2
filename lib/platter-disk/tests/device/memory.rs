//! Memory of I/Os: parts at chosen places.

#![allow(unsafe_code)]

use platter_block::bio::Bio;
use platter_block::buf::{IoBuf, IoBufMut, add_memory};
use platter_block::fault::Fault;
use platter_block::segment::RegionId;
use std::ops::{Deref, DerefMut};

/// Memory of an I/O, in parts.
pub(crate) type Memory = Vec<Part>;

const PAGE: usize = 4096;

/// Bytes at a chosen distance from the start of a page.
pub(crate) struct Part {
    all: Box<[u8]>,
    start: usize,
    len: usize,
}

impl Deref for Part {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.all[self.start..self.start + self.len]
    }
}

impl DerefMut for Part {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.all[self.start..self.start + self.len]
    }
}

// SAFETY: memory on the heap, owned, which does not move with the handle.
unsafe impl IoBuf for Part {
    fn byte_len(&self) -> usize {
        self.len
    }

    unsafe fn add_segments(&mut self, bio: &mut Bio) -> Result<(), Fault> {
        let (addr, len) = (self.as_mut_ptr(), self.len);
        // SAFETY: the part goes into the bio next to the segments.
        unsafe { add_memory(bio, addr, len, RegionId::NONE) }
    }
}

// SAFETY: any byte is a valid value.
unsafe impl IoBufMut for Part {}

/// One part of memory that starts `offset` bytes past the start of a page.
pub(crate) fn part(len: usize, offset: usize) -> Part {
    let all = vec![0; len + offset + PAGE].into_boxed_slice();
    let at = all.as_ptr() as usize;
    Part { start: at.next_multiple_of(PAGE) - at + offset, all, len }
}

/// Memory of one aligned part.
pub(crate) fn aligned(len: usize) -> Memory {
    vec![part(len, 0)]
}

pub(crate) fn fill(memory: &mut Memory, mut byte: impl FnMut(usize) -> u8) {
    for (at, to) in memory.iter_mut().flat_map(|part| part.iter_mut()).enumerate() {
        *to = byte(at);
    }
}

pub(crate) fn bytes(memory: &Memory) -> Vec<u8> {
    memory.iter().flat_map(|part| part.iter().copied()).collect()
}
