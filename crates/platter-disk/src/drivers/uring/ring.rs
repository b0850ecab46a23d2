//! The ring itself: set-up, submission, completion, registration.

use io_uring::squeue::Entry;
use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{IoUring, opcode};
use platter_block::segment::Region;
use platter_block::time::Span;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use super::super::bell::wait_readable;
use super::UringOptions;

/// Places for registered regions in each ring.
const BUFFERS: u32 = 64;
/// Largest registered buffer (fact: the kernel takes 1 GiB).
const LARGEST_BUFFER: u32 = 1 << 30;
/// `IORING_ENTER_GETEVENTS`.
const GETEVENTS: u32 = 1;
/// Milliseconds until the kernel's submission thread goes to sleep.
const SQPOLL_IDLE_MS: u32 = 50;

/// A ring with its registered files.
pub(super) struct Ring {
    ring: IoUring,
    /// Reading end of a pipe whose only writing end is among the ring's registered files. It hangs up when
    /// the kernel has let go of the ring, which it does when the last request is done.
    gone: OwnedFd,
    /// Not yet enabled: that ties the ring to the thread which does it.
    disabled: bool,
    /// Completions are posted only when the owner enters the kernel for them.
    pub(super) deferred: bool,
    polled: bool,
    sqpoll: bool,
    /// Regions can be registered.
    buffers: bool,
    /// Vectored transfers can use them (Linux 6.15).
    pub(super) vectored_fixed: bool,
}

impl Ring {
    /// A ring for `entries` requests at a time on `files`, registered in this order from 0 on.
    pub(super) fn new(entries: u32, files: &[RawFd], options: &UringOptions) -> io::Result<Ring> {
        let (ring, deferred) = build(entries, options)?;
        let (gone, held) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let submitter = ring.submitter();
        let mut all = files.to_vec();
        all.push(held.as_raw_fd());
        submitter.register_files(&all)?;
        drop(held);
        let buffers = submitter.register_buffers_sparse(BUFFERS).is_ok();
        let mut probe = io_uring::Probe::new();
        let known = submitter.register_probe(&mut probe).is_ok();
        Ok(Ring {
            vectored_fixed: known && probe.is_supported(opcode::ReadvFixed::CODE),
            gone,
            disabled: deferred,
            deferred,
            polled: options.iopoll,
            sqpoll: options.sqpoll,
            buffers,
            ring,
        })
    }

    /// Puts an entry on the ring; `false` when it is full.
    ///
    /// # Safety
    /// All that the entry names stays valid until its completion was seen or the ring is gone.
    #[inline]
    pub(super) unsafe fn push(&mut self, entry: &Entry) -> bool {
        // SAFETY: by this function's contract.
        unsafe { self.ring.submission().push(entry).is_ok() }
    }

    /// Entries that the kernel has not taken yet.
    pub(super) fn unsubmitted(&mut self) -> usize {
        self.ring.submission().len()
    }

    /// Hands over what was put on the ring, in one system call. `Ok(false)`: the kernel wants to be asked
    /// again later.
    pub(super) fn submit(&mut self) -> io::Result<bool> {
        self.enable()?;
        if self.sqpoll {
            return Ok(later(self.ring.submit())?.is_some());
        }
        let entries = self.ring.submission().len();
        // With deferred completions the same call posts those that are there.
        let flags = if self.deferred || self.polled { GETEVENTS } else { 0 };
        Ok(self.enter(entries as u32, flags)? == Some(entries))
    }

    /// Hands over what was put on the ring, and posts nothing: more follows. The result is that of
    /// [`submit`](Ring::submit).
    pub(super) fn submit_ahead(&mut self) -> io::Result<bool> {
        self.enable()?;
        if self.sqpoll {
            return Ok(later(self.ring.submit())?.is_some());
        }
        let entries = self.ring.submission().len();
        Ok(self.enter(entries as u32, 0)? == Some(entries))
    }

    /// Posts completions that only an entry into the kernel brings; `false` when there are none.
    pub(super) fn post(&mut self) -> io::Result<bool> {
        let submission = self.ring.submission();
        let wanted = self.polled || submission.taskrun() || submission.cq_overflow();
        drop(submission);
        if !wanted {
            return Ok(false);
        }
        self.enter(0, GETEVENTS)?;
        Ok(true)
    }

