//! Counts the requests that a context still has, for threads that do not own it.

use super::super::tally::Tally;
use super::syscalls::Context;
use platter_block::driver::Outstanding;
use std::sync::Arc;

/// The requests of a channel whose events are final, including those that listen to threads, and the ring that tells which have completed.
pub(super) struct Seen {
    context: Arc<Context>,
    pub(super) tally: Tally,
    beside: Arc<dyn Outstanding>,
}

impl Seen {
    pub(super) fn new(context: Arc<Context>, beside: Arc<dyn Outstanding>) -> Seen {
        Seen { context, tally: Tally::new(), beside }
    }
}

impl Outstanding for Seen {
    fn outstanding(&self) -> u32 {
        self.tally.left(|| self.context.unread()) + self.beside.outstanding()
    }
}
