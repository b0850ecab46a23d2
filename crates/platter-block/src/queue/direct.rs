//! The queue of one lane of a device without an elevator.
//!
//! A common bio (one that fits into a request, of a batch without neighbours to merge it with) goes from the batch
//! straight to the driver ([`DirectQueue::start_common`]). Any other waits in the backlog, from which requests are
//! made when the driver takes them ([`DirectQueue::next`]): bios that follow each other become one request then.
//!
//! Flushes, barriers and writes that need a flush go through the shared queue, so this queue never gets any.

use super::doubt::Doubts;
use super::family::Families;
use super::pause::Pauses;
use super::zeroes::Zeroes;
use super::{Rest, Settings, append};
use crate::bio::{Bio, Flags, Op};
use crate::counters::Counters;
use crate::driver::{Chain, Completion, Driver, Geometry, Started};
use crate::request::Marks;
use crate::segment::Segment;
use crate::time::Time;
use crate::trace::Sink;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

mod admit;
mod lane;
mod late;
mod outcome;
mod run;
mod setup;

pub use lane::DirectLane;
use run::Run;

/// The conditions under which a bio is common, from limits, features and size of the device.
struct Common {
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
    /// The bio's memory, if it needs no further checks. `None` proves nothing.
    #[inline(always)]
    fn covers(&self, bio: &Bio) -> Option<Segment> {
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
            && !bio.flags().intersects(Flags::ORDERED.union(Flags::ATOMIC))
            && bio.deadline().is_none();
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

    fn bios_mut(&mut self) -> impl Iterator<Item = &mut Bio> {
        self.bio.iter_mut().chain(&mut self.more)
    }
}

/// What a parent waits for.
enum Role {
    /// All parts of a split.
    Split,
    /// Zeroes that are being written over its range.
    Zeroes(Zeroes),
}

/// The queue of one lane.
pub struct DirectQueue {
    common: Common,
    slots: Vec<Slot>,
    free: Vec<u32>,
    in_flight: u32,
    /// Something needs the slow paths: `attention`, a trace, a timeout or a freeze.
    care: bool,
    /// Some bios wait for other reasons than the depth, or the driver has requests that were given up.
    attention: bool,
    /// The driver has completed a request with an error.
    error: bool,
    frozen: bool,
    /// No timer is due before this time. There may be none that is due at it.
    alarm: Time,
    done: Vec<Bio>,
    counters: Arc<Counters>,
    geometry: Geometry,
    settings: Settings,
    /// FUA if the driver is told of it, else no flag.
    fua: Flags,
    /// Bios with any of these flags are not merged.
    unmergeable: Flags,
    /// The largest size that the device has had.
    largest: u64,
    /// Bios that have a request but have not started, in order.
    backlog: VecDeque<Bio>,
    /// Number of requests that the backlog makes.
    runs: u32,
    /// The last request of the backlog, if the backlog is not empty.
    tail: Option<Run>,
    /// Bios that wait for a free request.
    waiting: VecDeque<Bio>,
    /// Bios of failed or partly completed requests, to be retried one by one before all others.
    retries: VecDeque<Bio>,
    paused: Pauses,
    doubts: Doubts,
    /// Number of requests with the driver whose bios have all been given up.
    quarantined: u32,
    /// Nothing can start because given-up requests hold the whole depth.
    stuck: bool,
    /// Whether write-zeroes is carried out by writing zeroes.
    writes_zeroes: bool,
    families: Families<Role>,
    spare: Vec<Bio>,
    /// Empty lists for merged bios.
    spare_lists: Vec<Vec<Bio>>,
    /// No deadline passes before this time. The bio that had this deadline may be gone.
    next_deadline: Option<Time>,
    sink: Option<Box<dyn Sink>>,
}

/// Completions of equal operation and start, counted together.
struct Group {
    op: Op,
    started: Time,
    count: u64,
    bytes: u64,
}

impl Group {
    #[inline]
    fn count(&self, now: Time, counters: &Counters) {
        if self.count == 0 {
            return;
        }
        counters.latency_of(self.op).record_many(now.since(self.started).0, self.count);
        match self.op {
            Op::Read => counters.bytes_read.add(self.bytes),
            Op::Write => counters.bytes_written.add(self.bytes),
            _ => {}
        }
    }
}

impl DirectQueue {
    /// Gives the common bios at the front of a batch to the driver, up to the first that is not common or must wait.
    /// Returns how many the driver took. The memory of the others has not been checked.
    #[inline(always)]
    pub fn start_common<D: Driver>(&mut self, now: Time, batch: &mut VecDeque<Bio>, driver: &mut D) -> u32 {
        if self.care || !self.backlog.is_empty() {
            return 0;
        }
        let before = self.in_flight;
        let most = self.settings.depth.min(self.settings.nr_requests);
        while self.in_flight < most
            && let Some(bio) = batch.front()
        {
            let has_neighbour = match batch.get(1) {
                Some(next) => next.pos() == bio.pos().wrapping_add(bio.len()) && self.common.merges,
                None => false,
            };
            let piece = self.common.covers(bio).or_else(|| self.covers_command(bio));
            let Some(piece) = piece.filter(|_| !has_neighbour) else { break };
            let Some(tag) = self.free.pop() else {
                self.grow(1);
                continue;
            };
            let slot = &mut self.slots[tag as usize];
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
            let Some(slot) = self.slots.get_mut(completion.tag as usize) else {
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
            self.free.push(completion.tag);
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

    /// Whether the driver has completed a request with an error since the last call.
    #[inline]
    pub(crate) fn take_error(&mut self) -> bool {
        core::mem::take(&mut self.error)
    }

    /// Appends completed bios, oldest first.
    #[inline]
    pub fn take_done(&mut self, out: &mut Vec<Bio>) {
        append(out, &mut self.done);
    }

    /// Whether completed bios can be taken.
    #[inline]
    pub fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    /// Requests in the backlog and with the driver.
    #[inline]
    fn used(&self) -> u32 {
        self.in_flight + self.runs
    }

    /// Whether the queue still holds requests, and whether all of them have started.
    #[inline]
    pub fn rest(&self) -> Rest {
        match self.attention {
            true if self.is_drained() => Rest::Settled,
            true => Rest::Waits,
            false if self.used() == 0 => Rest::Settled,
            false if self.runs == 0 => Rest::Started,
            false => Rest::Waits,
        }
    }

    /// Whether [`DirectQueue::next`] might return a request after a completion or a timer.
    #[inline]
    pub fn has_work(&self) -> bool {
        self.runs > 0 || !self.retries.is_empty()
    }

    /// Runs the timers that are due at `now`. Returns whether one was due; the driver may then have requests that
    /// nothing waits for any more.
    #[inline]
    pub fn tick(&mut self, now: Time) -> bool {
        now >= self.alarm && self.run_timers(now)
    }
}
