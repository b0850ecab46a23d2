//! What is not common in the queue of a lane: bios that wait in the backlog, the requests that are made of them, and completions that are not plain.
//!
//! A request that has not started is a run of bios that follow each other in the backlog. It is put together when the driver takes it, by the
//! rule by which the bios were counted as one request when they came ([`DirectQueue::may_join`]).
//!
//! Example: reads of 4 KiB at 0, 4096, 8192 and 65536 in one batch are two requests of the limit, one of 12 KiB and one of 4.

use super::{Backlog, DirectQueue, Slot};
use crate::bio::{Bio, Flags, IoPrio, Op};
use crate::command::MemoryUse;
use crate::driver::{Chain, Completion, Geometry, Started};
use crate::fault::Kind;
use crate::queue::body::{Queue, Store};
use crate::queue::pause::{queue_fault, take_matching};
use crate::queue::{MARKS, NO_PARENT, is_at_head};
use crate::request::{MAX_BIOS, Marks};
use crate::segment::Segment;
use crate::time::Time;
use crate::trace::{Action, Event};
use alloc::vec::Vec;

/// A request as it grows: one bio, or several that continue each other.
pub(super) struct Run {
    op: Op,
    flags: Flags,
    ioprio: IoPrio,
    pos: u64,
    len: u64,
    segments: u32,
    bios: u32,
}

impl Run {
    fn of(bio: &Bio) -> Run {
        Run {
            op: bio.op(),
            flags: bio.flags(),
            ioprio: bio.ioprio(),
            pos: bio.pos(),
            len: bio.len(),
            segments: u32::from(bio.segment_count()),
            bios: 1,
        }
    }

    fn add(&mut self, bio: &Bio) {
        self.flags = self.flags | bio.flags();
        self.len += bio.len();
        self.segments += u32::from(bio.segment_count());
        self.bios += 1;
    }
}

impl DirectQueue {
    /// Whether a bio may join a request that has not started: it continues it with the same operation and priority,
    /// both are mergeable, and the size stays within the limits.
    fn may_join(&self, run: &Run, bio: &Bio) -> bool {
        let limits = &self.geometry.limits;
        let (len, segments) = (run.len + bio.len(), run.segments + u32::from(bio.segment_count()));
        self.settings.merges
            && run.pos + run.len == bio.pos()
            && run.op == bio.op()
            && run.ioprio == bio.ioprio()
            && !(run.flags | bio.flags()).intersects(self.unmergeable)
            && matches!(run.op, Op::Read | Op::Write | Op::Discard)
            && run.bios < u32::from(MAX_BIOS)
            && len <= limits.max_bytes_at(run.op, run.pos)
            && limits.takes_segments(segments, len)
    }

    /// Takes the bios of the next request out of the backlog.
    fn take_run(&mut self) -> Option<(Bio, Vec<Bio>)> {
        let first = self.store.bios.pop_front()?;
        let mut more = Vec::new();
        let mut run = Run::of(&first);
        while let Some(next) = self.store.bios.front()
            && self.may_join(&run, next)
        {
            if more.capacity() == 0 {
                more = self.store.spare_lists.pop().unwrap_or_default();
            }
            run.add(next);
            more.extend(self.store.bios.pop_front());
        }
        self.store.runs -= 1;
        if self.store.bios.is_empty() {
            self.store.tail = None;
        }
        Some((first, more))
    }

    /// Puts the bios of a request back at the front of the backlog.
    pub(super) fn put_back(&mut self, first: Bio, mut more: Vec<Bio>) {
        if self.store.bios.is_empty() {
            let mut run = Run::of(&first);
            more.iter().for_each(|bio| run.add(bio));
            self.store.tail = Some(run);
        }
        while let Some(bio) = more.pop() {
            self.store.bios.push_front(bio);
        }
        self.store.bios.push_front(first);
        self.store.runs += 1;
        self.keep_list(more);
    }

    /// Keeps an emptied list of merged bios for the next request.
    pub(super) fn keep_list(&mut self, list: Vec<Bio>) {
        if list.capacity() > 0 {
            self.store.spare_lists.push(list);
        }
    }

    /// Bios were taken out of the middle of the backlog: determines anew which requests it makes.
    fn recount(&mut self) {
        let before = self.store.runs;
        let (mut runs, mut last): (u32, Option<Run>) = (0, None);
        for bio in &self.store.bios {
            match &mut last {
                Some(run) if self.may_join(run, bio) => run.add(bio),
                _ => {
                    runs += 1;
                    last = Some(Run::of(bio));
                }
            }
        }
        (self.store.runs, self.store.tail) = (runs, last);
        self.counters.dismantled.add(u64::from(before.saturating_sub(runs)));
        self.counters.requests.add(u64::from(runs.saturating_sub(before)));
    }
}

