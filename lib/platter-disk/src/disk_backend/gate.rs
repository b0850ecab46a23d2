//! The gate of a device: keeps otherwise independent lanes in order around a barrier, and tells them of changes.
//!
//! A lane checks the gate once per batch; while it is frozen the lane's bios go to the shared queue, where the
//! barrier is (`freeze.rs`). The thread that freezes it can then wait until every lane's own queue is empty: a lane announces
//! that it becomes busy before it checks the gate, and the thread freezes the gate before it checks the lanes. Both
//! are sequentially consistent, so at least one of the two sees the other (Dekker's argument).

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// All bios go through the shared queue: the device has an elevator.
const SHARED: u64 = 1 << 63;
/// All bios go through the shared queue, which runs the lanes that were closed while a simulated disk had requests of theirs.
const LEFT: u64 = 1 << 62;
/// All bios go through the shared queue, which fails them: the disk does not answer.
const FAILED: u64 = 1 << 61;
/// Number of freezes that have not been thawed.
const FREEZES: u64 = (1 << 32) - 1;
/// Number of changes that lanes have to look up, modulo 2^24.
const CHANGE: u64 = 1 << 32;
const CHANGES: u64 = ((1 << 24) - 1) * CHANGE;

/// The state of a gate at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct View(u64);

impl View {
    /// A value that no gate has.
    pub(crate) const NEVER: View = View(u64::MAX);

    /// Nothing new may start on a lane's own queue.
    #[inline]
    pub(crate) fn is_frozen(self) -> bool {
        self.0 & FREEZES != 0
    }

    /// Everything goes through the shared queue.
    #[inline]
    pub(crate) fn is_shared(self) -> bool {
        self.0 & (SHARED | LEFT | FAILED) != 0
    }

    /// Whether the device has an elevator.
    pub(crate) fn has_elevator(self) -> bool {
        self.0 & SHARED != 0
    }

    /// The disk does not answer.
    pub(crate) fn is_failed(self) -> bool {
        self.0 & FAILED != 0
    }

    /// A simulated disk has requests of closed lanes.
    pub(crate) fn has_leftovers(self) -> bool {
        self.0 & LEFT != 0
    }

    /// The gate of a device that is not frozen, without an elevator whose disk answers, with the present count of changes.
    pub(crate) fn open(self) -> View {
        View(self.0 & CHANGES)
    }
}

/// The number of freezes, the device's mode, and the number of changes.
pub(crate) struct Gate(AtomicU64);

impl Gate {
    pub(crate) fn new(shared: bool) -> Gate {
        Gate(AtomicU64::new(if shared { SHARED } else { 0 }))
    }

    #[inline]
    pub(crate) fn look(&self) -> View {
        View(self.0.load(Ordering::SeqCst))
    }

    /// Freezes the lanes once more.
    pub(crate) fn freeze(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// Undoes one freeze.
    pub(crate) fn thaw(&self) {
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

    /// Sets whether the disk does not answer.
    pub(crate) fn set_failed(&self, failed: bool) {
        self.set(FAILED, failed);
    }

    /// Sets whether a simulated disk has requests of closed lanes.
    pub(crate) fn set_leftovers(&self, left: bool) {
        self.set(LEFT, left);
    }

    /// Makes every lane look up changes before its next batch.
    pub(crate) fn announce_change(&self) {
        let mut now = self.0.load(Ordering::SeqCst);
        loop {
            // Not an addition: the largest count must not carry into the modes.
            let next = (now & !CHANGES) | (now.wrapping_add(CHANGE) & CHANGES);
            match self.0.compare_exchange_weak(now, next, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return,
                Err(other) => now = other,
            }
        }
    }
}

/// The lane's own queue is empty.
const IDLE: u32 = 0;
/// The lane's owner runs it, or has left requests in it that have not started.
const BUSY: u32 = 1;
/// The lane's driver has everything in its queue, and its owner is doing something else.
const STARTED: u32 = 2;
/// The same, and a barrier has passed because the device has completed all of it.
const COUNTED: u32 = 3;

/// The state of a lane's own queue for barriers, which wait for busy lanes.
///
/// Only the lane's owner reports completions. So that a lane that is not run does not hold up a barrier for ever, its
/// owner records when the driver has everything. A waiting thread may then ask the driver, and if the device has
/// completed everything, [counts](Busy::count) the lane as idle. That takes a compare-and-exchange, and the owner's
/// next step (a new batch, a retry of a request) begins with an exchange: one of the two sees the other.
///
/// Example: a lane has three requests with its driver (`STARTED`), and its owner computes for a minute. A barrier asks the driver: none is outstanding. It
/// counts the lane (`COUNTED`) and starts. The owner comes back and finds that one of the three was short. `go_on` tells it that it was
/// counted, so the rest of that request is not sent again, behind the barrier, but fails.
pub(crate) struct Busy(AtomicU32);

impl Busy {
    pub(crate) fn new() -> Busy {
        Busy(AtomicU32::new(IDLE))
    }

    /// Announces work, then checks the gate. `false`: the gate is not as `expected`, and the announcement is
    /// withdrawn. The thread that froze the gate may have seen it, so the shared queue must be run now.
    #[inline]
    pub(crate) fn enter(&self, gate: &Gate, expected: View) -> bool {
        self.0.swap(BUSY, Ordering::SeqCst);
        if gate.look() != expected {
            self.leave();
            return false;
        }
        true
    }

    /// Announces further work of a busy lane, which must check the gate next. `true`: a barrier has passed the
    /// contents of the lane's queue, which must therefore not be retried.
    #[inline]
    pub(crate) fn go_on(&self) -> bool {
        self.0.swap(BUSY, Ordering::SeqCst) == COUNTED
    }

    /// The driver of a busy lane has everything.
    #[inline]
    pub(crate) fn all_started(&self) {
        // No other thread writes while the lane is marked busy.
        if self.0.load(Ordering::Relaxed) == BUSY {
            self.0.store(STARTED, Ordering::Release);
        }
    }

    /// Everything has completed. Sequentially consistent too: the owner checks the gate next, and a thread that froze it and still
    /// saw the lane busy relies on that.
    #[inline]
    pub(crate) fn leave(&self) {
        self.0.swap(IDLE, Ordering::SeqCst);
    }

    /// The lane's state as a barrier needs it.
    pub(crate) fn look(&self) -> Seen {
        match self.0.load(Ordering::SeqCst) {
            IDLE | COUNTED => Seen::Idle,
            STARTED => Seen::Started,
            _ => Seen::Busy,
        }
    }

    /// A barrier passes the requests that the driver has of a lane seen as [started](Seen::Started). `is_complete`
    /// returns whether the device has completed them; it is called once the owner can no longer start anything
    /// unnoticed. `false`: the device has not completed them, or the owner has come back, and the barrier has to
    /// wait.
    pub(crate) fn count(&self, is_complete: impl FnOnce() -> bool) -> bool {
        let change = |from, to| self.0.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst);
        match change(STARTED, COUNTED) {
            Ok(_) if is_complete() => true,
            Ok(_) => {
                // If the owner has come back it knows that it was counted, and fails the requests that it would have
                // retried.
                let _ = change(COUNTED, STARTED);
                false
            }
            Err(seen) => matches!(seen, IDLE | COUNTED),
        }
    }
}

/// The state of a lane as a barrier sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The barrier need not wait.
    Idle,
    /// The driver has everything; if the device has completed all of it, the barrier may pass.
    Started,
    /// Only the lane's owner can complete this.
    Busy,
}
