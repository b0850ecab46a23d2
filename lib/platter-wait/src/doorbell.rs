//! Descriptors by which threads end the sleep of another.

use super::event_fd::EventFd;
use crate::sync::{AtomicBool, AtomicU64, Ordering};
use std::io;
use std::sync::OnceLock;

/// Whether a waiter sleeps, or is about to. A waiter [sets](Armed::set) it, then checks once more for what it waits for, then
/// sleeps; others make their change visible, then [take](Armed::take) it and wake the waiter. Both are sequentially consistent:
/// either the other thread finds it set, or the waiter sees the change.
pub struct Armed(AtomicBool);

impl Armed {
    /// No waiter.
    #[allow(clippy::new_without_default, reason = "its users are made by name as well")]
    pub fn new() -> Armed {
        Armed(AtomicBool::new(false))
    }

    /// A waiter is about to sleep.
    pub fn set(&self) {
        self.0.swap(true, Ordering::SeqCst);
    }

    /// Whether the waiter has to be woken, by the caller.
    #[inline]
    pub fn take(&self) -> bool {
        self.0.load(Ordering::SeqCst) && self.0.swap(false, Ordering::SeqCst)
    }

    /// Whether a waiter sleeps, or is about to.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// The waiter does not sleep any more, so rings cost nothing.
    pub fn clear(&self) {
        self.0.store(false, Ordering::Release);
    }
}

/// An eventfd that any thread makes readable, and that its waiter clears without a system call if no thread has.
pub struct Doorbell {
    fd: EventFd,
    /// Rings that were made, or are about to be, and have not been cleared.
    rings: AtomicU64,
}

impl Doorbell {
    /// # Errors
    /// No descriptor is available.
    pub fn new() -> io::Result<Doorbell> {
        Ok(Doorbell { fd: EventFd::new()?, rings: AtomicU64::new(0) })
    }

    /// Ends the waiter's sleep, or prevents the next one.
    pub fn ring(&self) {
        self.rings.fetch_add(1, Ordering::SeqCst);
        self.fd.signal();
    }

    /// Rings unless a thread has since the bell was last cleared: for many reasons for one wakeup.
    pub fn ring_once(&self) {
        if self.rings.load(Ordering::SeqCst) == 0 {
            self.ring();
        }
    }

    /// Makes the descriptor unreadable until the next ring. A ring that is between its two steps may make it readable afterwards:
    /// one wakeup is spurious then, and the next call clears it.
    pub fn clear(&self) {
        if self.rings.load(Ordering::SeqCst) > 0 {
            self.rings.fetch_sub(self.fd.clear(), Ordering::SeqCst);
        }
    }

    /// The descriptor. What signals it past [`Doorbell::ring`], such as the kernel, is not counted: the waiter has to clear it
    /// [itself](EventFd::clear).
    pub fn fd(&self) -> &EventFd {
        &self.fd
    }
}

/// A doorbell that is rung with a system call only if its waiter has [armed](ArmedDoorbell::arm) it, as [`Armed`] says.
///
/// The signal of a ring may arrive after the descriptor has been armed again. One wakeup is spurious then. Arming clears it
/// afterwards, so that there is no second one.
pub struct ArmedDoorbell {
    armed: Armed,
    /// Opened when it is armed for the first time that the process has a free descriptor.
    bell: OnceLock<Doorbell>,
}

impl ArmedDoorbell {
    /// A doorbell that is not armed, and not open yet.
    #[allow(clippy::new_without_default, reason = "as for what it consists of")]
    pub fn new() -> ArmedDoorbell {
        ArmedDoorbell { armed: Armed::new(), bell: OnceLock::new() }
    }

    /// A doorbell that is not armed.
    ///
    /// # Errors
    /// No descriptor is available.
    pub fn opened() -> io::Result<ArmedDoorbell> {
        Ok(ArmedDoorbell { armed: Armed::new(), bell: OnceLock::from(Doorbell::new()?) })
    }

    /// Makes the descriptor readable if it is armed.
    #[inline]
    pub fn ring(&self) {
        if self.armed.take()
            && let Some(bell) = self.bell.get()
        {
            bell.ring();
        }
    }

    /// Whether a waiter sleeps on the descriptor, or is about to.
    pub fn is_armed(&self) -> bool {
        self.armed.is_set()
    }

    /// Makes the descriptor unreadable until the next ring, and returns it. A waiter arms it before each sleep. `None`: no
    /// descriptor is free at the moment, and the waiter has to nap; the next call tries again.
    pub fn arm(&self) -> Option<&EventFd> {
        match self.bell.get() {
            Some(bell) => bell.clear(),
            None => self.open(),
        }
        self.armed.set();
        self.fd()
    }

    /// The same for a descriptor that others signal as well, such as a ring. Their signals are not counted, so it is cleared
    /// each time; such a descriptor is armed in no other way.
    pub fn arm_shared(&self) -> Option<&EventFd> {
        match self.fd() {
            Some(fd) => {
                fd.clear();
            }
            None => self.open(),
        }
        self.armed.set();
        self.fd()
    }

    /// Opens the descriptor if one is free. It is armed afterwards: a ring that takes that arming back sees it.
    pub fn open(&self) {
        if let Ok(bell) = Doorbell::new() {
            // If another thread was first, its descriptor stays.
            let _ = self.bell.set(bell);
        }
    }

    /// Arms a descriptor that is not readable, or whose ring is noticed anyway, without a system call.
    pub fn rearm(&self) {
        self.armed.set();
    }

    /// No waiter any more, so rings cost nothing.
    pub fn disarm(&self) {
        self.armed.clear();
    }

    /// The descriptor, if it is open.
    pub fn fd(&self) -> Option<&EventFd> {
        self.bell.get().map(Doorbell::fd)
    }
}
