//! Waking a thread that sleeps on file descriptors.

use platter_block::time::Span;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// A bell: rung by any thread, heard by whoever polls its descriptor. Without a descriptor to be had (the
/// process is out of them) sleepers fall back to short naps.
pub(crate) struct Event(Option<OwnedFd>);

impl Event {
    pub(crate) fn new() -> Event {
        Event(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok())
    }

    pub(crate) fn ring(&self) {
        if let Some(fd) = &self.0 {
            // A full counter already means "rung".
            let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
        }
    }

    pub(crate) fn clear(&self) {
        if let Some(fd) = &self.0 {
            let _ = rustix::io::read(fd, &mut [0u8; 8]);
        }
    }

    pub(crate) fn descriptor(&self) -> Option<RawFd> {
        self.0.as_ref().map(OwnedFd::as_raw_fd)
    }
}

/// How long to sleep when what is waited for cannot be seen on a descriptor.
const NAP: Span = Span::from_millis(1);

/// Sleeps until one of the descriptors is readable or the time has passed.
#[allow(unsafe_code)]
pub(crate) fn sleep_on(handles: &[RawFd], complete: bool, timeout: Option<Span>) {
    let timeout = if complete { timeout } else { Some(timeout.unwrap_or(NAP).min(NAP)) };
    let timeout = timeout.map(|span| Timespec {
        tv_sec: (span.0 / 1_000_000_000) as i64,
        tv_nsec: (span.0 % 1_000_000_000) as i64,
    });
    let mut fds: Vec<PollFd<'_>> = Vec::with_capacity(handles.len());
    for &handle in handles {
        // SAFETY: the descriptors belong to drivers and bells that the sleeping lane keeps open.
        fds.push(PollFd::from_borrowed_fd(unsafe { BorrowedFd::borrow_raw(handle) }, PollFlags::IN));
    }
    // Interrupted or failed: the caller looks again, as after any wake-up.
    let _ = poll(&mut fds, timeout.as_ref());
}
