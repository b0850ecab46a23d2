//! Requests as the kernel takes them: arrays of `iovec`, one for each slot.

use platter_block::driver::Started;
use platter_block::segment::{RegionId, Segment};

/// Most entries that one system call takes (`IOV_MAX`). A longer list is cut here: the transfer is then
/// short, and the queue sends the rest.
const IOV_MAX: usize = 1024;

/// The `iovec` array of a request. It keeps its memory from one request to the next, and is
/// not touched while the kernel may look at it.
#[derive(Default)]
pub(super) struct Iovecs(Vec<libc::iovec>);

// SAFETY: addresses and lengths, like the segments that they are made of: the maker of a segment promised
// that its memory may be used from any thread until the request has completed.
unsafe impl Send for Iovecs {}

impl Iovecs {
    /// Takes the segments of a request. Gives back the region that all of them belong to, if they do.
    #[inline]
    pub(super) fn fill(&mut self, request: &Started<'_>) -> RegionId {
        self.0.clear();
        let mut region = None;
        request.for_each_segment(|segment| {
            if self.0.len() < IOV_MAX {
                self.0.push(iovec(segment));
                let common = *region.get_or_insert(segment.region());
                region = Some(if common == segment.region() { common } else { RegionId::NONE });
            }
        });
        region.unwrap_or(RegionId::NONE)
    }

    /// The entries.
    pub(super) fn as_slice(&self) -> &[libc::iovec] {
        &self.0
    }
}

fn iovec(segment: Segment) -> libc::iovec {
    libc::iovec { iov_base: segment.addr().cast(), iov_len: segment.len() as usize }
}
