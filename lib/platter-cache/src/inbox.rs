//! Work that threads leave for the next one that takes a lock, so that they need not take it themselves.
//!
//! What is left may be what tasks wait for. The holder of the lock says before it releases it whether any do, and then
//! looks into the inbox; a thread that leaves an entry asks after that. So one of the two sees the other:
//! `tests/interleavings` checks it.

use crate::sync::{AtomicU64, Mailbox, Ordering};

/// With this many entries, the thread that leaves one takes the lock itself.
const MANY: usize = 16;

pub(super) struct Inbox<T> {
    entries: Mailbox<T>,
    /// 1: a task waits for what may be left.
    urgent: AtomicU64,
}

impl<T> Default for Inbox<T> {
    fn default() -> Inbox<T> {
        Inbox { entries: Mailbox::default(), urgent: AtomicU64::default() }
    }
}

impl<T> Inbox<T> {
    /// Whether a task waits for what may be left.
    pub(super) fn is_urgent(&self) -> bool {
        self.urgent.load(Ordering::SeqCst) != 0
    }

    /// Leaves an entry. Returns whether the caller has to take the lock, because a task waits or there are many entries.
    pub(super) fn put(&self, entry: T) -> bool {
        self.entries.post([entry]) >= MANY || self.is_urgent()
    }

    /// Moves all entries to the end of `out`. For the holder of the lock.
    pub(super) fn take(&self, out: &mut Vec<T>) {
        self.entries.take(out);
    }

    /// Says whether a task waits, before the lock is released. Returns whether there are entries to take first.
    pub(super) fn set_urgent(&self, urgent: bool) -> bool {
        let urgent_now = u64::from(urgent);
        // Only the holder of the lock stores; an earlier store is seen at least as early.
        if self.urgent.load(Ordering::Relaxed) != urgent_now {
            self.urgent.store(urgent_now, Ordering::SeqCst);
        }
        urgent && !self.entries.is_empty()
    }
}
