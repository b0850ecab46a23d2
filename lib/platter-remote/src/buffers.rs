//! The memory of a command.

#![allow(unsafe_code)]

use crate::slots::Kept;
use platter_block::driver::Started;

/// The memory of a command: that of a request in flight, or bytes of its own. The list stays where it is, since the kernel or
/// libiscsi keeps its address.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    list: Vec<libc::iovec>,
    own: Vec<u8>,
}

// SAFETY: addresses and lengths. Those of a request are of segments, whose maker promised that their memory may be used from
// any thread until the request has completed; the others are of bytes that go with them.
unsafe impl Send for Buffers {}

/// Where memory is: `len` bytes at `addr`, or a list of `len` pieces.
#[cfg(any(feature = "sg", feature = "nvme-disk"))]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    pub(crate) addr: usize,
    pub(crate) len: usize,
    pub(crate) is_list: bool,
}

impl Kept for Buffers {
    // SAFETY: only notes addresses; the caller promises that the memory may be used.
    unsafe fn lend(&mut self, request: &Started<'_>) {
        request.for_each_segment(|segment| {
            let (base, len) = (segment.addr().cast(), segment.len() as usize);
            self.list.push(libc::iovec { iov_base: base, iov_len: len });
        });
    }

    fn clear(&mut self) {
        self.list.clear();
        self.own = Vec::new();
    }
}

impl Buffers {
    /// Bytes to send, or that are written over by what comes.
    pub(crate) fn own(bytes: Vec<u8>) -> Buffers {
        let mut buffers = Buffers { list: Vec::new(), own: bytes };
        let (base, len) = (buffers.own.as_mut_ptr().cast(), buffers.own.len());
        if len > 0 {
            buffers.list.push(libc::iovec { iov_base: base, iov_len: len });
        }
        buffers
    }

    /// What names the memory in a structure of the kernel.
    #[cfg(any(feature = "sg", feature = "nvme-disk"))]
    pub(crate) fn place(&mut self) -> Place {
        match &mut self.list[..] {
            [] => Place::default(),
            [one] => Place { addr: one.iov_base.expose_provenance(), len: one.iov_len, is_list: false },
            many => Place { addr: many.as_mut_ptr().expose_provenance(), len: many.len(), is_list: true },
        }
    }

    /// The list, and how many entries it has.
    #[cfg(feature = "iscsi")]
    pub(crate) fn list(&mut self) -> (*mut libc::iovec, usize) {
        (self.list.as_mut_ptr(), self.list.len())
    }

    /// Length of all.
    #[cfg(any(feature = "iscsi", feature = "sg"))]
    pub(crate) fn bytes(&self) -> usize {
        self.list.iter().map(|entry| entry.iov_len).sum()
    }

    #[cfg(feature = "sg")]
    pub(crate) fn own_bytes(&self) -> &[u8] {
        &self.own
    }

    /// The bytes of its own, as far as `len`.
    #[cfg(feature = "iscsi")]
    pub(crate) fn into_own(mut self, len: usize) -> Vec<u8> {
        self.own.truncate(len);
        self.own
    }
}
