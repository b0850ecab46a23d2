//! The requests of one `lio_listio`.

use crate::event::Event;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Counts the requests of a list that have not ended.
pub(crate) struct Group {
    left: AtomicU32,
    failed: AtomicBool,
    event: Event,
}

impl Group {
    /// A group of `members` requests, with the notification that follows the last of them.
    pub(crate) fn new(members: u32, event: Event) -> Group {
        Group { left: AtomicU32::new(members), failed: AtomicBool::new(false), event }
    }

    /// A member has ended. Returns the notification to send if it was the last one.
    pub(crate) fn leave(&self, failed: bool) -> Option<Event> {
        if failed {
            self.failed.store(true, Ordering::Relaxed);
        }
        (self.left.fetch_sub(1, Ordering::AcqRel) == 1).then_some(self.event)
    }

    /// Whether all have ended.
    pub(crate) fn is_over(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0
    }

    /// Whether one has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }
}