    /// Submits, and waits until a completion is there or `timeout` is over.
    pub(super) fn wait(&mut self, timeout: Option<Span>) -> io::Result<()> {
        self.enable()?;
        let waited = match timeout {
            None => self.ring.submit_and_wait(1),
            Some(span) => {
                let (secs, nanos) = (span.as_nanos() / 1_000_000_000, span.as_nanos() % 1_000_000_000);
                let time = Timespec::new().sec(secs.min(i64::MAX as u64)).nsec(nanos as u32);
                self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time))
            }
        };
        later(waited).map(|_| ())
    }

    /// Visits the completions that are posted: user data and result.
    #[inline]
    pub(super) fn completions(&mut self, mut each: impl FnMut(u64, i32)) {
        for entry in self.ring.completion() {
            each(entry.user_data(), entry.result());
        }
    }

    /// Whether a completion is posted.
    pub(super) fn has_completions(&mut self) -> bool {
        !self.ring.completion().is_empty()
    }

    /// Registers a region at `place`, which must be free.
    pub(super) fn register(&mut self, place: u32, region: &Region) -> bool {
        let memory = region.memory;
        if !self.buffers || place >= BUFFERS || memory.is_empty() || memory.len() > LARGEST_BUFFER {
            return false;
        }
        let iovec = libc::iovec { iov_base: memory.addr().cast(), iov_len: memory.len() as usize };
        // SAFETY: the region's memory lives until it has been withdrawn; the kernel holds its pages besides.
        unsafe { self.ring.submitter().register_buffers_update(place, &[iovec], None).is_ok() }
    }

    /// Makes `place` free again. A ring that its owner's thread has left keeps the pages until it is gone,
    /// which does no harm: nothing names them any more.
    pub(super) fn unregister(&mut self, place: u32) {
        let none = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        // SAFETY: names no memory.
        let _ = unsafe { self.ring.submitter().register_buffers_update(place, &[none], None) };
    }

    /// Has an eventfd signalled whenever something completes.
    pub(super) fn signal(&self, eventfd: RawFd) -> bool {
        self.ring.submitter().register_eventfd(eventfd).is_ok()
    }

    /// Descriptor that is readable when a completion is posted.
    pub(super) fn raw(&self) -> RawFd {
        self.ring.as_raw_fd()
    }

    /// Closes the ring, and if it has requests `in_flight` blocks until the kernel is done with them. Works
    /// from any thread; what the requests came to is lost. Gives back a descriptor that is readable from
    /// then on.
    pub(super) fn close(self, in_flight: bool) -> OwnedFd {
        let Ring { ring, gone, .. } = self;
        drop(ring);
        // Nobody writes to the pipe, so it is readable only once it has hung up. Signals end a wait early.
        while in_flight && !hung_up(&gone) {
            wait_readable(gone.as_fd(), None);
        }
        gone
    }

    fn enable(&mut self) -> io::Result<()> {
        if self.disabled {
            self.ring.submitter().register_enable_rings()?;
            self.disabled = false;
        }
        Ok(())
    }

    fn enter(&mut self, entries: u32, flags: u32) -> io::Result<Option<usize>> {
        // SAFETY: submits what was put on the ring by `push`, under its contract, and names no memory.
        later(unsafe { self.ring.submitter().enter::<libc::sigset_t>(entries, 0, flags, None) })
    }
}

/// `None` for errors that pass: interrupted, time over, no memory for requests at the moment, completions to
/// be seen first.
fn later(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(count) => Ok(Some(count)),
        Err(e)
            if matches!(e.raw_os_error(), Some(libc::EINTR | libc::ETIME | libc::EAGAIN | libc::EBUSY)) =>
        {
            Ok(None)
        }
        Err(e) => Err(e),
    }
}

/// Whether a ring can be set up, and waits on it can be bounded (Linux 5.11).
pub(super) fn probe() -> io::Result<()> {
    let ring = IoUring::new(2)?;
    if ring.params().is_feature_ext_arg() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::Unsupported, "this kernel is older than 5.11"))
}

fn hung_up(gone: &OwnedFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::new(gone, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0)
}

/// Sets a ring up with the best that the kernel knows. The second value says whether completions are deferred
/// to the owner's entries, and the ring starts disabled.
fn build(entries: u32, options: &UringOptions) -> io::Result<(IoUring, bool)> {
    let base = || {
        let mut builder = IoUring::builder();
        builder.setup_submit_all();
        if options.iopoll {
            builder.setup_iopoll();
        }
        if options.sqpoll {
            builder.setup_sqpoll(SQPOLL_IDLE_MS);
        }
        builder
    };
    let old = |e: &io::Error| e.raw_os_error() == Some(libc::EINVAL);
    if options.exclusive && !options.sqpoll {
        // Linux 6.1. The flag saves entries when there is nothing to post.
        let mut builder = base();
        builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().setup_r_disabled();
        match builder.build(entries) {
            Err(e) if old(&e) => {}
            other => return other.map(|ring| (ring, true)),
        }
        // Linux 5.19.
        let mut builder = base();
        builder.setup_coop_taskrun().setup_taskrun_flag();
        match builder.build(entries) {
            Err(e) if old(&e) => {}
            other => return other.map(|ring| (ring, false)),
        }
    }
    base().build(entries).map(|ring| (ring, false))
}
