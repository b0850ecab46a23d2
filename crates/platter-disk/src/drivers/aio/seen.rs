//! How many requests a context still has, for threads that do not own it.

use super::syscalls::Context;
use platter_block::driver::Outstanding;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The requests of a channel, as any thread may count them. Both counts only grow, and wrap.
pub(super) struct Seen {
    context: Arc<Context>,
    /// Staged, listeners included.
    taken: AtomicU32,
    /// Of those, done as far as the channel has noticed.
    given: AtomicU32,
    /// An event in the ring says that the kernel is done with a request for good.
    final_events: bool,
    beside: Arc<dyn Outstanding>,
}

impl Seen {
    pub(super) fn new(context: Arc<Context>, beside: Arc<dyn Outstanding>, final_events: bool) -> Seen {
        Seen { context, taken: AtomicU32::new(0), given: AtomicU32::new(0), final_events, beside }
    }

    /// A request is about to be submitted. For the owner only.
    pub(super) fn take(&self) {
        self.taken.store(self.taken.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
    }

    /// A request is done, and its event was read. For the owner only.
    pub(super) fn give(&self) {
        self.given.store(self.given.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
    }
}

impl Outstanding for Seen {
    fn outstanding(&self) -> u32 {
        // In this order. An event that is read meanwhile leaves the ring before it is counted as given, so it is counted
        // at most once; what is taken meanwhile is counted. So the answer may be too high, never too low.
        let given = self.given.load(Ordering::Acquire);
        let unread = if self.final_events { self.context.unread() } else { 0 };
        let left = self.taken.load(Ordering::Acquire).wrapping_sub(given);
        left.saturating_sub(unread) + self.beside.outstanding()
    }
}
