//! A sleep without a descriptor: two system calls for it and its end, where a descriptor takes three.

use super::doorbell::Armed;
use crate::sync::{Condvar, Mutex, lock};
use std::time::Duration;

/// Where a thread sleeps that waits for nothing else. It [arms](Parker::arm) it, then checks once more for what it waits for, then
/// [sleeps](Parker::sleep); others make their change visible, then [unpark](Parker::unpark).
///
/// A signal does not end the sleep.
pub struct Parker {
    armed: Armed,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Parker {
    /// No thread sleeps.
    #[allow(clippy::new_without_default, reason = "as for what it consists of")]
    pub fn new() -> Parker {
        Parker { armed: Armed::new(), lock: Mutex::new(()), changed: Condvar::new() }
    }

    /// The thread is about to sleep.
    pub fn arm(&self) {
        self.armed.set();
    }

    /// Whether the thread sleeps, or is about to.
    pub fn is_armed(&self) -> bool {
        self.armed.is_set()
    }

    /// The thread does not sleep, or no longer; or another thread is about to [notify](Parker::notify) it. Returns whether it was
    /// still armed.
    #[inline]
    pub fn disarm(&self) -> bool {
        self.armed.take()
    }

    /// Sleeps until another thread unparks it after the call of [`Parker::arm`], or `timeout` has passed. The wakeup may be
    /// spurious.
    pub fn sleep(&self, timeout: Option<Duration>) {
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
    pub fn unpark(&self) {
        if self.disarm() {
            self.notify();
        }
    }

    /// Ends the sleep of a thread that the caller has disarmed.
    pub fn notify(&self) {
        // A thread that has found itself armed has the lock until it sleeps.
        drop(lock(&self.lock));
        self.changed.notify_one();
    }
}
