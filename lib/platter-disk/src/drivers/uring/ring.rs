//! The ring itself: requests as its entries, submission, completion, registration.

use super::kernel::Kernel;
use super::place::{self, EXT_ARG, timespec};
use super::regions::Regions;
use crate::drivers::file_target::{Target, rw_flags, zero_mode};
use crate::drivers::iovec::Iovecs;
use io_uring::squeue::Entry;
use io_uring::types::{Fixed, FsyncFlags, SubmitArgs};
use io_uring::{IoUring, opcode};
use platter_block::bio::Op;
use platter_block::driver::Started;
use platter_block::segment::Region;
use platter_block::time::Span;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Number of regions that can be registered with each ring.
pub(super) const BUFFERS: u32 = 64;
/// Largest registered buffer (fact: the kernel accepts 1 GiB).
const LARGEST_BUFFER: u32 = 1 << 30;
/// `IORING_ENTER_GETEVENTS`.
const GETEVENTS: u32 = 1;

/// A ring with its registered files.
pub(super) struct Ring {
    pub(super) ring: IoUring,
    pub(super) kernel: Kernel,
    /// Only for rings with deferred completions: the reading end of a pipe whose only writing end is among the ring's
    /// registered files. It hangs up when the kernel has freed the ring, which it does after the last request.
    pub(super) gone: Option<OwnedFd>,
    /// Its place among the rings of this thread, if it is entered by that and not by its descriptor.
    pub(super) place: Option<u32>,
    /// Not yet enabled: enabling ties the ring to the thread that does it.
    pub(super) disabled: bool,
    /// Completions are posted only when the owner enters the kernel for them.
    pub(super) deferred: bool,
    pub(super) polled: bool,
    pub(super) sqpoll: bool,
    /// Whether regions can be registered.
    pub(super) buffers: bool,
    /// Whether vectored transfers can use them.
    pub(super) vectored_fixed: bool,
}

impl Ring {
    /// Puts an entry on the ring; `false` if it is full.
    ///
    /// # Safety
    /// All memory that the entry names stays valid until its completion was seen or the ring is gone.
    #[inline]
    pub(super) unsafe fn push(&mut self, entry: &Entry) -> bool {
        // SAFETY: by this function's contract.
        unsafe { self.ring.submission().push(entry).is_ok() }
    }

    /// Entries that the kernel has not taken yet.
    #[inline]
    pub(super) fn unsubmitted(&mut self) -> usize {
        self.ring.submission().len()
    }

    /// Submits the entries on the ring; with `post` the same call posts deferred completions. `Ok(false)`: the kernel
    /// lacks resources for some of the entries, which stay on the ring.
    #[inline]
    pub(super) fn submit(&mut self, post: bool) -> io::Result<bool> {
        self.enable()?;
        let flags = if post && (self.deferred || self.polled) { GETEVENTS } else { 0 };
        loop {
            let entries = self.unsubmitted();
            if entries == 0 {
                // Also if the head start has submitted the whole batch.
                return Ok(true);
            }
            match self.enter(entries, 0, flags, None)? {
                Some(taken) if taken == entries => return Ok(true),
                // Without SUBMIT_ALL a bad entry ends the batch: it has its completion, and the rest is submitted
                // next.
                Some(taken) if taken > 0 => {}
                _ => return Ok(false),
            }
        }
    }

    /// Posts completions that only an entry into the kernel brings; `false` if there are none.
    pub(super) fn post(&mut self) -> io::Result<bool> {
        let submission = self.ring.submission();
        let wanted = self.polled || submission.taskrun() || submission.cq_overflow();
        drop(submission);
        if !wanted {
            return Ok(false);
        }
        self.enable()?;
        self.enter(0, 0, GETEVENTS, None)?;
        Ok(true)
    }

