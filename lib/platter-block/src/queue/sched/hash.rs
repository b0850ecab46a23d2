//! Hash of queued requests by one of their ends, for finding merges (the 2.6 core's back-merge hash is keyed
//! by end sector in the same way).

use alloc::vec;
use alloc::vec::Vec;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Entry {
    key: u64,
    next: u32,
    linked: bool,
}

pub(super) struct MergeHash {
    buckets: Vec<u32>,
    entries: Vec<Entry>,
    shift: u32,
}

impl MergeHash {
    pub(super) fn new(capacity: usize) -> MergeHash {
        let buckets = (capacity * 2).next_power_of_two().max(64);
        let entry = Entry { key: 0, next: NONE, linked: false };
        MergeHash {
            buckets: vec![NONE; buckets],
            entries: vec![entry; capacity],
            shift: u64::BITS - buckets.trailing_zeros(),
        }
    }

    #[inline]
    fn bucket(&self, key: u64) -> usize {
        // Fibonacci hashing of the sector number.
        ((key >> 9).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize
    }

    #[inline]
    pub(super) fn insert(&mut self, index: u32, key: u64) {
        if index as usize >= self.entries.len() {
            self.entries.resize(index as usize + 1, Entry { key: 0, next: NONE, linked: false });
        }
        let bucket = self.bucket(key);
        self.entries[index as usize] = Entry { key, next: self.buckets[bucket], linked: true };
        self.buckets[bucket] = index;
    }

    #[inline]
    pub(super) fn remove(&mut self, index: u32) {
        let Some(&Entry { key, next, linked: true }) = self.entries.get(index as usize) else { return };
        self.entries[index as usize].linked = false;
        let bucket = self.bucket(key);
        if self.buckets[bucket] == index {
            self.buckets[bucket] = next;
            return;
        }
        let mut at = self.buckets[bucket];
        while let Some(entry) = self.entries.get_mut(at as usize) {
            if entry.next == index {
                entry.next = next;
                return;
            }
            at = entry.next;
        }
    }

    /// The number of requests that a search for this key looks at if none fits.
    pub(super) fn looks(&self, key: u64) -> usize {
        let next = |at: &u32| self.entries.get(*at as usize).map(|entry| entry.next);
        let first = self.buckets[self.bucket(key)];
        core::iter::successors(Some(first), next).take_while(|&at| at != NONE).count()
    }

    /// The first request with this key for which `fits` returns true.
    #[inline]
    pub(super) fn find(&self, key: u64, mut fits: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut at = self.buckets[self.bucket(key)];
        while let Some(entry) = self.entries.get(at as usize) {
            if entry.key == key && fits(at) {
                return Some(at);
            }
            at = entry.next;
        }
        None
    }
}
