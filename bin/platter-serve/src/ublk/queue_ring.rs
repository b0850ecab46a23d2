//! A queue of the driver: a ring for its commands, the descriptors of its requests, and their data.

#![allow(unsafe_code)]

use super::abi::{DESCRIPTOR, IO_COMMAND, Request, data_at, descriptors_at, io};
use super::port::Port;
use io_uring::{IoUring, opcode, types};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::Arc;

/// Mapped memory.
struct Mapping {
    start: *mut u8,
    bytes: usize,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with these bounds, and what points into it lives in the structure that ends with it.
        // Failing, it stays mapped.
        let _ = unsafe { munmap(self.start.cast(), self.bytes) };
    }
}

/// A queue. It belongs to the thread that makes it: the driver takes commands from no other.
pub(super) struct QueueRing {
    device: Arc<OwnedFd>,
    ring: IoUring,
    queue: u16,
    depth: u16,
    descriptors: Mapping,
    /// Where the kernel copies data from and to, `max_io_bytes` for each tag. `None`: user copy.
    buffers: Option<Mapping>,
    max_io_bytes: usize,
    /// Tags that the driver has taken back.
    ended: u16,
    /// The driver has refused a command, so a request has no answer.
    failed: Result<(), Errno>,
    /// Commands on the ring that the kernel has not taken.
    waiting: usize,
}

impl QueueRing {
    /// Opens a queue and offers all its tags to the driver.
    ///
    /// # Errors
    /// There is no memory, or the driver refuses.
    pub(super) fn new(
        device: Arc<OwnedFd>,
        queue: u16,
        depth: u16,
        max_io_bytes: usize,
        copies: bool,
    ) -> Result<QueueRing, Errno> {
        let ring = IoUring::new(u32::from(depth).next_power_of_two())
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        let bytes = (usize::from(depth) * DESCRIPTOR).next_multiple_of(rustix::param::page_size());
        let (read, shared) = (ProtFlags::READ, MapFlags::SHARED | MapFlags::POPULATE);
        // SAFETY: the kernel chooses the address. The driver only adds to what is mapped when it hands a request over.
        let start = unsafe { mmap(ptr::null_mut(), bytes, read, shared, &*device, descriptors_at(queue))? };
        let descriptors = Mapping { start: start.cast(), bytes };
        let buffers = if copies {
            None
        } else {
            let (bytes, both) = (usize::from(depth) * max_io_bytes, ProtFlags::READ | ProtFlags::WRITE);
            // SAFETY: the kernel chooses the address, and nothing else uses the memory.
            let start = unsafe { mmap_anonymous(ptr::null_mut(), bytes, both, MapFlags::PRIVATE)? };
            Some(Mapping { start: start.cast(), bytes })
        };
        let mut queue = QueueRing {
            device,
            ring,
            queue,
            depth,
            descriptors,
            buffers,
            max_io_bytes,
            ended: 0,
            failed: Ok(()),
            waiting: 0,
        };
        for tag in 0..depth {
            queue.push(io::FETCH, tag, 0);
        }
        // What the driver refuses has its completion at once.
        if queue.turn(&mut Vec::new())? { Ok(queue) } else { Err(Errno::NODEV) }
    }

    /// The memory of a tag that the kernel copies from and to, for at most `bytes` bytes.
    fn buffer(&self, tag: u16, bytes: usize) -> Option<*mut u8> {
        let buffers = self.buffers.as_ref()?;
        assert!(
            tag < self.depth && bytes <= self.max_io_bytes,
            "the kernel keeps to the limits it was given"
        );
        Some(buffers.start.wrapping_add(usize::from(tag) * self.max_io_bytes))
    }

