//! What is kept of each queue: one for each process and class, and one for each priority of asynchronous writes.

use super::service::CLASSES;
use crate::bio::{Class, Context, IoPrio};
use crate::elevator::{Fifos, ListId, RequestId, RequestInfo};
use crate::time::{Span, Time};
use alloc::vec::Vec;

/// Number of the class that is served only in gaps.
pub(super) const IDLE: usize = CLASSES - 1;

/// Level of those who have said nothing.
const DEFAULT_LEVEL: u8 = 4;

/// A jump of more sectors than this is a seek.
pub(super) const SEEK_SECTORS: u64 = 800;
/// More seeks than this of the last 32 requests make a queue seeky.
const SEEKY: u32 = 19;

/// Why a queue is raised in weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Why {
    /// It is not.
    #[default]
    Not,
    /// It had been idle for long: somebody may be waiting for a program to start or answer.
    Interactive,
    /// Its requests come at a steady, moderate rate.
    SoftRealTime,
    /// It is asynchronous and was not raised for a while.
    Async,
}

/// Weight raising of a queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Raise {
    pub(super) why: Why,
    /// When it began, or ended if it has.
    pub(super) since: Option<Time>,
    /// How long it may last.
    pub(super) limit: Span,
    /// Sectors received meanwhile.
    pub(super) service: u64,
}

/// Mean think time: 7/8 of the old and 1/8 of the new, in units of 1/256.
#[derive(Clone, Copy, Debug, Default)]
struct Think {
    samples: u64,
    total: u64,
}

impl Think {
    fn add(&mut self, time: Span) {
        self.samples = (7 * self.samples + 256) / 8;
        self.total = (7 * self.total + 256 * time.0) / 8;
    }

    /// The mean, once it stands on a few samples.
    fn mean(&self) -> Option<Span> {
        (self.samples > 80).then(|| Span((self.total + 128) / self.samples))
    }
}

/// A queue: a process, or a priority of asynchronous writes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Proc {
    key: u64,
    next_in_bucket: u32,
    pub(super) class: usize,
    pub(super) sync: bool,
    pub(super) weight: u64,
    pub(super) queued: u32,
    pub(super) dispatched: u32,
    /// The request to dispatch next.
    pub(super) next: Option<RequestId>,
    /// Budget of the next service, in sectors.
    pub(super) max_budget: u64,
    /// Budget of this service, and what of it is used up.
    pub(super) budget: u64,
    pub(super) service: u64,
    /// Whether the oldest request was looked at in this service.
    pub(super) fifo_checked: bool,
    /// The weight under which it is counted as busy, or 0.
    pub(super) counted: u64,
    /// Whether it was raised when it was counted.
    pub(super) counted_raised: bool,
    pub(super) raise: Raise,
    /// When it was last left without requests.
    pub(super) idle_since: Option<Time>,
    /// When a next request would be slow enough for soft real time.
    pub(super) soft_rt_from: Time,
    /// When it last became backlogged, and the sectors it has received since.
    pub(super) backlogged_since: Time,
    pub(super) backlogged_service: u64,
    pub(super) burst: u32,
    pub(super) in_large_burst: bool,
    pub(super) exited: bool,
    /// The last 32 requests, a bit each: whether it was a seek.
    seeks: u32,
    last_end: Option<u64>,
    last_done: Option<Time>,
    think: Think,
}

impl Proc {
    /// A request has come; `longest` is the longest think time worth telling from longer ones.
    pub(super) fn note_arrival(&mut self, now: Time, info: &RequestInfo, longest: Span) {
        let jump = self.last_end.is_some_and(|last| info.pos.abs_diff(last) > SEEK_SECTORS * 512);
        self.seeks = self.seeks << 1 | u32::from(jump);
        self.last_end = Some(info.end());
        if let Some(done) = self.last_done
            && self.queued == 0
            && self.dispatched == 0
        {
            self.think.add(Span(now.since(done).0.min(longest.0)));
        }
    }

    pub(super) fn note_done(&mut self, now: Time) {
        self.last_done = Some(now);
    }