    /// Submits, and waits until there is a completion or `timeout` has passed. The result is that of
    /// [`submit`](Ring::submit); without resources it does not wait.
    pub(super) fn wait(&mut self, timeout: Option<Span>) -> io::Result<bool> {
        self.enable()?;
        loop {
            let entries = self.unsubmitted();
            let taken = self.enter(entries, 1, GETEVENTS, timeout)?;
            // The kernel's own submission thread takes the entries later.
            let left = if self.sqpoll { 0 } else { self.unsubmitted() };
            if left == 0 || taken.is_none_or(|taken| taken == 0) {
                return Ok(left == 0);
            }
        }
    }

    /// Waits like [`wait`](Ring::wait) without submitting.
    pub(super) fn wait_only(&mut self, timeout: Option<Span>) -> io::Result<()> {
        self.enable()?;
        self.enter(0, 1, GETEVENTS, timeout).map(drop)
    }

    /// Visits the first `most` posted completions: user data and result.
    #[inline]
    pub(super) fn completions(&mut self, most: usize, mut each: impl FnMut(u64, i32)) {
        for entry in self.ring.completion().take(most) {
            each(entry.user_data(), entry.result());
        }
    }

    /// Whether a completion is posted.
    pub(super) fn has_completions(&mut self) -> bool {
        !self.ring.completion().is_empty()
    }

    /// Registers a region at `place`, which must be free.
    ///
    /// # Errors
    /// The kernel's error: `ENOMEM` if the limit on locked memory is used up.
    pub(super) fn register(&mut self, place: u32, region: &Region) -> io::Result<()> {
        let memory = region.memory;
        if !self.buffers || memory.is_empty() {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        if place >= BUFFERS || memory.len() > LARGEST_BUFFER {
            return Err(io::Error::from_raw_os_error(libc::E2BIG));
        }
        let iovec = libc::iovec { iov_base: memory.addr().cast(), iov_len: memory.len() as usize };
        // SAFETY: the region's memory lives until it has been withdrawn; the kernel also pins its pages.
        unsafe { self.ring.submitter().register_buffers_update(place, &[iovec], None) }
    }

    /// Frees `place`. On a ring with deferred completions only its own thread can do that; another thread leaves the
    /// pages with the ring until the ring is gone, which is harmless because nothing refers to them any more.
    pub(super) fn unregister(&mut self, place: u32) {
        let none = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        // SAFETY: names no memory.
        let _ = unsafe { self.ring.submitter().register_buffers_update(place, &[none], None) };
    }

    #[inline]
    pub(super) fn enable(&mut self) -> io::Result<()> {
        if self.disabled {
            self.ring.submitter().register_enable_rings()?;
            self.disabled = false;
        }
        Ok(())
    }

    /// Enters the kernel. `None`: it lacks resources at the moment, the time has passed or a signal arrived.
    #[inline]
    fn enter(
        &self,
        submit: usize,
        complete: u32,
        flags: u32,
        timeout: Option<Span>,
    ) -> io::Result<Option<usize>> {
        if let Some(place) = self.place {
            return later(place::enter(place, submit, complete, flags, timeout));
        }
        let submitter = self.ring.submitter();
        later(self.kernel.enter(|| {
            if self.sqpoll {
                // The io-uring library checks whether the kernel's thread sleeps.
                return match (complete, timeout) {
                    (0, _) => submitter.submit(),
                    (_, None) => submitter.submit_and_wait(1),
                    (_, Some(span)) => {
                        submitter.submit_with_args(1, &SubmitArgs::new().timespec(&timespec(span)))
                    }
                };
            }
            match timeout {
                // SAFETY: submits the entries put on the ring by `push`, under its contract, and names no memory.
                None => unsafe { submitter.enter::<libc::sigset_t>(submit as u32, complete, flags, None) },
                Some(span) => {
                    let time = timespec(span);
                    let arguments = SubmitArgs::new().timespec(&time);
                    let flags = flags | EXT_ARG;
                    // SAFETY: as above; the time lives until the call returns.
                    unsafe { submitter.enter(submit as u32, complete, flags, Some(&arguments)) }
                }
            }
        }))
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as the ring exists.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }
}

/// `None` for errors that pass: interrupted, time over, no memory for requests at the moment, unread completions in
/// the way.
#[inline]
fn later(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(count) => Ok(Some(count)),
        Err(error) => match error.raw_os_error() {
            Some(libc::EINTR | libc::ETIME | libc::EAGAIN | libc::EBUSY | libc::ENOMEM) => Ok(None),
            _ => Err(error),
        },
    }
}

