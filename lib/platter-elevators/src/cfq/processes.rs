//! Records of processes in a bounded table: found by key, kept while they have requests, and otherwise reused
//! in order of last use.

use alloc::vec::Vec;
use core::ops::{Index, IndexMut, Range};

const NONE: u32 = u32::MAX;

/// Smallest number of records, so that processes without requests keep their history for a while.
const LEAST: usize = 1024;

/// Largest number of records: slots are 16-bit numbers (see [`Requests`](super::Requests)).
const MOST: usize = 1 << 16;

#[derive(Clone, Copy, Debug)]
struct Record<T> {
    key: u64,
    /// Number of requests that hold it.
    held: u32,
    /// The next record of the same bucket.
    next_in_bucket: u32,
    /// Neighbours in the list of records that no request holds.
    older: u32,
    newer: u32,
    value: T,
}

/// A table of at most 65536 records with a `T` each.
///
/// Each request holds its process's record, so a record with requests is not reused. If all records are held,
/// a new process shares a record with another; that does not happen if there is a record for each possible
/// request.
#[derive(Clone, Debug)]
pub(crate) struct Processes<T> {
    records: Vec<Record<T>>,
    /// First record of each bucket; a power of two of them.
    buckets: Vec<u32>,
    /// Ends of the list of records that no request holds.
    oldest: u32,
    newest: u32,
    bound: usize,
}

impl<T: Copy + Default> Processes<T> {
    /// An empty table without room.
    pub(crate) fn new() -> Processes<T> {
        Processes { records: Vec::new(), buckets: Vec::new(), oldest: NONE, newest: NONE, bound: 0 }
    }

    /// Makes room for the processes of `requests` requests; returns for how many there is room.
    pub(crate) fn reserve(&mut self, requests: usize) -> usize {
        self.bound_to(requests.clamp(LEAST, MOST));
        self.bound
    }

    fn bound_to(&mut self, bound: usize) {
        if bound <= self.bound {
            return;
        }
        self.bound = bound;
        self.records.reserve(bound - self.records.len());
        self.buckets.clear();
        self.buckets.resize(2 * bound.next_power_of_two(), NONE);
        for slot in 0..self.records.len() as u32 {
            self.hash(slot);
        }
    }

    #[inline]
    fn bucket(&self, key: u64) -> usize {
        // A multiplicative hash, whose upper bits are the good ones.
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & (self.buckets.len() - 1)
    }

    /// The record of a process.
    #[inline]
    pub(crate) fn find(&self, key: u64) -> Option<u32> {
        if self.buckets.is_empty() {
            return None;
        }
        let mut slot = self.buckets[self.bucket(key)];
        while let Some(record) = self.records.get(slot as usize) {
            if record.key == key {
                return Some(slot);
            }
            slot = record.next_in_bucket;
        }
        None
    }

    /// The record of a process, held by one more request. If the process had none, a record with the default
    /// value is made; of the records that no request holds, `keep` is not reused for it.
    #[inline]
    pub(crate) fn hold(&mut self, key: u64, keep: Option<u32>) -> u32 {
        let slot = match self.find(key) {
            Some(slot) => slot,
            None => self.make(key, keep),
        };
        if self.records[slot as usize].held == 0 {
            self.unlink(slot);
        }
        self.records[slot as usize].held += 1;
        slot
    }

    /// A request releases its record.
    #[inline]
    pub(crate) fn release(&mut self, slot: u32) {
        let record = &mut self.records[slot as usize];
        record.held = record.held.saturating_sub(1);
        if record.held == 0 {
            self.link_newest(slot);
        }
    }

    /// Clears a record that no request holds and makes it the first to be reused.
    pub(crate) fn forget(&mut self, slot: u32) {
        if self.records[slot as usize].held > 0 {
            return;
        }
        self.unlink(slot);
        let next = self.oldest;
        self.records[slot as usize].value = T::default();
        self.records[slot as usize].older = NONE;
        self.records[slot as usize].newer = next;
        self.oldest = slot;
        match self.records.get_mut(next as usize) {
            Some(record) => record.older = slot,
            None => self.newest = slot,
        }
    }

    /// The slots in use.
    pub(crate) fn slots(&self) -> Range<u32> {
        0..self.records.len() as u32
    }

    /// The key of the record's process.
    pub(crate) fn key(&self, slot: u32) -> u64 {
        self.records[slot as usize].key
    }

    #[cold]
    fn make(&mut self, key: u64, keep: Option<u32>) -> u32 {
        if self.bound == 0 {
            self.bound_to(LEAST);
        }
        if self.records.len() < self.bound {
            let slot = self.records.len() as u32;
            let (held, next_in_bucket, older, newer) = (0, NONE, NONE, NONE);
            self.records.push(Record { key, held, next_in_bucket, older, newer, value: T::default() });
            self.hash(slot);
            self.link_newest(slot);
            return slot;
        }
        let mut slot = self.oldest;
        if Some(slot) == keep {
            slot = self.records[slot as usize].newer;
        }
        if slot == NONE {
            return (self.bucket(key) % self.records.len()) as u32;
        }
        self.unhash(slot);
        self.records[slot as usize].key = key;
        self.records[slot as usize].value = T::default();
        self.hash(slot);
        slot
    }

