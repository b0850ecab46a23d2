//! How many requests a channel has, as any thread may count them while the channel's owner works.

use crate::sync::{AtomicU32, Ordering};

/// Requests that a channel has taken, and those of them that were given back. Both counts only grow, and wrap.
pub(crate) struct Tally {
    taken: AtomicU32,
    given: AtomicU32,
}

impl Tally {
    pub(crate) fn new() -> Tally {
        Tally { taken: AtomicU32::new(0), given: AtomicU32::new(0) }
    }

    /// A request is about to be handed over.
    #[inline]
    pub(crate) fn take(&self) {
        self.taken.fetch_add(1, Ordering::Release);
    }

    /// A request is done. Where it was seen to be done in a ring before, it has left the ring.
    #[inline]
    pub(crate) fn give(&self) {
        self.given.fetch_add(1, Ordering::Release);
    }

    /// Requests that are not done, where `unread` says how many are done although they were not given back. Never less than
    /// there are at some moment during the call.
    ///
    /// The order is the argument. A request that is read from the ring meanwhile was not given back yet when `given` was
    /// looked at, so it is counted as done once at most. One that is taken meanwhile is counted.
    pub(crate) fn left(&self, unread: impl FnOnce() -> u32) -> u32 {
        let given = self.given.load(Ordering::Acquire);
        let unread = unread();
        let taken = self.taken.load(Ordering::Acquire);
        taken.wrapping_sub(given).saturating_sub(unread)
    }
}
