//! Waking a thread that sleeps on file descriptors.

use platter_block::time::Span;
use rustix::event::{EventfdFlags, epoll, eventfd};
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

/// Descriptors behind one descriptor, which is readable when one of them is.
///
/// Threads that sleep on that one also hear descriptors that another thread adds meanwhile. With a plain list they would
/// have to be woken to make it anew, and a wake-up on a bell that several threads hear is lost on those that have not run
/// before the first of them clears it.
pub(crate) struct WaitSet {
    epoll: OwnedFd,
    has: Vec<RawFd>,
    /// The drivers that had been opened when it was made.
    drivers: u64,
}

impl WaitSet {
    /// An empty set; `None`: the process is out of descriptors.
    pub(crate) fn new() -> Option<WaitSet> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).ok()?;
        Some(WaitSet { epoll, has: Vec::new(), drivers: 0 })
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    /// Has the set consist of `wanted`. `drivers` counts the drivers that were opened so far: when it has changed, the
    /// same number may be another descriptor. `false`: not all could be added.
    pub(crate) fn set(&mut self, wanted: &[RawFd], drivers: u64) -> bool {
        if self.has == wanted && self.drivers == drivers {
            return true;
        }
        for &fd in &self.has {
            // One that was closed has left the set by itself.
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
    // SAFETY: the borrow ends with the system call that it is for. A descriptor that was closed meanwhile, or is another
    // one now, makes that call fail, or wakes a sleeper that then finds nothing to do.
    unsafe { BorrowedFd::borrow_raw(fd) }
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
