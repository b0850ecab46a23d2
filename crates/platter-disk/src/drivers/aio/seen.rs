//! Counts the requests that a context still has, for threads that do not own it.

use super::super::tally::Tally;
use super::syscalls::Context;
use platter_block::driver::Outstanding;
use std::sync::Arc;

/// The requests of a channel, including those that listen to threads, and the ring that tells which have completed.
pub(super) struct Seen {
    context: Arc<Context>,
    pub(super) tally: Tally,
    /// Whether an event in the ring means that the kernel has finished with a request for good.
    final_events: bool,
    beside: Arc<dyn Outstanding>,
}

impl Seen {
    pub(super) fn new(context: Arc<Context>, beside: Arc<dyn Outstanding>, final_events: bool) -> Seen {
        Seen { context, tally: Tally::new(), final_events, beside }
    }
}

impl Outstanding for Seen {
    fn outstanding(&self) -> u32 {
        let unread = || if self.final_events { self.context.unread() } else { 0 };
        self.tally.left(unread) + self.beside.outstanding()
    }
}
