//! Counts the threads that have been woken and do not run yet, so that others can leave bios to them.
//!
//! A driver mostly completes several requests at once, and the threads that wait for these are woken together. If each
//! then handed its next bio over by itself, the device would get as many doorbells. So while such threads are on their
//! way, a thread leaves its bio in the inbox and goes to sleep, and the last one to run again runs the queue before it
//! returns to its caller. Nothing waits for the program: a woken thread is runnable, and looks before it does anything
//! else. The downside is that a bio waits until the scheduler has run that thread, which may have a lower priority.

use crate::sync::{AtomicI32, Ordering};

/// The number of woken threads of a device that do not run yet. It may be negative for a moment, because the thread that
/// wakes another one adds after it has done so.
pub(crate) struct Woken(AtomicI32);

impl Woken {
    pub(crate) fn new() -> Woken {
        Woken(AtomicI32::new(0))
    }

    /// A thread has been woken.
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// A woken thread runs. `true`: it was the last one, and must look for bios that were left to it.
    #[must_use]
    pub(crate) fn remove(&self) -> bool {
        self.0.fetch_sub(1, Ordering::SeqCst) == 1
    }

    /// Whether a bio that the caller has put into the inbox may be left there: some thread will look for it.
    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }
}
