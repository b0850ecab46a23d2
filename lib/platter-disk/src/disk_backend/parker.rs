//! How a lane sleeps that waits for nothing but its mailbox: synchronous calls do, which continue after a signal anyway.

use super::woken::Woken;
use crate::sync::{AtomicBool, Ordering};
use crate::wake::Parker;
use std::sync::Arc;
use std::time::Duration;

/// A [`Parker`] that counts its thread among those that have been woken and do not run yet. The thread
/// [settles](LaneParker::settle) after each sleep.
pub(crate) struct LaneParker {
    parker: Parker,
    /// The thread has armed it and not settled since. Only that thread uses it.
    unsettled: AtomicBool,
    /// The threads that have been unparked and have not settled.
    woken: Arc<Woken>,
}

impl LaneParker {
    pub(crate) fn new(woken: Arc<Woken>) -> LaneParker {
        LaneParker { parker: Parker::new(), unsettled: AtomicBool::new(false), woken }
    }

    /// The thread is about to sleep.
    pub(crate) fn arm(&self) {
        self.unsettled.store(true, Ordering::Relaxed);
        self.parker.arm();
    }

    pub(crate) fn is_armed(&self) -> bool {
        self.parker.is_armed()
    }

    /// The thread does not sleep, or no longer. `true`: of all threads that were unparked it is the last to run, and must
    /// look for what others have left to it.
    #[must_use]
    pub(crate) fn settle(&self) -> bool {
        if !self.unsettled.load(Ordering::Relaxed) {
            return false;
        }
        self.unsettled.store(false, Ordering::Relaxed);
        let was_unparked = !self.parker.disarm();
        was_unparked && self.woken.remove()
    }

    /// [`Parker::sleep`].
    pub(crate) fn sleep(&self, timeout: Option<Duration>) {
        self.parker.sleep(timeout);
    }

    /// Ends the sleep of the thread if it is armed.
    #[inline]
    pub(crate) fn unpark(&self) {
        if self.parker.disarm() {
            self.woken.add();
            self.parker.notify();
        }
    }
}
