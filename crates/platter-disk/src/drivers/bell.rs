//! An eventfd that signals that completions can be reaped, rung only if a thread listens.

use platter_block::time::Span;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// One eventfd. Threads that complete something call [`Bell::ring`] after making it visible; the channel
/// calls [`Bell::arm`] and then checks once more before it concludes that nothing has completed. A bell that
/// is not armed costs the completing threads one check of a flag.
pub(super) struct Bell {
    fd: OwnedFd,
    armed: AtomicBool,
}

impl Bell {
    /// A bell that is not armed.
    pub(super) fn new() -> io::Result<Bell> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Bell { fd, armed: AtomicBool::new(false) })
    }

    /// Makes the descriptor readable if the bell is armed, and disarms it.
    pub(super) fn ring(&self) {
        // Sequentially consistent, as is the swap in `arm`: either this call sees the bell armed, or the
        // channel, which checks after arming, sees what was completed before this call.
        if self.armed.swap(false, Ordering::SeqCst) {
            self.sound();
        }
    }

    /// Makes the descriptor readable, armed or not.
    pub(super) fn sound(&self) {
        // Fails only if the counter is full, and then the descriptor is readable already.
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }

    /// Makes the descriptor unreadable until the next ring.
    pub(super) fn arm(&self) {
        if !self.armed.load(Ordering::SeqCst) {
            self.clear();
            self.armed.swap(true, Ordering::SeqCst);
        }
    }

    /// Resets the descriptor's counter.
    pub(super) fn clear(&self) {
        // Nothing to read is fine.
        let _ = rustix::io::read(&self.fd, &mut [0; 8]);
    }

    /// Blocks until the descriptor is readable, the time has passed or a signal arrives.
    pub(super) fn wait(&self, timeout: Option<Span>) {
        wait_readable(self.fd.as_fd(), timeout);
    }

    /// The descriptor's number, for `poll(2)`.
    pub(super) fn raw(&self) -> i32 {
        self.fd.as_raw_fd()
    }
}

/// Blocks until `fd` is readable or hung up, the time has passed or a signal arrives.
pub(super) fn wait_readable(fd: BorrowedFd<'_>, timeout: Option<Span>) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn readable(bell: &Bell) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(bell.fd.as_fd(), PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    }

    #[test]
    fn only_an_armed_bell_rings_and_arming_silences_it() {
        let bell = Bell::new().unwrap();
        bell.ring();
        assert!(!readable(&bell));
        bell.arm();
        assert!(!readable(&bell));
        bell.ring();
        bell.ring();
        assert!(readable(&bell));
        bell.arm();
        assert!(!readable(&bell));
        bell.ring();
        assert!(readable(&bell));
    }
}
