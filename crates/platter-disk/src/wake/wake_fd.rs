//! Wakes a thread that sleeps on descriptors, with a system call only if there is such a thread.

use super::event_fd::EventFd;
use crate::sync::{AtomicBool, AtomicU64, Ordering};
use std::io;
use std::sync::OnceLock;

/// Whether a thread sleeps, or is about to. A thread [sets](Armed::set) it, then checks once more for what it waits for, then
/// sleeps; others make their change visible, then [take](Armed::take) it and wake the thread. Both are sequentially consistent:
/// either the other thread finds it set, or the sleeper sees the change.
pub(crate) struct Armed(AtomicBool);

impl Armed {
    pub(crate) fn new() -> Armed {
        Armed(AtomicBool::new(false))
    }

    pub(crate) fn set(&self) {
        self.0.swap(true, Ordering::SeqCst);
    }

    /// Whether the thread has to be woken, by the caller.
    #[inline]
    pub(crate) fn take(&self) -> bool {
        self.0.load(Ordering::SeqCst) && self.0.swap(false, Ordering::SeqCst)
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// The thread does not sleep any more, so rings cost nothing.
    pub(crate) fn clear(&self) {
        self.0.store(false, Ordering::Release);
    }
}

/// A descriptor that other threads make readable. A thread [arms](WakeFd::arm) it, then checks once more for what it
/// waits for, then sleeps; others make their change visible, then [ring](WakeFd::ring). Both are sequentially
/// consistent: either the ringing thread sees the descriptor armed, or the sleeper sees the change.
///
/// The signal of a ring may arrive after the descriptor has been armed again. It then ends one sleep for nothing.
/// Arming clears it then, so that this does not happen a second time.
pub(crate) struct WakeFd {
    armed: Armed,
    /// Signals that were made, or are about to be, and have not been cleared: without any, arming makes no system call.
    signals: AtomicU64,
    /// Opened when it is armed for the first time that the process has a free descriptor.
    fd: OnceLock<EventFd>,
}

impl WakeFd {
    /// A descriptor that is not armed, and not open yet.
    pub(crate) fn new() -> WakeFd {
        WakeFd { armed: Armed::new(), signals: AtomicU64::new(0), fd: OnceLock::new() }
    }

    /// A descriptor that is not armed.
    ///
    /// # Errors
    /// No descriptor is available.
    pub(crate) fn opened() -> io::Result<WakeFd> {
        let fd = EventFd::new()?;
        Ok(WakeFd { armed: Armed::new(), signals: AtomicU64::new(0), fd: OnceLock::from(fd) })
    }

    /// Makes the descriptor readable if it is armed.
    #[inline]
    pub(crate) fn ring(&self) {
        if self.armed.take()
            && let Some(fd) = self.fd()
        {
            self.signals.fetch_add(1, Ordering::SeqCst);
            fd.signal();
        }
    }

    /// Whether a thread sleeps on the descriptor, or is about to.
    pub(crate) fn is_armed(&self) -> bool {
        self.armed.is_set()
    }

    /// Makes the descriptor unreadable until the next ring, and returns it. A thread that sleeps on it arms it before
    /// each sleep. `None`: no descriptor is free at the moment, and the thread has to nap; the next call tries again.
    pub(crate) fn arm(&self) -> Option<&EventFd> {
        match self.fd.get() {
            Some(fd) if self.signals.load(Ordering::SeqCst) > 0 => {
                self.signals.fetch_sub(fd.clear(), Ordering::SeqCst);
            }
            Some(_) => {}
            None => self.open(),
        }
        self.armed.set();
        self.fd()
    }

    /// The same for a descriptor that others signal as well, such as a ring. Their signals are not counted, so it is cleared
    /// each time; such a descriptor is armed in no other way.
    pub(crate) fn arm_shared(&self) -> Option<&EventFd> {
        match self.fd.get() {
            Some(fd) => {
                fd.clear();
            }
            None => self.open(),
        }
        self.armed.set();
        self.fd()
    }

    /// Opens the descriptor if one is free. It is armed afterwards: a ring that takes that arming back sees it.
    pub(crate) fn open(&self) {
        if let Ok(fd) = EventFd::new() {
            // If another thread was first, its descriptor stays.
            let _ = self.fd.set(fd);
        }
    }

    /// Arms a descriptor that is not readable, or whose ring is noticed anyway, without a system call.
    pub(crate) fn rearm(&self) {
        self.armed.set();
    }

    /// No thread listens any more, so rings cost nothing.
    pub(crate) fn disarm(&self) {
        self.armed.clear();
    }

    /// The descriptor, if it is open.
    pub(crate) fn fd(&self) -> Option<&EventFd> {
        self.fd.get()
    }
}
