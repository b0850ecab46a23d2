//! Sleeping on file descriptors, and waking a thread that does.
//!
//! A thread that waits for the disk sleeps on the drivers' descriptors, so others wake it by a [`WakeFd`]. Threads that
//! wait only for each other, under a lock, use a condition variable (`sync.rs`), which needs no descriptor.

use platter_block::time::Span;
use rustix::event::epoll;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

mod call_wake;
mod event_fd;
mod wake_fd;

pub(crate) use call_wake::CallWake;
#[cfg(test)]
pub(crate) use event_fd::SIGNALS;
pub(crate) use event_fd::{EventFd, wait_readable};
use wake_fd::Armed;
pub(crate) use wake_fd::WakeFd;

/// A set of descriptors behind one descriptor, which is readable if any of them is.
///
/// A thread that sleeps on that descriptor also sees descriptors that another thread adds later. With a plain list it
/// would have to be woken to rebuild the list, and if several threads listen to one bell, a wake-up is lost for those
/// that have not run before the first of them clears it.
pub(crate) struct WaitSet {
    epoll: Arc<OwnedFd>,
    has: Vec<RawFd>,
    /// Number of drivers opened before the set was updated.
    drivers: u64,
}

impl WaitSet {
    /// An empty set; `None`: the process has no free descriptors.
    pub(crate) fn new() -> Option<WaitSet> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).ok()?;
        Some(WaitSet { epoll: Arc::new(epoll), has: Vec::new(), drivers: 0 })
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    /// The descriptor, for as long as the caller needs it.
    pub(crate) fn owned(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.epoll)
    }

    /// Changes the set to `wanted`. `drivers` is the number of drivers opened so far: if it has changed, the same
    /// number may stand for another descriptor. `false`: not all could be added.
    pub(crate) fn set(&mut self, wanted: &[RawFd], drivers: u64) -> bool {
        if self.has == wanted && self.drivers == drivers {
            return true;
        }
        for &fd in &self.has {
            // A closed descriptor has left the set already.
            let _ = epoll::delete(&self.epoll, borrowed(fd));
        }
        self.has.clear();
        for &fd in wanted {
            let data = epoll::EventData::new_u64(0);
            if epoll::add(&self.epoll, borrowed(fd), data, epoll::EventFlags::IN).is_ok() {
                self.has.push(fd);
            }
        }
        self.drivers = drivers;
        self.has.len() == wanted.len()
    }
}

#[allow(unsafe_code)]
fn borrowed(fd: RawFd) -> BorrowedFd<'static> {
    // SAFETY: the borrow ends with the system call that it is made for. If the descriptor has been closed or reused
    // since, the call fails, or it wakes a sleeper that then finds nothing to do.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// How long to sleep if the awaited event cannot be seen on a descriptor.
const NAP: Span = Span::from_millis(1);

/// Why a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// A descriptor is readable.
    Readable,
    /// The time has passed, or only that of a nap.
    TimedOut,
    /// A signal arrived.
    Interrupted,
}

/// Sleeps on a list of descriptors, without an allocation once the lists have grown.
#[derive(Default)]
pub(crate) struct Sleeper {
    pub(crate) handles: Vec<RawFd>,
    polled: Vec<libc::pollfd>,
}

impl Sleeper {
    /// Sleeps until one of the descriptors is readable or the time has passed; naps if the descriptors are not
    /// `complete`. A descriptor that was closed in the meantime ends the sleep at once.
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
        // SAFETY: the list has `count` entries, and the time, if any, is on this stack. Descriptors are only numbers
        // here: an invalid one is reported in its entry. If the call is interrupted or fails, the caller checks
        // again, as after any wake-up.
        match unsafe { libc::ppoll(list, count, timeout, std::ptr::null()) } {
            ..0 => Ended::Interrupted,
            0 => Ended::TimedOut,
            1.. => Ended::Readable,
        }
    }

    /// Whether one of the descriptors at these indices was readable, or closed, when the last sleep ended.
    pub(crate) fn is_readable(&self, range: Range<usize>) -> bool {
        self.polled.get(range).is_some_and(|polled| polled.iter().any(|polled| polled.revents != 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn is_readable(wake: &WakeFd) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(borrowed(wake.fd().unwrap().raw()), PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    }

    #[test]
    fn only_an_armed_descriptor_is_rung_and_arming_resets_it() {
        let wake = WakeFd::opened().unwrap();
        wake.ring();
        assert!(!is_readable(&wake));
        wake.arm();
        assert!(!is_readable(&wake));
        wake.ring();
        wake.ring();
        assert!(is_readable(&wake));
        wake.arm();
        assert!(!is_readable(&wake));
        wake.ring();
        assert!(is_readable(&wake));
        wake.arm();
        wake.disarm();
        wake.ring();
        assert!(!is_readable(&wake), "no thread listens");
    }

    #[test]
    fn a_descriptor_that_others_signal_too_is_cleared_of_their_signals() {
        let wake = WakeFd::opened().unwrap();
        for _ in 0..2 {
            wake.fd().unwrap().signal();
            wake.arm_shared();
            assert!(!is_readable(&wake));
            wake.ring();
            assert!(is_readable(&wake));
        }
    }
}
