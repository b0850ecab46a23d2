//! How a thread that waits has the shared queue started, which holds requests back for merging while it is plugged.
//!
//! The thread asks, and the next run of the queue starts everything. It mostly runs the queue itself then. But if its bios come
//! back in between it does not, and what it has asked for must not stay in the queue: other threads may sleep for it and know
//! of no time at which to run the queue.
//!
//! Example: thread A submits a read, which plugs the queue for 3 ms, asks for a start and is about to run the queue. Thread B runs it first and delivers a
//! bio that A has been waiting for, so A returns to its caller. The read must start nevertheless: B's run has seen that A asked, or, if A
//! asked after B had looked, A sees that B left the queue plugged, and runs it.

use crate::sync::{AtomicBool, Ordering, fence};

pub(crate) struct Unplugs {
    /// A thread has asked since the queue was last started.
    wanted: AtomicBool,
    /// The queue is plugged. Changed with its lock held.
    plugged: AtomicBool,
}

impl Unplugs {
    pub(crate) fn new() -> Unplugs {
        Unplugs { wanted: AtomicBool::new(false), plugged: AtomicBool::new(false) }
    }

    /// Asks for the start of what the queue holds back. The caller has put its bios into the inbox, and runs the queue next.
    pub(crate) fn ask(&self) {
        self.wanted.store(true, Ordering::SeqCst);
    }

    /// The same for a caller that may not run the queue otherwise. `true`: it has to, because the queue is plugged.
    #[must_use]
    pub(crate) fn ask_outside(&self) -> bool {
        self.ask();
        // Either the run that plugs the queue sees that it was asked, or this sees the plug.
        fence(Ordering::SeqCst);
        self.plugged.load(Ordering::Relaxed)
    }

    /// Whether a thread has asked, for the thread that runs the queue. To be called before it takes the inbox: after it, the bios
    /// of the thread that asks might not be in the queue yet, and would find it plugged.
    pub(crate) fn take(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) && self.wanted.swap(false, Ordering::SeqCst)
    }

    /// A run leaves the queue `plugged`, or not. `true`: a thread has asked in the meantime, so another run has to follow, which
    /// takes the inbox first.
    #[must_use]
    pub(crate) fn tell(&self, plugged: bool) -> bool {
        if plugged != self.plugged.load(Ordering::Relaxed) {
            self.plugged.store(plugged, Ordering::Relaxed);
        }
        if !plugged {
            return false;
        }
        fence(Ordering::SeqCst);
        self.wanted.load(Ordering::Relaxed)
    }
}
