//! Aligned memory of a bounce.

#![allow(unsafe_code)]

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
