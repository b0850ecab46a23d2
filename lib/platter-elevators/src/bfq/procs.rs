//! The table of queues.

use super::record::{Link, Proc, weight_of};
use alloc::vec::Vec;
use platter_block::bio::Context;
use platter_block::elevator::{Fifos, ListId, RequestId, RequestInfo};
use platter_block::time::Time;

const NONE: u32 = u32::MAX;

/// The list of the records at rest, longest at rest first.
const RESTING: ListId = ListId::new(0);
/// The list of the queues that wait for service, latest first.
const WAITING: ListId = ListId::new(1);

/// Records of queues, found by key. A record at rest (nothing queued, dispatched or waited for) is kept until
/// another queue needs it; the one at rest for longest is reused first.
#[derive(Clone, Debug, Default)]
pub(super) struct Procs {
    records: Vec<Proc>,
    /// First record of each hash bucket.
    buckets: Vec<u32>,
    free: Vec<u32>,
    lists: Option<Fifos<()>>,
}

impl core::ops::Index<u32> for Procs {
    type Output = Proc;
    #[inline]
    fn index(&self, record: u32) -> &Proc {
        &self.records[record as usize]
    }
}

impl core::ops::IndexMut<u32> for Procs {
    #[inline]
    fn index_mut(&mut self, record: u32) -> &mut Proc {
        &mut self.records[record as usize]
    }
}

#[inline]
fn as_id(record: u32) -> RequestId {
    RequestId { index: record, generation: 0 }
}

impl Procs {
    /// Makes room for `records` records.
    pub(super) fn reserve(&mut self, records: usize) {
        let old = self.records.len();
        if records <= old {
            return;
        }
        self.records.resize(records, Proc::default());
        self.free.reserve(records - self.free.len());
        self.free.extend((old as u32..records as u32).rev());
        self.lists.get_or_insert_with(|| Fifos::new(2)).reserve(records);
        self.buckets.clear();
        self.buckets.resize((2 * records).next_power_of_two(), NONE);
        for record in 0..old as u32 {
            if !self.free.contains(&record) {
                self.link(record);
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> + use<> {
        0..self.records.len() as u32
    }

    #[inline]
    fn bucket(&self, key: u64) -> usize {
        let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as usize & (self.buckets.len() - 1)
    }

    fn link(&mut self, record: u32) {
        let bucket = self.bucket(self[record].key);
        self[record].next_in_bucket = core::mem::replace(&mut self.buckets[bucket], record);
    }

    fn unlink(&mut self, record: u32) {
        let next = self[record].next_in_bucket;
        let bucket = self.bucket(self[record].key);
        if self.buckets[bucket] == record {
            self.buckets[bucket] = next;
            return;
        }
        let mut at = self.buckets[bucket];
        while at != NONE {
            if self[at].next_in_bucket == record {
                self[at].next_in_bucket = next;
                return;
            }
            at = self[at].next_in_bucket;
        }
    }

    /// The record of a key.
    #[inline]
    pub(super) fn find(&self, key: u64) -> Option<u32> {
        let mut record = *self.buckets.get(self.bucket(key))?;
        while record != NONE {
            if self[record].key == key {
                return Some(record);
            }
            record = self[record].next_in_bucket;
        }
        None
    }

    /// The queue that a link names, if its record is still its own.
    #[inline]
    pub(super) fn follow(&self, link: Option<Link>) -> Option<u32> {
        link.filter(|link| self[link.record].key == link.key).map(|link| link.record)
    }

    /// Makes a record for a request; also returns whether the record belonged to another queue before. `None` if
    /// no record is free or at rest.
    pub(super) fn make(&mut self, now: Time, info: &RequestInfo) -> Option<(u32, bool)> {
        let (record, was_used) = match self.free.pop() {
            Some(record) => (record, false),
            None => {
                let (id, ()) = self.lists.as_mut()?.pop_front(RESTING)?;
                self.unlink(id.index);
                (id.index, true)
            }
        };
        self[record] = Proc::new(now, info);
        self.link(record);
        Some((record, was_used))
    }

    /// Takes a record into use, with the weight of its latest request.
    #[inline]
    pub(super) fn wake(&mut self, record: u32, info: &RequestInfo) {
        if let Some(lists) = &mut self.lists
            && lists.list_of(as_id(record)) == Some(RESTING)
        {
            lists.remove(as_id(record));
        }
        let it = &mut self[record];
        it.weight = weight_of(info.ioprio);
        it.exited = false;
    }

    /// Puts a record to rest.
    #[inline]
    pub(super) fn rest(&mut self, record: u32) {
        if let Some(lists) = &mut self.lists {
            lists.push_back(RESTING, as_id(record), ());
        }
    }

    /// A queue waits for service now, or is placed anew.
    #[inline]
    pub(super) fn list(&mut self, record: u32) {
        let Some(lists) = &mut self.lists else { return };
        lists.remove(as_id(record));
        match lists.front(WAITING).map(|(first, ())| first) {
            Some(first) => lists.insert_before(first, as_id(record), ()),
            None => lists.push_back(WAITING, as_id(record), ()),
        };
    }

    /// A queue does not wait for service any more.
    #[inline]
    pub(super) fn unlist(&mut self, record: u32) {
        if let Some(lists) = &mut self.lists {
            lists.remove(as_id(record));
        }
    }

    /// The queues that wait for service, latest first.
    pub(super) fn waiting(&self) -> impl Iterator<Item = u32> + '_ {
        self.lists.iter().flat_map(|lists| lists.iter(WAITING)).map(|(id, ())| id.index)
    }

    /// Whether a record belongs to a thread (with thread 0: to any thread of the process).
    pub(super) fn belongs(&self, record: u32, context: Context) -> bool {
        let (own, task) = (self[record].task(), context.task());
        self[record].sync && (own == task || task & 0xffff == 0 && own >> 16 == task >> 16)
    }
}
