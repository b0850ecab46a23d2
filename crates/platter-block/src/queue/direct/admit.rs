//! From bios that are not common to requests: checks, splitting, merging, the limit of requests, and dispatch.

use super::{DirectQueue, Role, Run, Slot};
use crate::bio::{Bio, Flags, Op};
use crate::command::MemoryUse;
use crate::defect::{self, Defect};
use crate::driver::{Chain, Geometry, Started};
use crate::fault::{Fault, Kind};
use crate::queue::family::Parent;
use crate::queue::pause::queue_fault;
use crate::queue::split::{check, fits, front_bytes};
use crate::queue::zeroes::{AT_ONCE, Zeroes, can_write};
use crate::queue::{MARKS, NO_PARENT, SPARE_BIOS, is_at_head};
use crate::request::Marks;
use crate::segment::Segment;
use crate::time::Time;
use crate::trace::{Action, Event};
use alloc::vec::Vec;

impl DirectQueue {
    /// Submits a bio whose memory has passed [`Limits::check_memory`](crate::limits::Limits::check_memory). It
    /// completes later through [`DirectQueue::take_done`], or at once if it is invalid.
    pub fn submit(&mut self, now: Time, mut bio: Bio) {
        self.counters.bios.add(1);
        self.trace_bio(now, Action::Queue, &bio);
        let checked = check(&self.geometry, self.largest, &bio);
        if let Err(fault) = checked.and_then(|()| self.admit_in_time(now, &mut bio)) {
            return self.fail(now, bio, fault);
        }
        if defect::is_on(Defect::FuaStripped) && !self.geometry.features.write_cache {
            bio.remove_flags(Flags::FUA | Flags::PREFLUSH);
        }
        self.admit(now, bio);
    }

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
            && !(features.read_only && command.reach().changes())
            && bio.deadline().is_none();
        self.counters.commands_mapped.add(u64::from(is_common));
        is_common.then_some(piece)
    }

    /// Fails a bio of the queue.
    pub(super) fn fail(&mut self, now: Time, mut bio: Bio, fault: Fault) {
        bio.fail(fault);
        self.finish(now, bio);
    }

    /// Admits a bio on its way to the driver, split into as many requests as it needs.
    pub(super) fn admit(&mut self, now: Time, bio: Bio) {
        if fits(&self.geometry.limits, &bio) { self.enqueue(now, bio) } else { self.split(now, bio) }
    }

    /// Puts a bio that fits into one request at the end of the backlog, if a request is free for it or it joins one.
    fn enqueue(&mut self, now: Time, bio: Bio) {
        if is_at_head(&bio) {
            self.enqueue_first(now, bio);
        } else if self.joins_tail(&bio) {
            self.join_tail(now, bio);
        } else if !self.waiting.is_empty() || self.used() >= self.settings.nr_requests {
            self.wait_for_request(now, bio);
        } else {
            self.make_request(now, bio);
        }
    }

    /// Puts a command before everything that has not started. If no request is free, it is the first to get one.
    #[cold]
    fn enqueue_first(&mut self, now: Time, bio: Bio) {
        if self.used() >= self.settings.nr_requests {
            self.counters.request_waits.add(1);
            self.trace_bio(now, Action::Sleep, &bio);
            self.waiting.push_front(bio);
            return self.note_attention();
        }
        self.counters.requests.add(1);
        self.trace_bio(now, Action::GetRequest, &bio);
        self.trace_bio(now, Action::Insert, &bio);
        self.put_back(bio, Vec::new());
    }

    fn joins_tail(&self, bio: &Bio) -> bool {
        self.tail.as_ref().is_some_and(|tail| self.may_join(tail, bio))
    }

    fn join_tail(&mut self, now: Time, bio: Bio) {
        self.counters.back_merges.add(1);
        self.trace_bio(now, Action::BackMerge, &bio);
        self.tail.iter_mut().for_each(|tail| tail.add(&bio));
        self.backlog.push_back(bio);
    }

    fn make_request(&mut self, now: Time, bio: Bio) {
        self.counters.requests.add(1);
        self.trace_bio(now, Action::GetRequest, &bio);
        self.trace_bio(now, Action::Insert, &bio);
        self.tail = Some(Run::of(&bio));
        self.runs += 1;
        self.backlog.push_back(bio);
    }

    #[cold]
    fn wait_for_request(&mut self, now: Time, bio: Bio) {
        if bio.flags().contains(Flags::READAHEAD) {
            return self.fail(now, bio, queue_fault(Kind::WouldBlock));
        }
        self.counters.request_waits.add(1);
        self.trace_bio(now, Action::Sleep, &bio);
        self.waiting.push_back(bio);
        self.note_attention();
    }

    /// Gives requests to bios that waited for one. One that joins a request needs none of its own.
    pub(super) fn wake_waiters(&mut self, now: Time) {
        while let Some(first) = self.waiting.front() {
            let joins = !is_at_head(first) && self.joins_tail(first);
            if !joins && self.used() >= self.settings.nr_requests {
                return;
            }
            let Some(bio) = self.waiting.pop_front() else { return };
            match joins {
                true => self.join_tail(now, bio),
                false if is_at_head(&bio) => self.enqueue_first(now, bio),
                false => self.make_request(now, bio),
            }
        }
    }

    /// Cuts a bio into pieces that fit; it completes when all pieces have.
    #[cold]
    fn split(&mut self, now: Time, bio: Bio) {
        if bio.op() == Op::WriteZeroes && self.writes_zeroes && can_write(&self.geometry.limits) {
            return self.write_zeroes(now, bio);
        }
        let limits = self.geometry.limits;
        let mut front = front_bytes(&limits, &bio);
        if front == bio.len() {
            return self.enqueue(now, bio);
        }
        let mut rest = self.spare_bio();
        rest.share_window(&bio);
        let parent = self.families.insert(Parent::new(bio, 1, Role::Split));
        while front > 0 && front < rest.len() {
            let mut piece = self.spare_bio();
            rest.split_front(front, &mut piece);
            self.note_split(now, &piece, rest.pos());
            self.enqueue_child(now, piece, parent);
            front = front_bytes(&limits, &rest);
        }
        if front == 0 {
            self.families.count_child(parent);
            rest.set_parent(parent);
            self.fail(now, rest, queue_fault(Kind::BadSegments));
        } else {
            self.enqueue_child(now, rest, parent);
        }
        self.child_done(now, parent, Ok(()));
    }

    fn enqueue_child(&mut self, now: Time, mut child: Bio, parent: u32) {
        self.families.count_child(parent);
        child.set_parent(parent);
        self.enqueue(now, child);
    }

    fn note_split(&mut self, now: Time, piece: &Bio, second: u64) {
        self.counters.splits.add(1);
        if let Some(sink) = &mut self.sink {
            sink.event(&Event { extra: second / 512, ..Event::of_bio(now, Action::Split, piece) });
        }
    }

    /// The device does not support a bio's operation. Returns the bio if there is no substitute.
    #[cold]
    pub(super) fn replace_unsupported(&mut self, now: Time, bio: Bio) -> Option<Bio> {
        let is_over = bio.flags().intersects(Flags::ORPHAN | Flags::LAST);
        if bio.op() != Op::WriteZeroes || is_over || !can_write(&self.geometry.limits) {
            return Some(bio);
        }
        self.writes_zeroes = true;
        self.write_zeroes(now, bio);
        None
    }

    /// Writes zeroes over the range of a bio, which completes when all of them are written.
    #[cold]
    fn write_zeroes(&mut self, now: Time, bio: Bio) {
        self.counters.zeroes_written.add(bio.len());
        let role = Role::Zeroes(Zeroes::of(&bio));
        let at = self.families.insert(Parent::without_memory(bio, 1, role));
        self.child_done(now, at, Ok(()));
    }

    /// Starts further writes of a bio, up to the number allowed in flight.
    pub(super) fn write_more_zeroes(&mut self, now: Time, at: u32) {
        while let Some(child) = self.next_zeroes(at) {
            self.admit(now, child);
        }
    }

    fn next_zeroes(&mut self, at: u32) -> Option<Bio> {
        let mut child = self.spare_bio();
        let parent = self.families.get_mut(at)?;
        let Role::Zeroes(zeroes) = &mut parent.role else { return None };
        if parent.pending > AT_ONCE || zeroes.len == 0 || parent.bio.status().is_err() {
            self.keep_spare(child);
            return None;
        }
        zeroes.next(&self.geometry.limits, (&parent.bio, at), &mut child);
        parent.pending += 1;
        Some(child)
    }

    /// Takes the next request for the driver and counts it as started; `None` if there is none or none may start.
    /// Follow with [`DirectQueue::started`] to hand it over, or with [`DirectQueue::refused`].
    pub fn next(&mut self, now: Time) -> Option<u32> {
        while self.in_flight < self.settings.depth && !self.frozen {
            let (bio, more) = match self.retries.pop_front() {
                Some(bio) => {
                    self.counters.restarts.add(1);
                    self.trace_bio(now, Action::Insert, &bio);
                    (bio, Vec::new())
                }
                None => self.take_run()?,
            };
            if self.doubts.exist() && self.overlaps_doubt(&bio, &more) {
                self.take_apart(bio, more);
                // The request is free now.
                self.attend(now);
            } else {
                return Some(self.start(now, bio, more));
            }
        }
        None
    }

    fn start(&mut self, now: Time, bio: Bio, more: Vec<Bio>) -> u32 {
        let is_own = bio.parent() == NO_PARENT && !bio.flags().intersects(MARKS);
        let plain = more.is_empty() && is_own && bio.op().has_data();
        let tag = match self.free.pop() {
            Some(tag) => tag,
            None => {
                self.slots.push(Slot::FREE);
                self.slots.len() as u32 - 1
            }
        };
        self.slots[tag as usize] = Slot { bio: Some(bio), more, started: now, plain, marks: Marks::NONE };
        self.in_flight += 1;
        self.counters.dispatched(self.in_flight);
        self.trace_slot(now, Action::Issue, tag, 0);
        tag
    }

    /// A started request in the form in which the driver gets it.
    pub fn started(&self, tag: u32) -> Option<Started<'_>> {
        let slot = self.slots.get(tag as usize)?;
        let bio = slot.bio.as_ref()?;
        Some(Started {
            tag,
            op: bio.op(),
            pos: bio.pos(),
            len: slot.bios().map(Bio::len).sum(),
            fua: bio.flags().intersects(self.fua) && bio.op() == Op::Write,
            atomic: bio.flags().contains(Flags::ATOMIC),
            ioprio: bio.ioprio(),
            piece: None,
            chain: if slot.more.is_empty() { Chain::One(bio) } else { Chain::Run(bio, &slot.more) },
            limits: &self.geometry.limits,
        })
    }

    /// The driver had no room: the request goes back to the front of the backlog.
    #[cold]
    pub fn refused(&mut self, now: Time, tag: u32) {
        self.counters.requeues.add(1);
        self.counters.refusals.add(1);
        self.trace_slot(now, Action::Requeue, tag, 0);
        let slot = &mut self.slots[tag as usize];
        let (bio, more) = (slot.bio.take(), core::mem::take(&mut slot.more));
        slot.plain = false;
        self.in_flight -= 1;
        self.free.push(tag);
        if let Some(bio) = bio {
            self.put_back(bio, more);
        }
    }

    /// A bio for the queue's own use.
    fn spare_bio(&mut self) -> Bio {
        self.spare.pop().unwrap_or_else(Bio::flush)
    }

    pub(super) fn keep_spare(&mut self, mut bio: Bio) {
        bio.recycle();
        if self.spare.len() < SPARE_BIOS {
            self.spare.push(bio);
        }
    }

    pub(super) fn trace_bio(&mut self, now: Time, action: Action, bio: &Bio) {
        if let Some(sink) = &mut self.sink {
            sink.event(&Event::of_bio(now, action, bio));
        }
    }

    /// Traces an event of a started request.
    pub(super) fn trace_slot(&mut self, now: Time, action: Action, tag: u32, errno: i32) {
        let slot = &self.slots[tag as usize];
        if let (Some(sink), Some(bio)) = (&mut self.sink, &slot.bio) {
            let flags = slot.bios().fold(Flags::NONE, |flags, bio| flags | bio.flags());
            let len = slot.bios().map(Bio::len).sum();
            sink.event(&Event { flags, len, errno, ..Event::of_bio(now, action, bio) });
        }
    }
}
