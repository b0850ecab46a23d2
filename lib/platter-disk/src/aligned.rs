//! Aligned memory for transfers that cannot use the caller's memory directly.

#![allow(unsafe_code)]

use platter_block::bio::Bio;
use platter_block::buf::{IoBuf, IoBufMut, add_memory};
use platter_block::fault::Fault;
use platter_block::segment::RegionId;
use std::alloc::{Layout, alloc_zeroed, dealloc};

/// An initialised allocation with a given alignment, freed on drop.
pub(crate) struct Aligned {
    ptr: *mut u8,
    layout: Layout,
}

// SAFETY: it owns its memory.
unsafe impl Send for Aligned {}

impl Aligned {
    /// Zeroed memory. `None` if the allocation fails or the size is invalid.
    pub(crate) fn new(size: usize, align: usize) -> Option<Aligned> {
        let layout = Layout::from_size_align(size.max(1), align).ok()?;
        // SAFETY: the layout is not of size zero.
        let ptr = unsafe { alloc_zeroed(layout) };
        (!ptr.is_null()).then_some(Aligned { ptr, layout })
    }

    /// Copies the next `len` bytes between a bio's memory and this memory from byte `at` on, in the direction of the
    /// bio.
    pub(crate) fn exchange(&self, bio: &Bio, mut at: usize, mut len: usize) {
        for segment in bio.segments() {
            let piece = len.min(segment.len() as usize);
            assert!(at + piece <= self.len(), "the bio's segments fit the memory");
            let place = self.ptr.wrapping_add(at);
            // SAFETY: the range lies inside this allocation (checked), the segment's memory is valid while the lane
            // has the bio, and the two cannot overlap, because this allocation is exclusively owned.
            unsafe {
                if bio.is_from_device() {
                    std::ptr::copy_nonoverlapping(place, segment.addr(), piece);
                } else {
                    std::ptr::copy_nonoverlapping(segment.addr(), place, piece);
                }
            }
            at += piece;
            len -= piece;
            if len == 0 {
                break;
            }
        }
    }

    /// Copies the first `len` bytes of `from` to this memory, from byte `at` on.
    pub(crate) fn copy_from(&mut self, at: usize, from: &Aligned, len: usize) {
        assert!(at + len <= self.len() && len <= from.len());
        // SAFETY: both parts lie inside their allocations (checked), which are different.
        unsafe { std::ptr::copy_nonoverlapping(from.ptr, self.ptr.wrapping_add(at), len) }
    }

    pub(crate) fn as_ptr(&self) -> *mut u8 {
        self.ptr
    }

    /// Adds the first `len` bytes to a bio.
    ///
    /// # Safety
    /// The memory lives until the bio has completed.
    pub(crate) unsafe fn add_to(&mut self, bio: &mut Bio, len: usize) -> Result<(), Fault> {
        assert!(len <= self.len());
        // SAFETY: inside the allocation, which lives long enough by this function's contract.
        unsafe { add_memory(bio, self.ptr, len, RegionId::NONE) }
    }

    /// Sets the first `len` bytes to zero.
    pub(crate) fn zero(&mut self, len: usize) {
        // SAFETY: inside the allocation.
        unsafe { std::ptr::write_bytes(self.ptr, 0, len.min(self.len())) }
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

/// The first bytes of some aligned memory as the buffer of a bio. It has four words, which a bio's owner stores in
/// place.
pub(crate) struct Window {
    pub(crate) memory: Aligned,
    pub(crate) len: usize,
}

// SAFETY: `Aligned` keeps its allocation in place while the handle moves; it is exclusively owned.
unsafe impl IoBuf for Window {
    fn byte_len(&self) -> usize {
        self.len
    }

    unsafe fn add_segments(&mut self, bio: &mut Bio) -> Result<(), Fault> {
        // SAFETY: the memory goes into the bio's owner next to the segments.
        unsafe { self.memory.add_to(bio, self.len) }
    }
}

// SAFETY: writable, and any byte is a valid value.
unsafe impl IoBufMut for Window {}
