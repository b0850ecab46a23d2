//! Eventfds: the only place that makes them.

use platter_block::lane::Bell;
use platter_block::time::Span;
use rustix::event::{EventfdFlags, eventfd};
use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

thread_local! {
    static SIGNALS: Cell<u64> = const { Cell::new(0) };
}

/// An eventfd: becomes readable when it is signalled, by a thread or by the kernel.
#[derive(Debug)]
pub struct EventFd(OwnedFd);

impl EventFd {
    /// # Errors
    /// No descriptor is available.
    pub fn new() -> io::Result<EventFd> {
        Ok(EventFd(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Makes the descriptor readable.
    pub fn signal(&self) {
        SIGNALS.set(SIGNALS.get() + 1);
        // Fails only if the counter is full, and then the descriptor is readable already.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// How often the calling thread has signalled an eventfd, for tests that count system calls.
    pub fn signals_made() -> u64 {
        SIGNALS.get()
    }

    /// Makes the descriptor unreadable. Returns how many signals it had.
    pub fn clear(&self) -> u64 {
        let mut signals = [0; 8];
        // Nothing to read is fine.
        let _ = rustix::io::read(&self.0, &mut signals);
        u64::from_ne_bytes(signals)
    }

    /// Blocks until the descriptor is readable, the time has passed or a signal arrives.
    pub fn wait(&self, timeout: Option<Span>) {
        crate::wait_readable(self, timeout);
    }

    /// The descriptor's number.
    pub fn raw(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Bell for EventFd {
    fn ring(&self) {
        self.signal();
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for EventFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
