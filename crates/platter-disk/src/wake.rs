//! Waking a thread that sleeps on file descriptors.

use platter_block::time::Span;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

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

/// Why a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// A descriptor is readable.
    Readable,
    /// The time has passed, or only a nap's.
    TimedOut,
    /// By a signal.
    Interrupted,
}

/// Sleeps on a list of descriptors, without an allocation once the lists have grown.
#[derive(Default)]
pub(crate) struct Sleeper {
    pub(crate) handles: Vec<RawFd>,
    polled: Vec<libc::pollfd>,
}

impl Sleeper {
    /// Sleeps until one of the descriptors is readable or the time has passed; naps when the descriptors are
    /// not `complete`. A descriptor that was closed meanwhile wakes at once.
    #[allow(unsafe_code)]
    pub(crate) fn sleep(&mut self, complete: bool, timeout: Option<Span>) -> Ended {
        let timeout = if complete { timeout } else { Some(timeout.unwrap_or(NAP).min(NAP)) };
        let timeout = timeout.map(|span| libc::timespec {
            tv_sec: (span.0 / 1_000_000_000) as libc::time_t,
            tv_nsec: (span.0 % 1_000_000_000) as libc::c_long,
        });
        let polled = |&fd: &RawFd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        self.polled.clear();
        self.polled.extend(self.handles.iter().map(polled));
        let (list, count) = (self.polled.as_mut_ptr(), self.polled.len() as libc::nfds_t);
        let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the list has as many entries as said, and the time, if any, is on this stack. Descriptors are
        // numbers here: a wrong one is reported in its entry. Interrupted or failed: the caller looks again, as
        // after any wake-up.
        match unsafe { libc::ppoll(list, count, timeout, std::ptr::null()) } {
            ..0 => Ended::Interrupted,
            0 => Ended::TimedOut,
            1.. => Ended::Readable,
        }
    }

    /// Whether one of the descriptors from the place `first` on was readable when the last sleep ended.
    pub(crate) fn is_readable(&self, first: usize) -> bool {
        self.polled.iter().skip(first).any(|polled| polled.revents != 0)
    }
}
