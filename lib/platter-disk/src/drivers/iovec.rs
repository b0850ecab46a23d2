//! Requests in the kernel's form: arrays of `iovec`, one for each slot.

use platter_block::driver::Started;
use platter_block::segment::{RegionId, Segment};

/// Most entries of one system call (`IOV_MAX`). A longer list is cut here: the transfer is then short, and the queue
/// sends the rest.
const IOV_MAX: usize = 1024;

/// The `iovec` array of a request. It keeps its memory from one request to the next, and is not changed while the
/// kernel may use it.
#[derive(Default)]
pub(super) struct Iovecs(Vec<libc::iovec>);

// SAFETY: addresses and lengths, like the segments that they are made of: the maker of a segment promised
// that its memory may be used from any thread until the request has completed.
unsafe impl Send for Iovecs {}

impl Iovecs {
    /// Stores the first `len` bytes of a request's segments. Returns the region of the segments, if all belong to the
    /// same one.
    #[inline]
    pub(super) fn fill(&mut self, request: &Started<'_>, len: u64) -> RegionId {
        self.0.clear();
        let (mut region, mut left) = (None, len);
        request.for_each_segment(|segment| {
            let segment = segment.slice(0, u32::try_from(left).unwrap_or(u32::MAX));
            left -= u64::from(segment.len());
            if self.0.len() < IOV_MAX && !segment.is_empty() {
                self.0.push(iovec(segment));
                let common = *region.get_or_insert(segment.region());
                region = Some(if common == segment.region() { common } else { RegionId::NONE });
            }
        });
        region.unwrap_or(RegionId::NONE)
    }

    /// Stores one piece of memory.
    pub(super) fn set_single(&mut self, memory: *mut u8, len: usize) {
        self.0.clear();
        self.0.push(libc::iovec { iov_base: memory.cast(), iov_len: len });
    }

    /// Bytes in all entries.
    pub(super) fn bytes(&self) -> u64 {
        self.0.iter().map(|entry| entry.iov_len as u64).sum()
    }

    /// Copies the first `len` bytes.
    ///
    /// # Safety
    /// The request is in flight with the caller, and `memory` has `len` bytes that are not part of the request's
    /// memory.
    pub(super) unsafe fn copy_to(&self, memory: *mut u8, len: usize) {
        let mut done = 0;
        for entry in &self.0 {
            let piece = entry.iov_len.min(len - done);
            // SAFETY: the maker of the segment promised memory that is valid for reads while the request is in
            // flight; the rest follows from this function's contract.
            unsafe {
                std::ptr::copy_nonoverlapping(entry.iov_base.cast::<u8>(), memory.wrapping_add(done), piece);
            }
            done += piece;
        }
    }

    /// The entries.
    pub(super) fn as_slice(&self) -> &[libc::iovec] {
        &self.0
    }
}

fn iovec(segment: Segment) -> libc::iovec {
    libc::iovec { iov_base: segment.addr().cast(), iov_len: segment.len() as usize }
}
