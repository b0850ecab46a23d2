//! Sleeping until another thread rings, for a thread that waits for nothing else: two system calls for a sleep and its
//! end, where a descriptor takes three.
//!
//! A signal does not end the sleep, so only synchronous calls sleep this way, which continue after a signal anyway.

use super::woken::Woken;
use crate::sync::{AtomicBool, Condvar, Mutex, Ordering, lock};
use platter_block::defect::{self, Defect};
use std::sync::Arc;
use std::time::Duration;

/// Where one thread sleeps. It [arms](Parker::arm), then checks once more for what it waits for, then sleeps; others make
/// their change visible, then [unpark](Parker::unpark). Both are sequentially consistent: either the other thread sees
/// that it is armed, or the sleeper sees the change. Afterwards it [settles](Parker::settle).
pub(crate) struct Parker {
    armed: AtomicBool,
    /// The thread has armed it and not settled since. Only that thread uses it.
    unsettled: AtomicBool,
    /// The threads that have been unparked and have not settled.
    woken: Arc<Woken>,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Parker {
    pub(crate) fn new(woken: Arc<Woken>) -> Parker {
        Parker {
            armed: AtomicBool::new(false),
            unsettled: AtomicBool::new(false),
            woken,
            lock: Mutex::new(()),
            changed: Condvar::new(),
        }
    }

    /// The thread is about to sleep.
    pub(crate) fn arm(&self) {
        self.unsettled.store(true, Ordering::Relaxed);
        self.armed.swap(true, Ordering::SeqCst);
    }

    pub(crate) fn is_armed(&self) -> bool {
        self.armed.load(Ordering::SeqCst)
    }

    /// The thread does not sleep, or no longer. `true`: of all threads that were unparked it is the last to run, and must
    /// look for what others have left to it.
    #[must_use]
    pub(crate) fn settle(&self) -> bool {
        if !self.unsettled.load(Ordering::Relaxed) {
            return false;
        }
        self.unsettled.store(false, Ordering::Relaxed);
        let was_unparked = !self.armed.swap(false, Ordering::SeqCst);
        was_unparked && self.woken.remove() && !defect::is_on(Defect::WokenForgetBios)
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
            self.woken.add();
            // A thread that has found itself armed has the lock until it sleeps.
            drop(lock(&self.lock));
            self.changed.notify_one();
        }
    }
}
