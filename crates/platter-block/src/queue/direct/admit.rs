//! From bios that are not common to requests that wait: merging, and the limit of requests.

use super::{DirectQueue, Run};
use crate::bio::{Bio, Flags};
use crate::command::MemoryUse;
use crate::driver::Geometry;
use crate::fault::Kind;
use crate::queue::is_at_head;
use crate::queue::pause::queue_fault;
use crate::segment::Segment;
use crate::time::Time;
use crate::trace::Action;
use alloc::vec::Vec;

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
    pub(super) fn add(&mut self, now: Time, bio: Bio) {
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
    pub(super) fn wake_waiters(&mut self, now: Time) {
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