// From bios that are not common to requests that wait: merging, and the limit of requests.
impl DirectQueue {
    /// The memory of a command that needs no further checks, as [`Common::covers`](super::Common::covers) for transfers.
    #[inline(never)]
    pub(super) fn covers_command(&self, bio: &Bio) -> Option<Segment> {
        let command = bio.command()?;
        let (Geometry { limits, features, .. }, piece) = (&self.geometry, bio.single_segment()?);
        let is_common = features.commands.contains(command.set())
            && command.memory() != MemoryUse::Copied
            && limits.is_aligned(&piece)
            && limits.is_one_piece(&piece)
            && bio.len() <= u64::from(limits.max_transfer)
            && !bio.flags().intersects(Flags::ORDERED | Flags::ATOMIC)
            && !(features.read_only && command.reach().changes());
        self.counters.commands_mapped.add(u64::from(is_common));
        is_common.then_some(piece)
    }

    /// Puts a bio that fits into one request at the end of the backlog, if a request is free for it or it joins one.
    fn add(&mut self, now: Time, bio: Bio) {
        if is_at_head(&bio) {
            self.add_first(now, bio);
        } else if self.joins_tail(&bio) {
            self.join_tail(now, bio);
        } else if !self.waiting[0].is_empty() || self.used() >= self.settings.nr_requests {
            self.wait_for_request(now, bio);
        } else {
            self.make_request(now, bio);
        }
    }

    /// Puts a command before everything that has not started. If no request is free, it is the first to get one.
    #[cold]
    fn add_first(&mut self, now: Time, bio: Bio) {
        if self.used() >= self.settings.nr_requests {
            self.counters.request_waits.add(1);
            self.trace_bio(now, Action::Sleep, &bio);
            self.waiting[0].push_front(bio);
            return self.note_attention();
        }
        self.count_request(now, &bio);
        self.put_back(bio, Vec::new());
    }

    fn count_request(&mut self, now: Time, bio: &Bio) {
        self.counters.requests.add(1);
        self.trace_bio(now, Action::GetRequest, bio);
        self.trace_bio(now, Action::Insert, bio);
    }

    fn joins_tail(&self, bio: &Bio) -> bool {
        self.store.tail.as_ref().is_some_and(|tail| self.may_join(tail, bio))
    }

    fn join_tail(&mut self, now: Time, bio: Bio) {
        self.counters.back_merges.add(1);
        self.trace_bio(now, Action::BackMerge, &bio);
        self.store.tail.iter_mut().for_each(|tail| tail.add(&bio));
        self.store.bios.push_back(bio);
    }

    fn make_request(&mut self, now: Time, bio: Bio) {
        self.count_request(now, &bio);
        self.store.tail = Some(Run::of(&bio));
        self.store.runs += 1;
        self.store.bios.push_back(bio);
    }

    #[cold]
    fn wait_for_request(&mut self, now: Time, bio: Bio) {
        if bio.flags().contains(Flags::READAHEAD) {
            return self.fail(now, bio, queue_fault(Kind::WouldBlock));
        }
        self.counters.request_waits.add(1);
        self.trace_bio(now, Action::Sleep, &bio);
        self.waiting[0].push_back(bio);
        self.note_attention();
    }

    /// Gives requests to bios that waited for one. One that joins a request needs none of its own.
    fn wake_waiters(&mut self, now: Time) {
        while let Some(first) = self.waiting[0].front() {
            let joins = !is_at_head(first) && self.joins_tail(first);
            if !joins && self.used() >= self.settings.nr_requests {
                return;
            }
            let Some(bio) = self.waiting[0].pop_front() else { return };
            match joins {
                true => self.join_tail(now, bio),
                false if is_at_head(&bio) => self.add_first(now, bio),
                false => self.make_request(now, bio),
            }
        }
    }
}

// From the backlog to the driver and back: requests that start, and completions that are not plain.
impl Store for Backlog {
    #[inline]
    fn unstarted(queue: &Queue<Self>) -> u32 {
        queue.store.runs
    }

    fn tags(&self) -> Vec<u32> {
        (0..self.slots.len() as u32).filter(|&tag| self.slots[tag as usize].bio.is_some()).collect()
    }

    fn visit(&mut self, tag: u32, each: impl FnMut(&mut Bio)) {
        let slot = &mut self.slots[tag as usize];
        slot.plain = false;
        slot.bio.iter_mut().chain(&mut slot.more).for_each(each);
    }

    fn marks(&mut self, tag: u32) -> &mut Marks {
        &mut self.slots[tag as usize].marks
    }

    fn started_at(&self, tag: u32) -> (Op, Time) {
        let slot = &self.slots[tag as usize];
        (slot.bio.as_ref().map_or(Op::Read, Bio::op), slot.started)
    }

    fn enqueue(queue: &mut Queue<Self>, now: Time, bio: Bio) {
        queue.add(now, bio);
    }

    fn withdraw(queue: &mut Queue<Self>, which: &dyn Fn(&Bio) -> bool, out: &mut Vec<Bio>) {
        let before = out.len();
        take_matching(&mut queue.store.bios, which, out);
        if out.len() > before {
            queue.recount();
        }
    }