    /// Whether its requests are scattered.
    pub(super) fn is_seeky(&self) -> bool {
        self.seeks.count_ones() > SEEKY
    }

    /// Whether its next request can be expected within `window`.
    pub(super) fn thinks_within(&self, window: Span) -> bool {
        !self.exited && self.think.mean().is_none_or(|mean| mean <= window)
    }

    #[inline]
    pub(super) fn is_raised(&self) -> bool {
        self.raise.why != Why::Not
    }
}

/// Priority class by number, highest first; its share of the name of a queue.
fn class_of(ioprio: IoPrio) -> usize {
    match ioprio.class() {
        Class::RealTime => 0,
        Class::None | Class::BestEffort => 1,
        Class::Idle => IDLE,
    }
}

fn level_of(ioprio: IoPrio) -> u8 {
    match ioprio.class() {
        Class::None => DEFAULT_LEVEL,
        Class::Idle => 7,
        Class::RealTime | Class::BestEffort => ioprio.level(),
    }
}

/// Weight of a priority: 80 for level 0 to 10 for level 7.
fn weight_of(ioprio: IoPrio) -> u64 {
    (8 - u64::from(level_of(ioprio))) * 10
}

/// What tells queues apart: the process, or for asynchronous writes the level; and the class.
#[inline]
pub(super) fn key_of(info: &RequestInfo) -> u64 {
    let class = (class_of(info.ioprio) as u64) << 60;
    match info.sync {
        true => class | info.context.task(),
        false => class | 1 << 63 | u64::from(level_of(info.ioprio)),
    }
}

const NONE: u32 = u32::MAX;

/// The list of the records that are at rest.
const RESTING: ListId = ListId::new(0);

/// Records of queues, found by key. One that is at rest (nothing queued, dispatched or waited for) stays known
/// until its record is needed for another; the one that has rested longest goes first.
#[derive(Clone, Debug, Default)]
pub(super) struct Procs {
    records: Vec<Proc>,
    /// First record of each chain of keys.
    buckets: Vec<u32>,
    free: Vec<u32>,
    /// Records at rest, in the order in which they came to it.
    resting: Option<Fifos<()>>,
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
    /// Makes room for so many records.
    pub(super) fn reserve(&mut self, records: usize) {
        let old = self.records.len();
        if records <= old {
            return;
        }
        self.records.resize(records, Proc::default());
        self.free.reserve(records - self.free.len());
        self.free.extend((old as u32..records as u32).rev());
        self.resting.get_or_insert_with(|| Fifos::new(1)).reserve(records);
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

    /// A new record for a request, and whether it was another's before. `None` when none is free or at rest.
    pub(super) fn make(&mut self, info: &RequestInfo) -> Option<(u32, bool)> {
        let (record, was_used) = match self.free.pop() {
            Some(record) => (record, false),
            None => {
                let (id, ()) = self.resting.as_mut()?.pop_front(RESTING)?;
                self.unlink(id.index);
                (id.index, true)
            }
        };
        self[record] =
            Proc { key: key_of(info), class: class_of(info.ioprio), sync: info.sync, ..Proc::default() };
        self.link(record);
        Some((record, was_used))
    }

    /// The record is in use, with the weight that its latest request has.
    #[inline]
    pub(super) fn wake(&mut self, record: u32, info: &RequestInfo) {
        if let Some(resting) = &mut self.resting {
            resting.remove(as_id(record));
        }
        let it = &mut self[record];
        it.weight = weight_of(info.ioprio);
        it.exited = false;
    }

    /// The record is at rest from now on.
    #[inline]
    pub(super) fn rest(&mut self, record: u32) {
        if let Some(resting) = &mut self.resting {
            resting.push_back(RESTING, as_id(record), ());
        }
    }

    /// Whether a record belongs to a thread, or with thread 0 to any of the process.
    pub(super) fn belongs(&self, record: u32, context: Context) -> bool {
        let (key, task) = (self[record].key, context.task());
        let own = key & ((1 << 60) - 1);
        self[record].sync && (own == task || task & 0xffff == 0 && own >> 16 == task >> 16)
    }
}
