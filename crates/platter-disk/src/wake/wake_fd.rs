//! Wakes a thread that sleeps on descriptors, with a system call only if there is such a thread.

use super::event_fd::EventFd;
use crate::sync::{AtomicBool, Ordering};
use std::io;
use std::sync::OnceLock;

/// A descriptor that other threads make readable. A thread [arms](WakeFd::arm) it, then checks once more for what it
/// waits for, then sleeps; others make their change visible, then [ring](WakeFd::ring). Both are sequentially
/// consistent: either the ringing thread sees the descriptor armed, or the sleeper sees the change.
///
/// The signal of a ring may arrive after the descriptor has been armed again. It then ends one sleep for nothing.
/// Arming clears the descriptor each time, a system call, so that this does not happen a second time.
pub(crate) struct WakeFd {
    armed: AtomicBool,
    /// Opened when it is armed for the first time that the process has a free descriptor.
    fd: OnceLock<EventFd>,
}

impl WakeFd {
    /// A descriptor that is not armed, and not open yet.
    pub(crate) fn new() -> WakeFd {
        WakeFd { armed: AtomicBool::new(false), fd: OnceLock::new() }
    }

    /// A descriptor that is not armed.
    ///
    /// # Errors
    /// No descriptor is available.
    pub(crate) fn opened() -> io::Result<WakeFd> {
        let fd = EventFd::new()?;
        Ok(WakeFd { armed: AtomicBool::new(false), fd: OnceLock::from(fd) })
    }

    /// Makes the descriptor readable if it is armed.
    #[inline]
    pub(crate) fn ring(&self) {
        if self.armed.load(Ordering::SeqCst)
            && self.armed.swap(false, Ordering::SeqCst)
            && let Some(fd) = self.fd()
        {
            fd.signal();
        }
    }

    /// Whether a thread sleeps on the descriptor, or is about to.
    pub(crate) fn is_armed(&self) -> bool {
        self.armed.load(Ordering::SeqCst)
    }

    /// Makes the descriptor unreadable until the next ring, and returns it. A thread that sleeps on it arms it before
    /// each sleep. `None`: no descriptor is free at the moment, and the thread has to nap; the next call tries again.
    pub(crate) fn arm(&self) -> Option<&EventFd> {
        match self.fd.get() {
            Some(fd) => {
                fd.clear();
            }
            None => self.open(),
        }
        self.armed.swap(true, Ordering::SeqCst);
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
        self.armed.swap(true, Ordering::SeqCst);
    }

    /// No thread listens any more, so rings cost nothing.
    pub(crate) fn disarm(&self) {
        self.armed.store(false, Ordering::Release);
    }

    /// The descriptor, if it is open.
    pub(crate) fn fd(&self) -> Option<&EventFd> {
        self.fd.get()
    }
}
