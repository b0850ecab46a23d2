//! Counts the requests of a channel so that any thread can read the count while the channel's owner works.

use crate::sync::{AtomicU32, Ordering};

/// Requests that a channel has taken, and those that were returned. Both counts only grow, and wrap.
pub(crate) struct Tally {
    taken: AtomicU32,
    given: AtomicU32,
}

impl Tally {
    pub(crate) fn new() -> Tally {
        Tally { taken: AtomicU32::new(0), given: AtomicU32::new(0) }
    }

    /// A request is about to be submitted.
    #[inline]
    pub(crate) fn take(&self) {
        self.taken.fetch_add(1, Ordering::Release);
    }

    /// A request has completed. If its completion was visible in a ring before, it has left the ring.
    #[inline]
    pub(crate) fn give(&self) {
        self.given.fetch_add(1, Ordering::Release);
    }

    /// Number of requests that have not completed; `unread` returns how many have completed but were not returned.
    /// The result is never less than the true number at some moment during the call.
    ///
    /// The order of the reads ensures that. A request that is read from the ring during the call had not been
    /// returned when `given` was read, so it is counted as completed at most once. A request that is taken during the
    /// call is counted.
    pub(crate) fn left(&self, unread: impl FnOnce() -> u32) -> u32 {
        let given = self.given.load(Ordering::Acquire);
        let unread = unread();
        let taken = self.taken.load(Ordering::Acquire);
        taken.wrapping_sub(given).saturating_sub(unread)
    }
}
