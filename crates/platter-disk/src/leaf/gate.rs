//! The gate of a device: what keeps lanes that share nothing else in order around a barrier.
//!
//! A lane looks at the gate once per batch; while it is closed the lane's bios go to the shared queue, where
//! the barrier is. Whoever closes the gate can then wait until every lane's own queue is empty: a lane
//! announces that it becomes busy before it looks at the gate, and the closer closes before it looks at the
//! lanes, both sequentially consistent, so at least one of the two sees the other (Dekker's argument).

use crate::sync::{AtomicBool, AtomicU32, Ordering};

/// All bios go through the shared queue.
const SHARED: u32 = 1 << 31;

/// State of a gate as seen at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct View(u32);

impl View {
    /// Nothing new may start on a lane's own queue.
    #[inline]
    pub(crate) fn is_closed(self) -> bool {
        self.0 & !SHARED != 0
    }

    /// Everything goes through the shared queue.
    #[inline]
    pub(crate) fn is_shared(self) -> bool {
        self.0 & SHARED != 0
    }
}

/// How often the gate is closed, and the device's mode.
pub(crate) struct Gate(AtomicU32);

impl Gate {
    pub(crate) fn new(shared: bool) -> Gate {
        Gate(AtomicU32::new(if shared { SHARED } else { 0 }))
    }

    #[inline]
    pub(crate) fn look(&self) -> View {
        View(self.0.load(Ordering::SeqCst))
    }

    /// Closes the gate once more.
    pub(crate) fn close(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// Takes one closing back.
    pub(crate) fn open(&self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }

    /// Sets the mode.
    pub(crate) fn set_shared(&self, shared: bool) {
        if shared {
            self.0.fetch_or(SHARED, Ordering::SeqCst);
        } else {
            self.0.fetch_and(!SHARED, Ordering::SeqCst);
        }
    }
}

/// A lane's side: whether its own queue has anything in it.
pub(crate) struct Busy(AtomicBool);

impl Busy {
    pub(crate) fn new() -> Busy {
        Busy(AtomicBool::new(false))
    }

    /// Announces work, then looks at the gate. `false`: the gate is closed, and the announcement is taken back;
    /// whoever closed it may have seen it, so the shared queue must be run now.
    #[inline]
    pub(crate) fn enter(&self, gate: &Gate) -> bool {
        self.0.swap(true, Ordering::SeqCst);
        if gate.look().is_closed() {
            self.leave();
            return false;
        }
        true
    }

    /// Everything is done. Sequentially consistent too: whoever leaves looks at the gate next, and a closer
    /// that has still seen the lane busy relies on that.
    #[inline]
    pub(crate) fn leave(&self) {
        self.0.swap(false, Ordering::SeqCst);
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