/// Indices of the registered files.
const DISK: Fixed = Fixed(0);
const FLUSHED: Fixed = Fixed(1);

/// The files that a ring must register, in this order.
pub(super) fn files(target: &Target) -> [i32; 2] {
    [target.disk.fd.as_raw_fd(), target.flushed().as_raw_fd()]
}

/// The entry for the first `len` bytes of a request: a single segment directly, from its registered buffer if it lies
/// in one; several as an array.
#[inline]
pub(super) fn entry(
    request: &Started<'_>,
    len: u64,
    target: &Target,
    regions: &mut Regions,
    list: &mut Iovecs,
) -> Entry {
    match request.op {
        Op::Read | Op::Write => {
            let transfer = Transfer {
                write: request.op == Op::Write,
                pos: request.pos,
                ioprio: request.ioprio.raw(),
                flags: rw_flags(request),
            };
            match request.single_segment() {
                Some(segment) => {
                    let len = u64::from(segment.len()).min(len) as u32;
                    // The kernel accepts no atomic writes from registered memory.
                    match if request.atomic { None } else { regions.find(&segment) } {
                        Some(place) => transfer.fixed(segment.addr(), len, place),
                        None => transfer.plain(segment.addr(), len),
                    }
                }
                None => {
                    let region = list.fill(request, len);
                    match regions.find_for_vector(region) {
                        Some(place) => transfer.vector_fixed(list, place),
                        None => transfer.vector(list),
                    }
                }
            }
        }
        Op::Flush => opcode::Fsync::new(FLUSHED).flags(FsyncFlags::DATASYNC).build(),
        // Discards of block devices are not submitted here.
        // Commands go to the threads, which refuse them.
        Op::Discard | Op::WriteZeroes | Op::Command => opcode::Fallocate::new(DISK, request.len)
            .offset(request.pos)
            .mode(zero_mode(target.is_block))
            .build(),
    }
}

struct Transfer {
    write: bool,
    pos: u64,
    ioprio: u16,
    flags: i32,
}

/// The same operation in its read and write form, with the same fields set.
macro_rules! build {
    ($self:ident, $read:ident, $write:ident, ($($argument:expr),*)) => {
        if $self.write {
            let op = opcode::$write::new(DISK, $($argument),*);
            op.offset($self.pos).ioprio($self.ioprio).rw_flags($self.flags).build()
        } else {
            let op = opcode::$read::new(DISK, $($argument),*);
            op.offset($self.pos).ioprio($self.ioprio).rw_flags($self.flags).build()
        }
    };
}

impl Transfer {
    #[inline]
    fn fixed(&self, addr: *mut u8, len: u32, place: u16) -> Entry {
        build!(self, ReadFixed, WriteFixed, (addr, len, place))
    }

    #[inline]
    fn plain(&self, addr: *mut u8, len: u32) -> Entry {
        build!(self, Read, Write, (addr, len))
    }

    fn vector(&self, list: &Iovecs) -> Entry {
        let list = list.as_slice();
        build!(self, Readv, Writev, (list.as_ptr(), list.len() as u32))
    }

    fn vector_fixed(&self, list: &Iovecs, place: u16) -> Entry {
        let list = list.as_slice();
        build!(self, ReadvFixed, WritevFixed, (list.as_ptr(), list.len() as u32, place))
    }
}
