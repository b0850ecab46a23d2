//! Records of queues: one for each process and class, and one for each priority of asynchronous writes.

use super::service::CLASSES;
use alloc::vec::Vec;
use platter_block::bio::{Class, Context, IoPrio};
use platter_block::elevator::{Fifos, ListId, RequestId, RequestInfo};
use platter_block::time::{Span, Time};

/// Index of the class that is served only in gaps.
pub(super) const IDLE: usize = CLASSES - 1;

/// Level of requests without a priority.
const DEFAULT_LEVEL: u8 = 4;

/// A jump of more sectors than this counts as a seek.
pub(super) const SEEK_SECTORS: u64 = 800;
/// Without seek times only requests shorter than this many sectors can count as seeks.
const SHORT_SECTORS: u64 = 64;
/// More seeks than this of the last 32 requests make a queue seeky.
const SEEKY: u32 = 19;

/// Why the weight of a queue is raised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Why {
    /// It is not raised.
    #[default]
    Not,
    /// It was idle for long: a user may be waiting for a program to start or answer.
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
    /// When the raising began; if it has ended, when it ended.
    pub(super) since: Option<Time>,
    /// Longest duration.
    pub(super) limit: Span,
    /// Sectors received while raised.
    pub(super) service: u64,
}

/// Mean think time: 7/8 of the old mean and 1/8 of the new sample, in units of 1/256.
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

    /// The mean, once it is based on a few samples.
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
    /// Budget of the current service, and the part used.
    pub(super) budget: u64,
    pub(super) service: u64,
    /// Whether this service has checked the oldest request.
    pub(super) fifo_checked: bool,
    /// The weight with which it is counted as busy, or 0.
    pub(super) counted: u64,
    /// Whether it was raised when it was counted.
    pub(super) counted_raised: bool,
    pub(super) raise: Raise,
    /// When it last ran out of requests.
    pub(super) idle_since: Option<Time>,
    /// Earliest arrival time of a next request that counts as soft real time.
    pub(super) soft_rt_from: Time,
    /// When it last became backlogged, and the sectors received since.
    pub(super) backlogged_since: Time,
    pub(super) backlogged_service: u64,
    pub(super) burst: u32,
    pub(super) in_large_burst: bool,
    pub(super) exited: bool,
    /// One bit for each of the last 32 requests: whether it was a seek.
    seeks: u32,
    last_end: Option<u64>,
    last_done: Option<Time>,
    think: Think,
}

impl Proc {
    /// Records the arrival of a request; think times above `longest` are not told apart.
    pub(super) fn note_arrival(&mut self, now: Time, info: &RequestInfo, longest: Span, rotational: bool) {
        let costs = rotational || info.len < SHORT_SECTORS * 512;
        let far = self.last_end.is_some_and(|last| info.pos.abs_diff(last) > SEEK_SECTORS * 512);
        let jump = far && costs;
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

/// Index of the priority class, highest first; part of the key of a queue.
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

/// The key of a queue: the process, or for asynchronous writes the level; and the class.
#[inline]
pub(super) fn key_of(info: &RequestInfo) -> u64 {
    let class = (class_of(info.ioprio) as u64) << 60;
    match info.sync {
        true => class | info.context.task(),
        false => class | 1 << 63 | u64::from(level_of(info.ioprio)),
    }
}

const NONE: u32 = u32::MAX;

/// The list of the records at rest.
const RESTING: ListId = ListId::new(0);

/// Records of queues, found by key. A record at rest (nothing queued, dispatched or waited for) is kept until
/// another queue needs it; the one at rest for longest is reused first.
#[derive(Clone, Debug, Default)]
pub(super) struct Procs {
    records: Vec<Proc>,
    /// First record of each hash bucket.
    buckets: Vec<u32>,
    free: Vec<u32>,
    /// Records at rest, in the order in which they came to rest.
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
    /// Makes room for `records` records.
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

    /// Makes a record for a request; also returns whether the record belonged to another queue before. `None` if
    /// no record is free or at rest.
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

    /// Takes a record into use, with the weight of its latest request.
    #[inline]
    pub(super) fn wake(&mut self, record: u32, info: &RequestInfo) {
        if let Some(resting) = &mut self.resting {
            resting.remove(as_id(record));
        }
        let it = &mut self[record];
        it.weight = weight_of(info.ioprio);
        it.exited = false;
    }

    /// Puts a record to rest.
    #[inline]
    pub(super) fn rest(&mut self, record: u32) {
        if let Some(resting) = &mut self.resting {
            resting.push_back(RESTING, as_id(record), ());
        }
    }

    /// Whether a record belongs to a thread (with thread 0: to any thread of the process).
    pub(super) fn belongs(&self, record: u32, context: Context) -> bool {
        let (key, task) = (self[record].key, context.task());
        let own = key & ((1 << 60) - 1);
        self[record].sync && (own == task || task & 0xffff == 0 && own >> 16 == task >> 16)
    }
}
