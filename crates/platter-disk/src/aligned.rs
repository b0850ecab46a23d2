//! Aligned memory of a bounce.

#![allow(unsafe_code)]

use platter_block::bio::{Bio, Op};
use std::alloc::{Layout, alloc, dealloc};

/// An allocation with an alignment, freed on drop. Its contents are whatever they are.
pub(crate) struct Aligned {
    ptr: *mut u8,
    layout: Layout,
}

// SAFETY: it owns its memory.
unsafe impl Send for Aligned {}

impl Aligned {
    /// `None` when the memory cannot be had or the size is absurd.
    pub(crate) fn new(size: usize, align: usize) -> Option<Aligned> {
        let layout = Layout::from_size_align(size.max(1), align).ok()?;
        // SAFETY: the layout is not of size zero.
        let ptr = unsafe { alloc(layout) };
        (!ptr.is_null()).then_some(Aligned { ptr, layout })
    }

    pub(crate) fn as_ptr(&self) -> *mut u8 {
        self.ptr
    }

    /// Copies between the bio's segments and this memory from byte `at` on, in the direction of the bio.
    pub(crate) fn exchange(&self, bio: &Bio, mut at: usize) {
        for segment in bio.segments() {
            let len = segment.len() as usize;
            assert!(at + len <= self.len(), "the bio's segments fit the bounce buffer");
            let place = self.ptr.wrapping_add(at);
            // SAFETY: the place lies inside this allocation (checked), the segment's memory is valid while
            // its bio is with us, and the two cannot overlap, for the allocation is our own.
            unsafe {
                if bio.op() == Op::Read {
                    std::ptr::copy_nonoverlapping(place, segment.addr(), len);
                } else {
                    std::ptr::copy_nonoverlapping(segment.addr(), place, len);
                }
            }
            at += len;
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.layout.size()
    }

    pub(crate) fn align(&self) -> usize {
        self.layout.align()
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout in `new`.
        unsafe { dealloc(self.ptr, self.layout) }
    }
}
