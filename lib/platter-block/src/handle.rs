//! Open handles, as a device tells them apart to follow each reader's stream.
//!
//! A handle is one open file description on a device. Every bio carries the number of its handle; the device
//! finds per-handle state (readahead, counts) by it.

use crate::hint::ReadaheadCounters;

/// The number of an open handle. No two handles open in a process at the same time have the same number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HandleId(pub u32);

impl HandleId {
    /// The device itself: I/O that comes through no handle of its own.
    pub const DEVICE: HandleId = HandleId(0);
}

/// Size classes of reads: 1, 2, 4, ... pages. The last class also has all larger reads.
pub const READ_CLASSES: usize = 16;

/// The counts of a cache for one handle, or for all handles of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HandleCounters {
    /// Counts of the readahead policy.
    pub readahead: ReadaheadCounters,
    /// Pages that were cached when they were requested. For one handle these are only pages that were taken under the lock of the
    /// cache: what a handle copies, or gets by reference, without the lock counts for the device only.
    pub hits: u64,
    /// Pages that were not cached when they were requested. Pages that a call requests behind its first MiB, or in another shard
    /// than its first page, count as read ahead.
    pub misses: u64,
    /// Pages that were read before they were requested.
    pub pages_read_ahead: u64,
    /// Pages read ahead and requested later.
    pub pages_used: u64,
    /// Pages read ahead and evicted without having been requested.
    pub pages_evicted_unused: u64,
    /// Reads from the device below, by [size class](HandleCounters::class_of).
    pub reads: [u64; READ_CLASSES],
}

impl HandleCounters {
    /// The class of a read of `pages` pages: class n has reads of 2^n to 2^(n+1) - 1 pages.
    #[inline]
    pub const fn class_of(pages: u32) -> usize {
        let class = pages.checked_ilog2();
        match class {
            Some(class) if (class as usize) < READ_CLASSES => class as usize,
            Some(_) => READ_CLASSES - 1,
            None => 0,
        }
    }

    /// Counts a read of `pages` pages from the device below.
    #[inline]
    pub fn count_read(&mut self, pages: u32) {
        self.reads[HandleCounters::class_of(pages)] += 1;
    }

    /// Adds the counts of another handle.
    pub fn merge(&mut self, other: &HandleCounters) {
        let (sum, more) = (&mut self.readahead, &other.readahead);
        sum.closed_by_miss += more.closed_by_miss;
        sum.closed_by_hit += more.closed_by_hit;
        sum.shrunk += more.shrunk;
        sum.contiguous += more.contiguous;
        sum.random += more.random;
        sum.windows += more.windows;
        sum.lookups += more.lookups;
        self.hits += other.hits;
        self.misses += other.misses;
        self.pages_read_ahead += other.pages_read_ahead;
        self.pages_used += other.pages_used;
        self.pages_evicted_unused += other.pages_evicted_unused;
        for (sum, count) in self.reads.iter_mut().zip(&other.reads) {
            *sum += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_count_is_merged() {
        let readahead = ReadaheadCounters {
            closed_by_miss: 1,
            closed_by_hit: 2,
            shrunk: 3,
            contiguous: 4,
            random: 5,
            windows: 6,
            lookups: 7,
        };
        let one = HandleCounters {
            readahead,
            hits: 8,
            misses: 9,
            pages_read_ahead: 10,
            pages_used: 11,
            pages_evicted_unused: 12,
            reads: core::array::from_fn(|class| class as u64),
        };
        let mut sum = HandleCounters::default();
        sum.merge(&one);
        assert_eq!(sum, one);
        sum.merge(&one);
        assert_eq!((sum.readahead.lookups, sum.pages_evicted_unused, sum.reads[15]), (14, 24, 30));
    }

    #[test]
    fn reads_are_counted_by_powers_of_two() {
        let mut counters = HandleCounters::default();
        [1, 2, 3, 4, 32, 63, u32::MAX].into_iter().for_each(|pages| counters.count_read(pages));
        assert_eq!(counters.reads[..6], [1, 2, 1, 0, 0, 2]);
        assert_eq!(counters.reads[READ_CLASSES - 1], 1);
    }
}
