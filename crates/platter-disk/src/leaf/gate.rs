//! The gate of a device: what keeps lanes that share nothing else in order around a barrier, and tells them what has
//! changed.
//!
//! A lane looks at the gate once per batch; while it is closed the lane's bios go to the shared queue, where
//! the barrier is. Whoever closes the gate can then wait until every lane's own queue is empty: a lane
//! announces that it becomes busy before it looks at the gate, and the closer closes before it looks at the
//! lanes, both sequentially consistent, so at least one of the two sees the other (Dekker's argument).

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// All bios go through the shared queue: the device has an elevator.
const SHARED: u64 = 1 << 63;
/// All bios go through the shared queue: a range of the device is in doubt.
const IN_DOUBT: u64 = 1 << 62;
/// All bios go through the shared queue, which fails them: requests that were given up hold all of the depth.
const STUCK: u64 = 1 << 61;
/// How often the gate is closed.
const CLOSINGS: u64 = (1 << 32) - 1;
/// How often something has changed that lanes look up, modulo 2^24.
const CHANGE: u64 = 1 << 32;
const CHANGES: u64 = ((1 << 24) - 1) * CHANGE;

/// State of a gate as seen at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct View(u64);

impl View {
    /// What no gate looks like.
    pub(crate) const NEVER: View = View(u64::MAX);

    /// Nothing new may start on a lane's own queue.
    #[inline]
    pub(crate) fn is_closed(self) -> bool {
        self.0 & CLOSINGS != 0
    }

    /// Everything goes through the shared queue.
    #[inline]
    pub(crate) fn is_shared(self) -> bool {
        self.0 & (SHARED | IN_DOUBT | STUCK) != 0
    }

    /// A range is in doubt, or nothing can start.
    pub(crate) fn is_doubtful(self) -> bool {
        self.0 & (IN_DOUBT | STUCK) != 0
    }

    /// The device has an elevator.
    pub(crate) fn has_elevator(self) -> bool {
        self.0 & SHARED != 0
    }

    /// Nothing can start.
    pub(crate) fn is_stuck(self) -> bool {
        self.0 & STUCK != 0
    }

    /// The open gate of a device without an elevator and without doubt, with what has changed until now.
    pub(crate) fn open(self) -> View {
        View(self.0 & CHANGES)
    }
}

/// How often the gate is closed, the device's mode, and how often something has changed.
pub(crate) struct Gate(AtomicU64);

impl Gate {
    pub(crate) fn new(shared: bool) -> Gate {
        Gate(AtomicU64::new(if shared { SHARED } else { 0 }))
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

    fn set(&self, bit: u64, on: bool) {
        if on {
            self.0.fetch_or(bit, Ordering::SeqCst);
        } else {
            self.0.fetch_and(!bit, Ordering::SeqCst);
        }
    }

    /// Sets the mode.
    pub(crate) fn set_shared(&self, shared: bool) {
        self.set(SHARED, shared);
    }

    /// Says whether a range is in doubt, and whether nothing can start.
    pub(crate) fn set_doubt(&self, in_doubt: bool, stuck: bool) {
        self.set(IN_DOUBT, in_doubt);
        self.set(STUCK, stuck);
    }

    /// Has every lane look up what has changed before its next batch.
    pub(crate) fn announce_change(&self) {
        let mut now = self.0.load(Ordering::SeqCst);
        loop {
            // Not an addition: the highest change must not carry into the modes.
            let next = (now & !CHANGES) | (now.wrapping_add(CHANGE) & CHANGES);
            match self.0.compare_exchange_weak(now, next, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return,
                Err(other) => now = other,
            }
        }
    }
}

/// Nothing is in the lane's own queue.
const IDLE: u32 = 0;
/// The lane's owner runs it, or has left requests in it that have not started.
const BUSY: u32 = 1;
/// The lane's driver has everything that is in its queue, and its owner does something else.
const STARTED: u32 = 2;
/// The same, and a barrier has gone ahead because the device has completed all of it.
const COUNTED: u32 = 3;

/// A lane's side: whether its own queue has anything in it. A barrier waits for lanes that are busy.
///
/// Only the lane's owner reports completions. So that a lane that is not run does not hold up a barrier for ever, its
/// owner says when the driver has everything; whoever waits may then ask the driver, and if the device has completed
/// all of it, [counts](Busy::count) the lane as idle. That takes a compare-and-exchange, and what the owner does next (a new batch,
/// another attempt at a request) begins with an exchange: one of the two sees the other.
pub(crate) struct Busy(AtomicU32);

impl Busy {
    pub(crate) fn new() -> Busy {
        Busy(AtomicU32::new(IDLE))
    }

    /// Announces work, then looks at the gate. `false`: it does not look as the lane `expected`, and the announcement is
    /// taken back; whoever closed it may have seen it, so the shared queue must be run now.
    #[inline]
    pub(crate) fn enter(&self, gate: &Gate, expected: View) -> bool {
        self.0.swap(BUSY, Ordering::SeqCst);
        if gate.look() != expected {
            self.leave();
            return false;
        }
        true
    }

    /// Announces further work of a lane that is busy; it must look at the gate next. `true`: a barrier has gone ahead of
    /// what is in the lane's queue, which therefore must not be started again.
    #[inline]
    pub(crate) fn go_on(&self) -> bool {
        self.0.swap(BUSY, Ordering::SeqCst) == COUNTED
    }

    /// The driver of a lane that is busy has everything.
    #[inline]
    pub(crate) fn all_started(&self) {
        // Nothing else writes while the lane says that it is busy.
        if self.0.load(Ordering::Relaxed) == BUSY {
            self.0.store(STARTED, Ordering::Release);
        }
    }

    /// Everything is done. Sequentially consistent too: whoever leaves looks at the gate next, and a closer
    /// that has still seen the lane busy relies on that.
    #[inline]
    pub(crate) fn leave(&self) {
        self.0.swap(IDLE, Ordering::SeqCst);
    }

    /// What a barrier has to know of the lane.
    pub(crate) fn look(&self) -> Seen {
        match self.0.load(Ordering::SeqCst) {
            IDLE | COUNTED => Seen::Idle,
            STARTED => Seen::Started,
            _ => Seen::Busy,
        }
    }

    /// A barrier goes ahead of what the driver has of a lane that was seen as [started](Seen::Started). `is_complete`
    /// says whether the device has completed it; it is asked once the owner can start nothing more unnoticed. `false`:
    /// the device has not, or the owner has come back, and the barrier has to wait.
    pub(crate) fn count(&self, is_complete: impl FnOnce() -> bool) -> bool {
        let change = |from, to| self.0.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst);
        match change(STARTED, COUNTED) {
            Ok(_) if is_complete() => true,
            Ok(_) => {
                // If the owner has come back it knows that it was counted, and fails what it might have resumed.
                let _ = change(COUNTED, STARTED);
                false
            }
            Err(seen) => matches!(seen, IDLE | COUNTED),
        }
    }
}

/// A lane as a barrier sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Nothing has to be waited for.
    Idle,
    /// The driver has everything; if the device has completed all of it, the barrier may go ahead.
    Started,
    /// Only the lane's owner can bring this to an end.
    Busy,
}
