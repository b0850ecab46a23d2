//! Hash of queued requests by both of their ends, for finding merges (the 2.6 core's back-merge hash is keyed
//! by end sector in the same way).

use alloc::vec;
use alloc::vec::Vec;

const NONE: u32 = u32::MAX;

/// In place of the next request in a bucket: the request is in no bucket.
const ABSENT: u32 = u32::MAX - 1;

/// An end of a request, by which it can be found.
#[derive(Clone, Copy)]
pub(super) enum Side {
    Start,
    End,
}

/// A request, by both sides: its position there, and the next request in the bucket of that.
#[derive(Clone, Copy)]
struct Entry {
    keys: [u64; 2],
    next: [u32; 2],
}

impl Entry {
    const ABSENT: Entry = Entry { keys: [0; 2], next: [ABSENT; 2] };
}

pub(super) struct MergeHash {
    /// The first request of each bucket, by both sides.
    buckets: Vec<[u32; 2]>,
    entries: Vec<Entry>,
    shift: u32,
}

impl MergeHash {
    pub(super) fn new(capacity: usize) -> MergeHash {
        let buckets = (capacity * 2).next_power_of_two().max(64);
        MergeHash {
            buckets: vec![[NONE; 2]; buckets],
            entries: vec![Entry::ABSENT; capacity],
            shift: u64::BITS - buckets.trailing_zeros(),
        }
    }

    #[inline]
    fn bucket(&self, key: u64) -> usize {
        // Fibonacci hashing of the sector number.
        ((key >> 9).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize
    }

    /// Adds a request that is in no bucket.
    #[inline(always)]
    pub(super) fn insert(&mut self, index: u32, start: u64, end: u64) {
        if index as usize >= self.entries.len() {
            self.entries.resize(index as usize + 1, Entry::ABSENT);
        }
        self.link(Side::Start, index, start);
        self.link(Side::End, index, end);
    }

    /// Removes a request, if it is there.
    #[inline]
    pub(super) fn remove(&mut self, index: u32) {
        self.unlink(Side::Start, index);
        self.unlink(Side::End, index);
    }

    /// Adds a side of a request that was [removed](MergeHash::unlink).
    #[inline]
    pub(super) fn link(&mut self, side: Side, index: u32, key: u64) {
        let bucket = self.bucket(key);
        let (first, entry) = (&mut self.buckets[bucket][side as usize], &mut self.entries[index as usize]);
        entry.keys[side as usize] = key;
        entry.next[side as usize] = core::mem::replace(first, index);
    }

    /// Removes a side of a request, if it is there.
    #[inline]
    pub(super) fn unlink(&mut self, side: Side, index: u32) {
        let side = side as usize;
        let Some(entry) = self.entries.get_mut(index as usize) else { return };
        let next = core::mem::replace(&mut entry.next[side], ABSENT);
        if next == ABSENT {
            return;
        }
        let key = entry.keys[side];
        let bucket = self.bucket(key);
        let first = &mut self.buckets[bucket][side];
        if *first == index {
            *first = next;
        } else {
            let before = *first;
            self.unlink_behind(side, before, index, next);
        }
    }

    fn unlink_behind(&mut self, side: usize, mut before: u32, index: u32, next: u32) {
        while let Some(entry) = self.entries.get_mut(before as usize) {
            if entry.next[side] == index {
                entry.next[side] = next;
                return;
            }
            before = entry.next[side];
        }
    }

    /// The number of requests that a search for this key looks at if none fits.
    pub(super) fn looks(&self, side: Side, key: u64) -> usize {
        let next = |at: &u32| self.entries.get(*at as usize).map(|entry| entry.next[side as usize]);
        let first = self.buckets[self.bucket(key)][side as usize];
        core::iter::successors(Some(first), next).take_while(|&at| at != NONE).count()
    }

    /// Whether there may be a request that ends at `start` or one that starts at `end`. Mostly there is neither.
    #[inline(always)]
    pub(super) fn may_touch(&self, start: u64, end: u64) -> bool {
        let before = self.buckets[self.bucket(start)][Side::End as usize];
        let behind = self.buckets[self.bucket(end)][Side::Start as usize];
        before & behind != NONE
    }

    /// The first request with this key for which `fits` returns true.
    #[inline]
    pub(super) fn find(&self, side: Side, key: u64, mut fits: impl FnMut(u32) -> bool) -> Option<u32> {
        let side = side as usize;
        let mut at = self.buckets[self.bucket(key)][side];
        while let Some(entry) = self.entries.get(at as usize) {
            if entry.keys[side] == key && fits(at) {
                return Some(at);
            }
            at = entry.next[side];
        }
        None
    }
}