    fn hash(&mut self, slot: u32) {
        let bucket = self.bucket(self.records[slot as usize].key);
        self.records[slot as usize].next_in_bucket = self.buckets[bucket];
        self.buckets[bucket] = slot;
    }

    fn unhash(&mut self, slot: u32) {
        let Record { key, next_in_bucket, .. } = self.records[slot as usize];
        let bucket = self.bucket(key);
        if self.buckets[bucket] == slot {
            self.buckets[bucket] = next_in_bucket;
            return;
        }
        let mut at = self.buckets[bucket];
        while let Some(record) = self.records.get_mut(at as usize) {
            if record.next_in_bucket == slot {
                record.next_in_bucket = next_in_bucket;
                return;
            }
            at = record.next_in_bucket;
        }
    }

    #[inline]
    fn link_newest(&mut self, slot: u32) {
        let older = self.newest;
        self.records[slot as usize].older = older;
        self.records[slot as usize].newer = NONE;
        self.newest = slot;
        match self.records.get_mut(older as usize) {
            Some(record) => record.newer = slot,
            None => self.oldest = slot,
        }
    }

    #[inline]
    fn unlink(&mut self, slot: u32) {
        let Record { older, newer, .. } = self.records[slot as usize];
        match self.records.get_mut(older as usize) {
            Some(record) => record.newer = newer,
            None => self.oldest = newer,
        }
        match self.records.get_mut(newer as usize) {
            Some(record) => record.older = older,
            None => self.newest = older,
        }
    }
}

impl<T> Index<u32> for Processes<T> {
    type Output = T;
    #[inline]
    fn index(&self, slot: u32) -> &T {
        &self.records[slot as usize].value
    }
}

impl<T> IndexMut<u32> for Processes<T> {
    #[inline]
    fn index_mut(&mut self, slot: u32) -> &mut T {
        &mut self.records[slot as usize].value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A full table of four: processes 10 to 13, in this order of last use, with 1 to 4 as values.
    fn full() -> Processes<u32> {
        let mut table = Processes::new();
        table.bound_to(4);
        for (key, value) in (10..14).zip(1..) {
            let slot = table.hold(key, None);
            table[slot] = value;
        }
        for key in 10..14 {
            let slot = table.find(key).expect("a record");
            table.release(slot);
        }
        table
    }

    fn value(table: &Processes<u32>, key: u64) -> Option<u32> {
        table.find(key).map(|slot| table[slot])
    }

    #[test]
    fn the_least_recently_used_record_is_reused() {
        let mut table = full();
        let again = table.hold(10, None);
        table.release(again);
        let new = table.hold(99, None);
        assert_eq!((table[new], value(&table, 11)), (0, None), "a new record in the place of the oldest");
        assert_eq!([10, 12, 13].map(|key| value(&table, key)), [Some(1), Some(3), Some(4)]);
    }

    #[test]
    fn held_and_kept_records_stay() {
        let mut table = full();
        table.hold(10, None);
        let keep = table.find(11);
        table.hold(99, keep);
        assert_eq!([10, 11, 12, 13].map(|key| value(&table, key)), [Some(1), Some(2), None, Some(4)]);
    }

    #[test]
    fn a_forgotten_record_goes_first() {
        let mut table = full();
        table.forget(table.find(13).expect("a record"));
        assert_eq!(value(&table, 13), Some(0), "its history is forgotten");
        table.hold(99, None);
        assert_eq!([10, 13].map(|key| value(&table, key)), [Some(1), None]);
    }

    #[test]
    fn without_a_free_record_processes_share() {
        let mut table = full();
        let slots: Vec<u32> = (10..50).map(|key| table.hold(key, None)).collect();
        assert!(slots.iter().all(|&slot| slot < 4));
        assert_eq!([10, 13].map(|key| value(&table, key)), [Some(1), Some(4)]);
        slots.iter().for_each(|&slot| table.release(slot));
        table.hold(99, None);
        assert_eq!(value(&table, 99), Some(0), "there is room again");
    }

    #[test]
    fn a_larger_bound_keeps_what_is_there() {
        let mut table = full();
        assert_eq!(table.reserve(5), LEAST);
        assert_eq!(table.reserve(1 << 20), MOST);
        table.hold(99, None);
        assert_eq!([10, 11, 12, 13, 99].map(|key| value(&table, key)), [1, 2, 3, 4, 0].map(Some));
        assert_eq!(table.slots().map(|slot| table.key(slot)).collect::<Vec<_>>(), [10, 11, 12, 13, 99]);
    }
}
