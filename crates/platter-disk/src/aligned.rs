//! Aligned memory for transfers that cannot use the caller's memory directly.

#![allow(unsafe_code)]

use platter_block::bio::{Bio, Op};
use platter_block::buf::{IoBuf, IoBufMut, add_memory};
use platter_block::defect::{self, Defect};
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
                if bio.op() == Op::Read {
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
    fn zero(&mut self, len: usize) {
        // SAFETY: inside the allocation.
        unsafe { std::ptr::write_bytes(self.ptr, 0, len.min(self.len())) }
    }

    pub(crate) fn len(&self) -> usize {
        self.layout.size()
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

    fn add_segments(&mut self, bio: &mut Bio) -> Result<(), Fault> {
        // SAFETY: the memory goes into the bio's owner next to the segments.
        unsafe { self.memory.add_to(bio, self.len) }
    }
}

// SAFETY: writable, and any byte is a valid value.
unsafe impl IoBufMut for Window {}

/// Most bytes of memory kept for reuse.
const KEEP: usize = 1 << 20;

/// Aligned memory that is reused.
#[derive(Default)]
pub(crate) struct Buffers {
    list: Vec<Aligned>,
    /// Bytes of all buffers in `list`.
    kept: usize,
}

impl Buffers {
    /// The smallest kept buffer that is large enough, or a new one. For a read its first `len` bytes are zeroed: a
    /// driver may complete a read without touching memory (`null`), and data of an earlier I/O must not be seen. Data
    /// to be written is copied over them in any case.
    pub(crate) fn take(&mut self, op: Op, len: usize, align: usize) -> Option<Aligned> {
        let fits = |buffer: &Aligned| buffer.len() >= len && buffer.layout.align() >= align;
        let all = self.list.iter().enumerate().filter(|(_, buffer)| fits(buffer));
        let Some((at, _)) = all.min_by_key(|(_, buffer)| buffer.len()) else {
            return Aligned::new(len, align);
        };
        let mut buffer = self.list.swap_remove(at);
        self.kept -= buffer.len();
        if op == Op::Read && !defect::is_on(Defect::CopiesShowOthers) {
            buffer.zero(len);
        }
        Some(buffer)
    }

    /// Keeps a buffer for reuse, if there is room.
    pub(crate) fn keep(&mut self, buffer: Aligned) {
        if self.kept + buffer.len() <= KEEP {
            self.kept += buffer.len();
            self.list.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_used_again_shows_nothing_of_its_last_use() {
        let mut buffers = Buffers::default();
        let memory = buffers.take(Op::Write, 4096, 512).unwrap();
        let data = Bio::write(0, vec![0x53u8; 4096]).unwrap();
        memory.exchange(&data, 0, 4096);
        let address = memory.ptr;
        buffers.keep(memory);
        let memory = buffers.take(Op::Read, 1000, 512).unwrap();
        assert_eq!(memory.ptr, address, "it is the same memory");
        let mut back = Bio::read(0, vec![1u8; 1000]).unwrap();
        memory.exchange(&back, 0, 1000);
        assert_eq!(back.take_buffer(), Some(vec![0u8; 1000]));
    }

    #[test]
    fn only_so_much_is_kept_and_alignment_counts() {
        let mut buffers = Buffers::default();
        for _ in 0..3 {
            buffers.keep(Aligned::new(KEEP / 2, 512).unwrap());
        }
        assert_eq!((buffers.list.len(), buffers.kept), (2, KEEP));
        assert_eq!(
            buffers.take(Op::Read, 100, 4096).unwrap().len(),
            100,
            "those that are kept are aligned to 512"
        );
        assert_eq!(buffers.take(Op::Read, 100, 512).unwrap().len(), KEEP / 2);
    }
}
