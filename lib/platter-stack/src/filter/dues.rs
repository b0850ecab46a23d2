//! The order of delayed completions around barriers.
//!
//! A filter that keeps the places of bios leaves the order of their effects to the device below, but may delay their
//! completions. A barrier must not complete before what was before it, nor what is behind it before the barrier.

use platter_block::time::Time;
use std::sync::atomic::{AtomicU64, Ordering};

/// The times at which bios of all lanes of a device may complete.
#[derive(Default)]
pub(super) struct Dues {
    /// The latest of all.
    latest: AtomicU64,
    /// The latest of a barrier.
    barrier: AtomicU64,
}

impl Dues {
    /// The earliest time at which a bio that starts now may complete, of which the filter has said `due`.
    #[inline]
    pub(super) fn after(&self, now: Time, due: Time, barrier: bool) -> Time {
        if barrier {
            let due = due.max(Time(self.latest.load(Ordering::Relaxed)));
            self.barrier.fetch_max(due.0, Ordering::Relaxed);
            self.latest.fetch_max(due.0, Ordering::Relaxed);
            return due;
        }
        let due = due.max(Time(self.barrier.load(Ordering::Relaxed)));
        // What may complete at once delays no barrier: filters without delays write nothing here.
        if due > now {
            self.latest.fetch_max(due.0, Ordering::Relaxed);
        }
        due
    }
}
