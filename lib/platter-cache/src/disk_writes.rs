//! The numbers of writes to a disk and of those that flushes cover, for all shards of a cache: they have one disk, and
//! the flush that one of them begins covers what the others have written before.
//!
//! Shards use it at the same time, each under its own lock only: `tests/interleavings` checks it.

use crate::sync::{AtomicU64, Ordering};

#[derive(Debug)]
pub(super) struct DiskWrites {
    /// The number of the last write that has completed.
    written: AtomicU64,
    /// The last write that a flush covers.
    flushed: AtomicU64,
}

impl Default for DiskWrites {
    /// Before the cache was opened there may have been a write, which counts as the first.
    fn default() -> DiskWrites {
        DiskWrites { written: AtomicU64::new(1), flushed: AtomicU64::new(0) }
    }
}

impl DiskWrites {
    /// A write has completed, successfully or not. Returns its number.
    pub(super) fn wrote(&self) -> u64 {
        self.written.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The number of the last write that has completed: what a flush that begins now covers.
    pub(super) fn last(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// A flush has succeeded that began when this was the last write.
    pub(super) fn flushed(&self, last: u64) {
        self.flushed.fetch_max(last, Ordering::AcqRel);
    }

    /// Whether flushes that have succeeded cover a write.
    pub(super) fn is_flushed(&self, write: u64) -> bool {
        self.flushed.load(Ordering::Acquire) >= write
    }
}
