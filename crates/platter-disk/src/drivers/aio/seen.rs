//! How many requests a context still has, for threads that do not own it.

use super::super::tally::Tally;
use super::syscalls::Context;
use platter_block::driver::Outstanding;
use std::sync::Arc;

/// The requests of a channel, those that listen to threads included, and the ring that tells which of them are done.
pub(super) struct Seen {
    context: Arc<Context>,
    pub(super) tally: Tally,
    /// An event in the ring says that the kernel is done with a request for good.
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