    fn wake(queue: &mut Queue<Self>, now: Time) {
        queue.wake_waiters(now);
    }

    fn next(queue: &mut Queue<Self>, now: Time) -> Option<u32> {
        if queue.in_flight >= queue.settings.depth || queue.quiesced {
            return None;
        }
        let (bio, more) = match queue.retries.pop_front() {
            Some(bio) => {
                queue.counters.restarts.add(1);
                queue.trace_bio(now, Action::Insert, &bio);
                (bio, Vec::new())
            }
            None => queue.take_run()?,
        };
        Some(queue.start(now, bio, more))
    }

    fn request(queue: &Queue<Self>, tag: u32) -> Option<Started<'_>> {
        let slot = queue.store.slots.get(tag as usize)?;
        let bio = slot.bio.as_ref()?;
        Some(Started {
            tag,
            op: bio.op(),
            pos: bio.pos(),
            len: slot.bios().map(Bio::len).sum(),
            fua: bio.flags().intersects(queue.fua) && bio.op() == Op::Write,
            atomic: bio.flags().contains(Flags::ATOMIC),
            ioprio: bio.ioprio(),
            piece: None,
            chain: if slot.more.is_empty() { Chain::One(bio) } else { Chain::Run(bio, &slot.more) },
            limits: &queue.geometry.limits,
        })
    }

    #[cold]
    fn refused(queue: &mut Queue<Self>, now: Time, tag: u32) {
        queue.trace_slot(now, Action::Requeue, tag, 0);
        let slot = &mut queue.store.slots[tag as usize];
        let (bio, more) = (slot.bio.take(), core::mem::take(&mut slot.more));
        slot.plain = false;
        queue.store.free.push(tag);
        if let Some(bio) = bio {
            queue.put_back(bio, more);
        }
    }

    #[inline(always)]
    fn complete(queue: &mut Queue<Self>, now: Time, completions: &mut Vec<Completion>) -> u64 {
        queue.complete(now, completions)
    }

    fn admit_checked(queue: &mut Queue<Self>, now: Time, bio: Bio) {
        queue.admit(now, bio);
    }

    fn set_size(&mut self, size: u64) {
        self.common.size = size;
    }
}

impl DirectQueue {
    fn start(&mut self, now: Time, bio: Bio, more: Vec<Bio>) -> u32 {
        if self.care {
            self.watch_start(now, bio.op());
        }
        let is_own = bio.parent() == NO_PARENT && !bio.flags().intersects(MARKS);
        let plain = more.is_empty() && is_own && bio.op().has_data();
        let tag = match self.store.free.pop() {
            Some(tag) => tag,
            None => {
                self.store.slots.push(Slot::FREE);
                self.store.slots.len() as u32 - 1
            }
        };
        let slot = Slot { bio: Some(bio), more, started: now, plain, marks: Marks::NONE };
        self.store.slots[tag as usize] = slot;
        self.in_flight += 1;
        self.trace_slot(now, Action::Issue, tag, 0);
        tag
    }

    /// Completes any request. `false`: the driver did not have it.
    #[cold]
    pub(super) fn complete_with_care(&mut self, now: Time, completion: Completion) -> bool {
        let Completion { tag, result } = completion;
        let errno = i32::try_from(result.min(0).unsigned_abs()).unwrap_or(i32::MAX);
        if self.store.slots[tag as usize].bio.is_none() {
            return false;
        }
        self.trace_slot(now, Action::Complete, tag, errno);
        let slot = core::mem::replace(&mut self.store.slots[tag as usize], Slot::FREE);
        let Some(first) = slot.bio else { return false };
        self.store.free.push(tag);
        self.in_flight -= 1;
        self.counters.completions.add(1);
        self.counters.latency_of(first.op()).record(now.since(slot.started).0);
        let result = self.take_back(tag, slot.marks, !slot.more.is_empty(), result);
        if slot.more.is_empty() {
            self.complete_single(now, first, result);
        } else {
            self.complete_run(now, first, slot.more, result);
        }
        self.attend(now);
        true
    }

    /// Completes a request of several bios.
    fn complete_run(&mut self, now: Time, first: Bio, mut more: Vec<Bio>, result: i64) {
        let len = first.len() + more.iter().map(Bio::len).sum::<u64>();
        let mut shares = self.shares((first.op(), len), result);
        for bio in core::iter::once(first).chain(more.drain(..)) {
            self.complete_share(now, bio, &mut shares);
        }
        self.keep_list(more);
    }

    /// Traces an event of a started request.
    fn trace_slot(&mut self, now: Time, action: Action, tag: u32, errno: i32) {
        let slot = &self.store.slots[tag as usize];
        if let (Some(sink), Some(bio)) = (&mut self.sink, &slot.bio) {
            let flags = slot.bios().fold(Flags::NONE, |flags, bio| flags | bio.flags());
            let len = slot.bios().map(Bio::len).sum();
            sink.event(&Event { flags, len, errno, ..Event::of_bio(now, action, bio) });
        }
    }
}
