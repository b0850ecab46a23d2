//! Sleeping until another thread rings, for a thread that waits for nothing else: two system calls for a sleep and its
//! end, where a descriptor takes three.
//!
//! A signal does not end the sleep, so only synchronous calls sleep this way, which continue after a signal anyway.

use crate::sync::{AtomicBool, Condvar, Mutex, Ordering, lock};
use std::time::Duration;

/// Where one thread sleeps. It [arms](Parker::arm), then checks once more for what it waits for, then sleeps; others make
/// their change visible, then [unpark](Parker::unpark). Both are sequentially consistent: either the other thread sees
/// that it is armed, or the sleeper sees the change.
pub(crate) struct Parker {
    armed: AtomicBool,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Parker {
    pub(crate) fn new() -> Parker {
        Parker { armed: AtomicBool::new(false), lock: Mutex::new(()), changed: Condvar::new() }
    }

    /// The thread is about to sleep.
    pub(crate) fn arm(&self) {
        self.armed.swap(true, Ordering::SeqCst);
    }

    pub(crate) fn is_armed(&self) -> bool {
        self.armed.load(Ordering::SeqCst)
    }

    /// The thread does not sleep.
    pub(crate) fn disarm(&self) {
        self.armed.store(false, Ordering::Release);
    }

    /// Sleeps until another thread unparks it after the call of [`Parker::arm`], or `timeout` has passed. May return
    /// earlier.
    pub(crate) fn sleep(&self, timeout: Option<Duration>) {
        let guard = lock(&self.lock);
        if self.is_armed() {
            drop(match timeout {
                None => self.changed.wait(guard),
                Some(timeout) => self.changed.wait_for(guard, timeout),
            });
        }
    }

    /// Ends the sleep of the thread if it is armed.
    #[inline]
    pub(crate) fn unpark(&self) {
        if self.is_armed() && self.armed.swap(false, Ordering::SeqCst) {
            // A thread that has found itself armed has the lock until it sleeps.
            drop(lock(&self.lock));
            self.changed.notify_one();
        }
    }
}
