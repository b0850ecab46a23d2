//! The memory of requests in flight, and the calls that move it to and from a socket.

#![allow(unsafe_code)]

use platter_block::driver::Started;
use platter_block::segment::Segment;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Most pieces of memory of one system call (`IOV_MAX`).
const IOV_MAX: usize = 1024;

/// The segments of a request. Keeps its list from one request to the next.
#[derive(Default)]
pub(super) struct Memory(Vec<libc::iovec>);

// SAFETY: addresses and lengths, like the segments that they are made of: the maker of a segment promised that its
// memory may be used from any thread until the request has completed.
unsafe impl Send for Memory {}

impl Memory {
    /// Takes the segments of a request.
    ///
    /// # Safety
    /// Until [`clear`](Memory::clear) the request is in flight with the caller, so that its memory may be used as
    /// its operation says: read for a write, written for a read.
    pub(super) unsafe fn fill(&mut self, request: &Started<'_>) {
        self.0.clear();
        request.for_each_segment(|segment| self.0.push(iovec(segment)));
    }

    /// Takes one piece of memory.
    ///
    /// # Safety
    /// Until [`clear`](Memory::clear) `bytes` stay where they are and are not changed, and the memory is only read.
    pub(super) unsafe fn fill_with(&mut self, bytes: &[u8]) {
        self.0.clear();
        self.0.push(libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() });
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Visits the pieces of `[at, at + len)`.
    fn for_each(&self, at: usize, len: usize, mut each: impl FnMut(*mut u8, usize)) {
        let (mut skip, mut left) = (at, len);
        for entry in &self.0 {
            if left == 0 {
                return;
            }
            let from = skip.min(entry.iov_len);
            skip -= from;
            let piece = (entry.iov_len - from).min(left);
            if piece > 0 {
                each(entry.iov_base.cast::<u8>().wrapping_add(from), piece);
                left -= piece;
            }
        }
        assert_eq!(left, 0, "the range lies in the request");
    }

    /// Copies `bytes`, which a read has received, to offset `at` of the request.
    pub(super) fn scatter(&self, at: usize, mut bytes: &[u8]) {
        self.for_each(at, bytes.len(), |memory, len| {
            let (now, rest) = bytes.split_at(len);
            bytes = rest;
            // SAFETY: by the contract of `fill` the memory may be written; `now` belongs to the caller.
            unsafe { std::ptr::copy_nonoverlapping(now.as_ptr(), memory, len) }
        });
    }

    /// Sets a range of a read to zero.
    pub(super) fn zero(&self, at: usize, len: usize) {
        self.for_each(at, len, |memory, len| {
            // SAFETY: as in `scatter`.
            unsafe { std::ptr::write_bytes(memory, 0, len) }
        });
    }

    /// A copy of the memory of a write of `len` bytes.
    pub(super) fn copy(&self, len: usize) -> Vec<u8> {
        let mut copy = Vec::with_capacity(len);
        self.for_each(0, len, |memory, len| {
            // SAFETY: by the contract of `fill` the memory may be read.
            copy.extend_from_slice(unsafe { std::slice::from_raw_parts(memory, len) });
        });
        copy
    }
}

fn iovec(segment: Segment) -> libc::iovec {
    libc::iovec { iov_base: segment.addr().cast(), iov_len: segment.len() as usize }
}

/// A list of memory for one system call. It is empty between calls.
#[derive(Default)]
pub(super) struct Batch {
    list: Vec<libc::iovec>,
    bytes: usize,
}

// SAFETY: empty between calls, so that no address crosses threads.
unsafe impl Send for Batch {}

