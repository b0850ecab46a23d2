//! Eventfds, and waiting for one descriptor.

use platter_block::time::Span;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

#[cfg(test)]
thread_local! {
    /// How often this thread has signalled, for tests.
    pub(crate) static SIGNALS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// An eventfd: becomes readable when it is signalled, by a thread or by the kernel.
pub(crate) struct EventFd(OwnedFd);

impl EventFd {
    /// # Errors
    /// No descriptor is available.
    pub(crate) fn new() -> io::Result<EventFd> {
        Ok(EventFd(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Makes the descriptor readable.
    pub(crate) fn signal(&self) {
        #[cfg(test)]
        SIGNALS.set(SIGNALS.get() + 1);
        // Fails only if the counter is full, and then the descriptor is readable already.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Makes the descriptor unreadable. Returns how many signals it had.
    pub(crate) fn clear(&self) -> u64 {
        let mut signals = [0; 8];
        // Nothing to read is fine.
        let _ = rustix::io::read(&self.0, &mut signals);
        u64::from_ne_bytes(signals)
    }

    /// Blocks until the descriptor is readable, the time has passed or a signal arrives.
    pub(crate) fn wait(&self, timeout: Option<Span>) {
        wait_readable(self.0.as_fd(), timeout);
    }

    /// The descriptor's number.
    pub(crate) fn raw(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Blocks until `fd` is readable or hung up, the time has passed or a signal arrives.
pub(crate) fn wait_readable(fd: BorrowedFd<'_>, timeout: Option<Span>) {
    let timeout = timeout.map(timespec);
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    match poll(&mut fds, timeout.as_ref()) {
        // The caller checks again in any case; no other error can occur on a descriptor of our own.
        Ok(_) | Err(Errno::INTR) => {}
        Err(_) => std::thread::yield_now(),
    }
}

fn timespec(span: Span) -> Timespec {
    let (secs, nanos) = (span.as_nanos() / 1_000_000_000, span.as_nanos() % 1_000_000_000);
    Timespec { tv_sec: i64::try_from(secs).unwrap_or(i64::MAX), tv_nsec: nanos as _ }
}