    fn push(&mut self, op: u32, tag: u16, result: i32) {
        let address = self.buffer(tag, 0).map_or(0, |address| address as u64);
        let mut command = [0; IO_COMMAND];
        command[..2].copy_from_slice(&self.queue.to_ne_bytes());
        command[2..4].copy_from_slice(&tag.to_ne_bytes());
        command[4..8].copy_from_slice(&result.to_ne_bytes());
        command[8..].copy_from_slice(&address.to_ne_bytes());
        let entry = opcode::UringCmd16::new(types::Fd(self.device.as_raw_fd()), op).cmd(command).build();
        // SAFETY: the device is open as long as the ring. The address, if any, is that of memory which stays mapped
        // while the driver has the tag, and which this thread does not touch until the tag has come back.
        let is_pushed = unsafe { self.ring.submission().push(&entry.user_data(u64::from(tag))).is_ok() };
        assert!(is_pushed, "the ring has room for all tags");
        self.waiting += 1;
    }

    fn submit(&mut self) -> Result<(), Errno> {
        while self.waiting > 0 {
            match self.ring.submit() {
                Ok(taken) => self.waiting -= taken.min(self.waiting),
                Err(error) => match Errno::from_io_error(&error).unwrap_or(Errno::IO) {
                    Errno::INTR | Errno::AGAIN | Errno::BUSY => {}
                    error => return Err(error),
                },
            }
        }
        Ok(())
    }
}

impl Port for QueueRing {
    fn turn(&mut self, arrived: &mut Vec<u16>) -> Result<bool, Errno> {
        self.submit()?;
        for done in self.ring.completion() {
            match done.result() {
                0 => arrived.push(done.user_data() as u16),
                error => {
                    self.ended += 1;
                    let error = Errno::from_raw_os_error(-error);
                    if error != Errno::NODEV {
                        self.failed = Err(error);
                    }
                }
            }
        }
        self.failed.map(|()| self.ended < self.depth)
    }

    fn request(&self, tag: u16) -> Request {
        assert!(tag < self.depth, "the driver gives back the tags that it has");
        let at = self.descriptors.start.wrapping_add(usize::from(tag) * DESCRIPTOR);
        // SAFETY: the descriptor lies in the mapping, which is aligned to a page, at a multiple of its size, and so of
        // 8. The driver wrote it before the completion of the tag, and does not change it before the answer.
        let (op_and_flags, sectors, start) = unsafe {
            let words = at.cast::<u32>();
            (words.read_volatile(), words.add(1).read_volatile(), at.add(8).cast::<u64>().read_volatile())
        };
        Request::new(op_and_flags, sectors, start)
    }

    fn take_data(&mut self, tag: u16, data: &mut [u8]) -> Result<(), Errno> {
        if let Some(buffer) = self.buffer(tag, data.len()) {
            // SAFETY: the memory belongs to the tag, which this thread has, and has as many bytes; the kernel does not
            // touch it meanwhile, and `data` is other memory.
            unsafe { ptr::copy_nonoverlapping(buffer, data.as_mut_ptr(), data.len()) };
            return Ok(());
        }
        let mut at = 0;
        while at < data.len() {
            let from = data_at(self.queue, tag) + at as u64;
            match rustix::io::pread(&*self.device, &mut data[at..], from) {
                Ok(0) => return Err(Errno::IO),
                Ok(bytes) => at += bytes,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn give_data(&mut self, tag: u16, data: &[u8]) -> Result<(), Errno> {
        if let Some(buffer) = self.buffer(tag, data.len()) {
            // SAFETY: as for `take_data`.
            unsafe { ptr::copy_nonoverlapping(data.as_ptr(), buffer, data.len()) };
            return Ok(());
        }
        let mut at = 0;
        while at < data.len() {
            let to = data_at(self.queue, tag) + at as u64;
            match rustix::io::pwrite(&*self.device, &data[at..], to) {
                Ok(0) => return Err(Errno::IO),
                Ok(bytes) => at += bytes,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn answer(&mut self, tag: u16, result: i32) {
        self.push(io::COMMIT_AND_FETCH, tag, result);
    }

    fn descriptor(&self) -> RawFd {
        self.ring.as_raw_fd()
    }
}

impl Drop for QueueRing {
    fn drop(&mut self) {
        if self.ended < self.depth {
            // The driver may still copy to the tags that it has, so their memory is never used for anything else.
            self.buffers.take().into_iter().for_each(std::mem::forget);
        }
    }
}
