//! The queue of one lane of a device without an elevator.
//!
//! A common bio (one that fits into a request, of a batch without neighbours to merge it with) goes from the batch
//! straight to the driver ([`DirectQueue::start_common`]). Any other waits in the backlog, from which requests are
//! made when the driver takes them ([`DirectQueue::next`]): bios that follow each other become one request then.
//!
//! Flushes, barriers and writes that need a flush go through the shared queue, so this queue never gets any.

use super::Settings;
use super::body::Queue;
use super::ends::Group;
use crate::bio::{Bio, Flags, Op};
use crate::counters::Counters;
use crate::driver::{Chain, Completion, Driver, Geometry, Started};
use crate::request::Marks;
use crate::segment::Segment;
use crate::time::Time;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

mod backlog;

use backlog::Run;

/// The conditions under which a bio is common, from limits, features and size of the device.
pub(super) struct Common {
    block_mask: u64,
    /// Alignments of memory addresses and of the lengths of segments, minus one.
    memory_mask: u64,
    length_mask: u64,
    /// Most bytes of a request; 0 if the limit depends on position or memory: then no bio is common.
    max_len: u64,
    size: u64,
    /// Number of operations that a common bio may have: reads, and writes unless the device is read-only.
    ops: u8,
    /// Neighbours in a batch are merged.
    merges: bool,
}

impl Common {
    pub(super) fn new(geometry: &Geometry, merges: bool) -> Common {
        let limits = &geometry.limits;
        let uniform = limits.segment_boundary == 0 && limits.chunk == 0 && limits.max_segments > 0;
        let max_len = u64::from(limits.max_transfer.min(limits.max_segment_size));
        Common {
            block_mask: u64::from(limits.logical_block - 1),
            memory_mask: u64::from(limits.memory_align - 1),
            length_mask: u64::from(limits.length_align - 1),
            max_len: if uniform { max_len } else { 0 },
            size: geometry.size,
            ops: if geometry.features.read_only { 1 } else { 2 },
            merges,
        }
    }

    /// The bio's memory, if it needs no further checks. `None` proves nothing.
    #[inline(always)]
    pub(super) fn covers(&self, bio: &Bio) -> Option<Segment> {
        const { assert!(Op::Read as u8 == 0 && Op::Write as u8 == 1) };
        let (pos, len) = (bio.pos(), bio.len());
        let piece = bio.single_segment()?;
        let misaligned = ((pos | len) & self.block_mask)
            | (piece.addr() as u64 & self.memory_mask)
            | (len & self.length_mask);
        let is_common = misaligned == 0
            && len.wrapping_sub(1) < self.max_len
            && len <= self.size
            && pos <= self.size - len
            && (bio.op() as u8) < self.ops
            && !bio.flags().intersects(Flags::ORDERED.union(Flags::ATOMIC));
        is_common.then_some(piece)
    }
}

/// A request with the driver. Its index is its tag.
struct Slot {
    /// The request's first bio; `None`: the slot is free.
    bio: Option<Bio>,
    /// The bios merged with it.
    more: Vec<Bio>,
    started: Time,
    /// The request is one bio of its submitter, and nothing but its completion is expected of it.
    plain: bool,
    marks: Marks,
}

impl Slot {
    const FREE: Slot =
        Slot { bio: None, more: Vec::new(), started: Time(0), plain: false, marks: Marks::NONE };

    fn bios(&self) -> impl Iterator<Item = &Bio> {
        self.bio.iter().chain(&self.more)
    }
}

/// The requests of one lane. Only those that the driver has are stored as requests; the others are made of the bios in the
/// backlog when the driver takes them.
pub struct Backlog {
    common: Common,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Bios that have a request but have not started, in order.
    bios: VecDeque<Bio>,
    /// Number of requests that the backlog makes.
    runs: u32,
    /// The last request of the backlog, if the backlog is not empty.
    tail: Option<Run>,
    /// Empty lists for merged bios.
    spare_lists: Vec<Vec<Bio>>,
}

/// The queue of one lane.
pub type DirectQueue = Queue<Backlog>;

