//! Sleeping on descriptors.

use platter_block::time::Span;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::ops::Range;
use std::os::fd::{AsFd, RawFd};

/// How long to sleep if the awaited event cannot be seen on a descriptor.
pub const NAP: Span = Span::from_millis(1);

/// Why a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// A descriptor is readable.
    Readable,
    /// The time has passed, or only that of a nap.
    TimedOut,
    /// A signal arrived.
    Interrupted,
}

/// Sleeps on a list of descriptors, without an allocation once the lists have grown.
#[derive(Default)]
pub struct Sleeper {
    /// The list.
    pub handles: Vec<RawFd>,
    polled: Vec<libc::pollfd>,
}

impl Sleeper {
    /// Sleeps until one of the descriptors is readable or the time has passed; naps if the descriptors are not
    /// `complete`. A descriptor that was closed in the meantime ends the sleep at once.
    pub fn sleep(&mut self, complete: bool, timeout: Option<Span>) -> Ended {
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
        // SAFETY: the list has `count` entries, and the time, if any, is on this stack. Descriptors are only numbers
        // here: an invalid one is reported in its entry. If the call is interrupted or fails, the caller checks
        // again, as after any wakeup.
        match unsafe { libc::ppoll(list, count, timeout, std::ptr::null()) } {
            ..0 => Ended::Interrupted,
            0 => Ended::TimedOut,
            1.. => Ended::Readable,
        }
    }

    /// Whether one of the descriptors at these indices was readable, or closed, when the last sleep ended.
    pub fn is_readable(&self, range: Range<usize>) -> bool {
        self.polled.get(range).is_some_and(|polled| polled.iter().any(|polled| polled.revents != 0))
    }
}

/// Blocks until `fd` is readable or hung up, the time has passed or a signal arrives.
pub fn wait_readable(fd: impl AsFd, timeout: Option<Span>) {
    wait_ready(fd, PollFlags::IN, timeout);
}

/// Blocks until `fd` shows one of these events or is hung up, the time has passed or a signal arrives.
pub fn wait_ready(fd: impl AsFd, events: PollFlags, timeout: Option<Span>) {
    match poll(&mut [PollFd::new(&fd, events)], timeout.map(timespec).as_ref()) {
        // The caller checks again in any case; no other error can occur on a descriptor that is open.
        Ok(_) | Err(Errno::INTR) => {}
        Err(_) => std::thread::yield_now(),
    }
}

/// Blocks until the time has passed or a signal arrives.
pub fn nap(time: Span) {
    let _ = poll(&mut [], Some(&timespec(time)));
}

/// Whether a descriptor shows one of these events, or that it is hung up, at this moment.
pub fn is_ready(fd: impl AsFd, events: PollFlags) -> bool {
    poll(&mut [PollFd::new(&fd, events)], Some(&Timespec::default())).is_ok_and(|count| count > 0)
}

/// A span as system calls take it.
pub fn timespec(span: Span) -> Timespec {
    // A span has less than 2^64 ns, which are less than 2^63 s.
    Timespec { tv_sec: (span.0 / 1_000_000_000) as i64, tv_nsec: (span.0 % 1_000_000_000) as _ }
}
