//! From the backlog to the driver and back: requests that start, and completions that are not plain.

use super::{Backlog, DirectQueue, Slot};
use crate::bio::{Bio, Flags, Op};
use crate::driver::{Chain, Completion, Started};
use crate::queue::body::{Queue, Store};
use crate::queue::pause::take_matching;
use crate::queue::{MARKS, NO_PARENT};
use crate::request::Marks;
use crate::time::Time;
use crate::trace::{Action, Event};
use alloc::vec::Vec;

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
        self.counters.dispatched(self.in_flight);
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
        let result = self.take_back(tag, slot.marks, result);
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
