//! What the threads of a block device share.

use crate::admission::Bells;
use crate::events::Log;
use crate::restart::FirstFlush;
use crate::served::Served;
use platter_block::lane::Bell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What all threads of a block device share.
pub(super) struct Shared {
    pub(super) served: Arc<Served>,
    pub(super) memory_bytes: usize,
    pub(super) log: Log,
    /// One for all queues: the kernel's flush is one of the whole block device.
    pub(super) first_flush: FirstFlush,
    hands_on: AtomicBool,
    /// Those of all workers.
    pub(super) bells: Bells,
}

impl Shared {
    pub(super) fn new(
        served: Arc<Served>,
        memory_bytes: usize,
        log: Log,
        first_flush: FirstFlush,
    ) -> Arc<Shared> {
        let (hands_on, bells) = (AtomicBool::new(false), Bells::default());
        Arc::new(Shared { served, memory_bytes, log, first_flush, hands_on, bells })
    }

    /// Ends the workers without an end of the block device: what they have not started is left to the next server.
    pub(super) fn hand_on(&self) {
        self.hands_on.store(true, Ordering::Relaxed);
        self.bells.ring();
    }

    #[inline]
    pub(super) fn hands_on(&self) -> bool {
        self.hands_on.load(Ordering::Relaxed)
    }
}