impl DirectQueue {
    /// A queue for a disk. Its settings for elevators and the order of barriers are ignored.
    pub fn new(geometry: Geometry, settings: Settings, counters: Arc<Counters>) -> DirectQueue {
        let settings = settings.at_least_one();
        let requests = settings.nr_requests as usize;
        let backlog = Backlog {
            common: Common::new(&geometry, settings.merges),
            slots: Vec::new(),
            free: Vec::new(),
            bios: VecDeque::with_capacity(requests),
            runs: 0,
            tail: None,
            spare_lists: Vec::new(),
        };
        let mut queue = Queue::over(backlog, (geometry, settings), counters, requests);
        queue.grow(settings.nr_requests);
        queue
    }

    /// Adds slots.
    #[cold]
    fn grow(&mut self, count: u32) {
        let Backlog { slots, free, .. } = &mut self.store;
        let old = slots.len();
        slots.resize_with(old + count as usize, || Slot::FREE);
        free.extend((old as u32..slots.len() as u32).rev());
    }

    /// Gives the common bios at the front of a batch to the driver, up to the first that is not common or must wait.
    /// Returns how many the driver took. The memory of the others has not been checked.
    #[inline(always)]
    pub fn start_common<D: Driver>(&mut self, now: Time, batch: &mut VecDeque<Bio>, driver: &mut D) -> u32 {
        if self.care || !self.store.bios.is_empty() {
            return 0;
        }
        let before = self.in_flight;
        let most = self.settings.depth.min(self.settings.nr_requests);
        while self.in_flight < most
            && let Some(bio) = batch.front()
        {
            let has_neighbour = match batch.get(1) {
                Some(next) => next.pos() == bio.pos().wrapping_add(bio.len()) && self.store.common.merges,
                None => false,
            };
            let common = if has_neighbour { None } else { self.store.common.covers(bio) };
            let Some(piece) = common.or_else(|| self.covers_command(bio)) else { break };
            let Some(tag) = self.store.free.pop() else {
                self.grow(1);
                continue;
            };
            let slot = &mut self.store.slots[tag as usize];
            // The slot was free, so there is nothing to drop.
            core::mem::forget(core::mem::replace(&mut slot.bio, batch.pop_front()));
            (slot.started, slot.plain) = (now, true);
            let Some(bio) = &slot.bio else { break };
            let request = Started {
                tag,
                op: bio.op(),
                pos: bio.pos(),
                len: bio.len(),
                fua: false,
                atomic: false,
                ioprio: bio.ioprio(),
                piece: Some(piece),
                chain: Chain::One(bio),
                limits: &self.geometry.limits,
            };
            self.in_flight += 1;
            if !driver.queue(now, &request) {
                self.count_common(before);
                self.refused(now, tag);
                return self.in_flight - before;
            }
        }
        self.count_common(before);
        self.in_flight - before
    }

    /// Counts common bios that were given to the driver; `before` is the number in flight before.
    #[inline(always)]
    fn count_common(&mut self, before: u32) {
        let count = self.in_flight - before;
        self.counters.bios.add(u64::from(count));
        self.counters.requests.add(u64::from(count));
        self.counters.dispatched_in_a_row(before, count);
    }

    /// The driver has completed requests. Returns how many of the completions were for requests that it did not have,
    /// which is a broken contract.
    #[inline(always)]
    pub fn complete(&mut self, now: Time, completions: &mut Vec<Completion>) -> u64 {
        let (mut broken, mut plain) = (0, 0);
        let mut group = Group { op: Op::Read, started: now, count: 0, bytes: 0 };
        for &completion in completions.iter() {
            let Some(slot) = self.store.slots.get_mut(completion.tag as usize) else {
                broken += 1;
                continue;
            };
            if self.care || !slot.plain {
                broken += u64::from(!self.complete_with_care(now, completion));
                continue;
            }
            let Some(mut bio) = slot.bio.take_if(|bio| bio.len() as i64 == completion.result) else {
                broken += u64::from(!self.complete_with_care(now, completion));
                continue;
            };
            slot.plain = false;
            self.store.free.push(completion.tag);
            self.in_flight -= 1;
            plain += 1;
            if slot.started != group.started || bio.op() != group.op {
                group.count(now, &self.counters);
                group = Group { op: bio.op(), started: slot.started, count: 0, bytes: 0 };
            }
            group.count += 1;
            group.bytes += bio.len();
            bio.finish();
            self.done.push(bio);
        }
        completions.clear();
        group.count(now, &self.counters);
        self.counters.completions.add(plain);
        self.counters.bios_completed.add(plain);
        broken
    }
}
