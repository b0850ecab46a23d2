//! The memory of a command.

#![allow(unsafe_code)]

use platter_block::driver::Started;

/// The memory of a command: that of a request in flight, or bytes of its own. The list stays where it is, since libiscsi keeps
/// its address.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    list: Vec<libc::iovec>,
    own: Vec<u8>,
}

// SAFETY: addresses and lengths. Those of a request are of segments, whose maker promised that their memory may be used from
// any thread until the request has completed; the others are of bytes that go with them.
unsafe impl Send for Buffers {}

impl Buffers {
    /// Takes the segments of a request.
    ///
    /// # Safety
    /// Until [`Buffers::clear`] the request is in flight with the caller, so that its memory may be used as its operation
    /// says: read for a write, written for a read.
    pub(super) unsafe fn lend(&mut self, request: &Started<'_>) {
        self.clear();
        request.for_each_segment(|segment| {
            let (base, len) = (segment.addr().cast(), segment.len() as usize);
            self.list.push(libc::iovec { iov_base: base, iov_len: len });
        });
    }

    /// Bytes to send, or that are written over by what comes.
    pub(super) fn own(bytes: Vec<u8>) -> Buffers {
        let mut buffers = Buffers { list: Vec::new(), own: bytes };
        let (base, len) = (buffers.own.as_mut_ptr().cast(), buffers.own.len());
        if len > 0 {
            buffers.list.push(libc::iovec { iov_base: base, iov_len: len });
        }
        buffers
    }

    pub(super) fn clear(&mut self) {
        self.list.clear();
        self.own = Vec::new();
    }

    /// The list, and how many entries it has.
    pub(super) fn list(&mut self) -> (*mut libc::iovec, usize) {
        (self.list.as_mut_ptr(), self.list.len())
    }

    /// Length of all.
    pub(super) fn bytes(&self) -> usize {
        self.list.iter().map(|entry| entry.iov_len).sum()
    }

    /// The bytes of its own, as far as `len`.
    pub(super) fn into_own(mut self, len: usize) -> Vec<u8> {
        self.own.truncate(len);
        self.own
    }
}