impl Batch {
    pub(super) fn is_full(&self) -> bool {
        self.list.len() >= IOV_MAX
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn push(&mut self, base: *mut u8, len: usize) {
        if len > 0 && !self.is_full() {
            self.list.push(libc::iovec { iov_base: base.cast(), iov_len: len });
            self.bytes += len;
        }
    }

    /// Adds a range of a request.
    pub(super) fn push_memory(&mut self, memory: &Memory, at: usize, len: usize) {
        memory.for_each(at, len, |base, len| self.push(base, len));
    }

    /// Adds bytes to send.
    ///
    /// # Safety
    /// They stay where they are until the list is sent.
    pub(super) unsafe fn push_bytes(&mut self, bytes: &[u8]) {
        self.push(bytes.as_ptr().cast_mut(), bytes.len());
    }

    /// Sends the list, or a part of it, without blocking. The list is empty afterwards.
    pub(super) fn send(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let message = self.message();
        // SAFETY: the list has valid entries: those of requests in flight, and bytes that their owners keep where they
        // are; the kernel only reads them.
        let sent = unsafe {
            libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
        };
        self.end();
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// Copies the list to `to` as far as that takes it. The list is empty afterwards.
    #[cfg(feature = "tls")]
    pub(super) fn copy_to(&mut self, to: &mut dyn io::Write) -> io::Result<usize> {
        let (mut all, mut result) = (0, Ok(0));
        for entry in &self.list {
            // SAFETY: as in `send`; nothing writes the memory while the request is in flight.
            let bytes = unsafe { std::slice::from_raw_parts(entry.iov_base.cast::<u8>(), entry.iov_len) };
            result = to.write(bytes);
            all += *result.as_ref().unwrap_or(&0);
            if !matches!(result, Ok(count) if count == bytes.len()) {
                break;
            }
        }
        self.end();
        if all > 0 { Ok(all) } else { result }
    }

    /// Calls `fill` with the list, which ends with `input`. The list is empty afterwards.
    #[cfg(feature = "tls")]
    pub(super) fn with_input<T>(&mut self, input: &mut [u8], fill: impl FnOnce(&Batch) -> T) -> T {
        if !self.is_full() {
            self.push(input.as_mut_ptr(), input.len());
        }
        let result = fill(self);
        self.end();
        result
    }

    /// Fills the list from `from`, until it is full or there is nothing more. The list stays.
    #[cfg(feature = "tls")]
    pub(super) fn fill(&self, from: &mut impl io::BufRead) -> io::Result<usize> {
        let mut all = 0;
        for entry in &self.list {
            let mut at = 0;
            while at < entry.iov_len {
                let bytes = match from.fill_buf() {
                    Ok([]) => return Ok(all),
                    Ok(bytes) => bytes,
                    Err(_) if all > 0 => return Ok(all),
                    Err(error) => return Err(error),
                };
                let count = bytes.len().min(entry.iov_len - at);
                // SAFETY: the entry is memory that may be written, as in `receive`; `bytes` belong to the source.
                unsafe {
                    let to = entry.iov_base.cast::<u8>().wrapping_add(at);
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, count);
                }
                from.consume(count);
                (at, all) = (at + count, all + count);
            }
        }
        Ok(all)
    }

    /// Receives into the list, and what is left into `input`, without blocking. The list is empty afterwards.
    pub(super) fn receive(&mut self, socket: BorrowedFd<'_>, input: &mut [u8]) -> io::Result<usize> {
        if !self.is_full() {
            self.push(input.as_mut_ptr(), input.len());
        }
        let mut message = self.message();
        // SAFETY: the list has the memory of reads in flight, which may be written, and `input`, which is borrowed
        // exclusively for the call.
        let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
        self.end();
        usize::try_from(received).map_err(|_| io::Error::last_os_error())
    }

    fn message(&mut self) -> libc::msghdr {
        // SAFETY: all zeroes is a valid header: no address, no list, no control data.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = self.list.as_mut_ptr();
        message.msg_iovlen = self.list.len() as _;
        message
    }

    fn end(&mut self) {
        self.list.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_cross_segments() {
        let mut parts = [[0u8; 4], [0; 4], [0; 4]];
        let mut memory = Memory::default();
        for part in &mut parts {
            memory.0.push(libc::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: 4 });
        }
        memory.scatter(3, &[1, 2, 3, 4, 5, 6]);
        memory.zero(5, 1);
        assert_eq!(memory.copy(12), [0, 0, 0, 1, 2, 0, 4, 5, 6, 0, 0, 0]);
        let mut batch = Batch::default();
        batch.push_memory(&memory, 3, 6);
        assert_eq!((batch.list.len(), batch.bytes()), (3, 6));
        memory.clear();
        assert_eq!(memory.copy(0), b"");
    }
}
