//! Bios of a channel that have deadlines, those that are late, and those that wait for late changes: see [`crate::fence`].

use super::Channel;
use crate::closed::Closed;
use crate::deferred::Section;
use crate::fence::{Due, Entry, LateId, Place, TIMED_OUT, UNSETTLED, Waiter, end_late, take_due};
use platter_block::bio::Bio;
use platter_block::fault::{Fault, Stage};
use platter_block::lane::{Cancel, Lane};
use platter_block::time::Time;
use std::collections::VecDeque;
use std::sync::Arc;

/// A bio that is late.
struct Late {
    identity: usize,
    change: Option<LateId>,
}

/// What a channel remembers of its bios; nothing of those without a deadline.
#[derive(Default)]
pub(super) struct LateBios {
    /// Bios with a deadline that the device has.
    due: Vec<Due>,
    /// No deadline passes before this time.
    next_due: Option<Time>,
    late: Vec<Late>,
    /// Bios that wait because they overlap a late change, and when to look at them again.
    held: VecDeque<Bio>,
    look_at: Option<Time>,
    /// Bios that have ended without the device.
    done: Vec<Bio>,
    /// For the fence, once something was late.
    place: Option<Arc<Place>>,
    /// Any of the lists may have something: all that is looked at while there is nothing.
    is_watchful: bool,
}

impl LateBios {
    /// Whether bios that come back have to be looked at, or deadlines may pass.
    #[inline]
    pub(super) fn is_watchful(&self) -> bool {
        self.is_watchful
    }

    #[inline]
    pub(super) fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    /// When the channel must be polled even if nothing completes.
    #[inline]
    pub(super) fn next_wakeup(&self) -> Option<Time> {
        let look_at = self.look_at.filter(|_| !self.held.is_empty());
        Time::earliest(self.next_due.filter(|_| !self.due.is_empty()), look_at)
    }

    /// Calls `wait`, in which the channel's thread sleeps until the device has something for it.
    #[inline]
    pub(super) fn while_sleeping(&self, wait: impl FnOnce()) {
        let place = self.place.as_ref().filter(|_| !self.late.is_empty());
        place.iter().for_each(|place| place.set_sleeps(true));
        wait();
        place.iter().for_each(|place| place.set_sleeps(false));
    }

    fn refuse(&mut self, mut bio: Bio, fault: Fault) {
        bio.fail(fault);
        self.done.push(bio);
    }

    /// Forgets the deadline of a bio.
    fn take_due(&mut self, identity: usize) -> Option<Due> {
        let at = self.due.iter().position(|due| due.identity == identity)?;
        Some(self.due.swap_remove(at))
    }
}

impl Channel {
    /// Submits a bio that has a deadline, or while a change is late.
    #[cold]
    pub(super) fn submit_with_care(&mut self, mut bio: Bio) {
        self.late.is_watchful = true;
        // Before a barrier that comes now.
        self.release_held();
        self.timeouts.apply(&self.clock, &mut bio);
        if let Some(due) = take_due(&mut bio) {
            if due.at <= self.clock.now() {
                return self.late.refuse(bio, TIMED_OUT);
            }
            self.late.next_due = Time::earliest(self.late.next_due, Some(due.at));
            self.late.due.push(due);
        }
        self.enter(bio);
    }

    /// Gives a bio to the device, if the fence lets it.
    fn enter(&mut self, bio: Bio) {
        match self.background.fence.admits(self.now, &bio) {
            Entry::Open => self.lane.submit(self.now, bio),
            Entry::Refused => self.end_without(bio, UNSETTLED),
            Entry::Waits => self.hold(bio),
        }
    }

    fn end_without(&mut self, bio: Bio, fault: Fault) {
        self.late.take_due(bio.identity());
        self.late.refuse(bio, fault);
    }

    /// Has a bio wait for the end of a late change.
    fn hold(&mut self, bio: Bio) {
        let fence = Arc::clone(&self.background.fence);
        // Before it is looked at again, so that no end is missed.
        self.lane.bell().into_iter().for_each(|bell| fence.call_back(Waiter::Channel(bell)));
        match fence.admits(self.now, &bio) {
            Entry::Open => self.lane.submit(self.now, bio),
            Entry::Refused => self.end_without(bio, UNSETTLED),
            Entry::Waits => match fence.waits_until(self.now, &bio) {
                Ok(at) => {
                    self.late.look_at = Time::earliest(self.late.look_at, Some(at));
                    fence.count_held(true);
                    self.late.held.push_back(bio);
                }
                Err(fault) => self.end_without(bio, fault),
            },
        }
    }

    /// Lets bios go on that do not overlap a late change any more.
    #[inline]
    pub(super) fn release_held(&mut self) {
        if !self.late.held.is_empty() {
            self.release_all_held();
        }
    }

    #[cold]
    fn release_all_held(&mut self) {
        self.late.look_at = None;
        for _ in 0..self.late.held.len() {
            let Some(bio) = self.late.held.pop_front() else { break };
            self.enter(bio);
            // Afterwards, so that no barrier of another lane can come in between.
            self.background.fence.count_held(false);
        }
    }

    pub(super) fn cancel_where(&mut self, which: &Cancel) {
        for _ in 0..self.late.held.len() {
            let Some(bio) = self.late.held.pop_front() else { break };
            match which.matches(&bio) {
                true => {
                    self.background.fence.count_held(false);
                    self.end_without(bio, Fault::new(which.kind(), Stage::Handle));
                }
                false => self.late.held.push_back(bio),
            }
        }
        self.lane.cancel(self.now, which);
    }

    /// Looks at the bios that came back, from index `before` on, and at the deadlines of the others.
    #[cold]
    pub(super) fn settle(&mut self, before: usize, out: &mut Vec<Bio>) {
        self.take_back(before, out);
        if !self.late.held.is_empty() {
            // They were handed over when they were submitted, so they do not wait for the next turn.
            self.release_held();
            self.lane.run(self.now);
        }
        if self.late.next_due.is_some_and(|at| at <= self.now) {
            self.expire(out);
        }
        out.append(&mut self.late.done);
        let LateBios { due, late, held, .. } = &self.late;
        self.late.is_watchful = !(due.is_empty() && late.is_empty() && held.is_empty());
        if !self.late.late.is_empty()
            && let Some(place) = &self.late.place
        {
            place.note_run(self.now);
        }
    }

    /// Removes late bios, which the program has got a substitute for.
    fn take_back(&mut self, before: usize, out: &mut Vec<Bio>) {
        let mut at = before;
        while at < out.len() {
            let identity = out[at].identity();
            if let Some(late) = self.late.late.iter().position(|late| late.identity == identity) {
                let change = self.late.late.swap_remove(late).change;
                change.into_iter().for_each(|id| self.background.fence.leave(id));
                // Its buffer is one of the program, which gets no panic of the destructor here.
                let _section = Section::enter();
                drop(out.remove(at));
                continue;
            }
            let due = self.late.take_due(identity);
            let bio = &mut out[at];
            if due.is_some_and(|due| due.at <= self.now) {
                end_late(bio);
            }
            self.background.fence.settle(bio);
            at += 1;
        }
    }

    /// Ends the bios whose deadlines have passed. Those that the device still has are late.
    fn expire(&mut self, out: &mut Vec<Bio>) {
        let now = self.now;
        let over: Vec<usize> =
            self.late.due.iter().filter(|due| due.at <= now).map(|due| due.identity).collect();
        over.iter().for_each(|&identity| self.cancel_where(&Cancel::late(identity)));
        let before = out.len();
        self.lane.turn(now, out);
        self.take_back(before, out);
        for identity in over {
            let Some(due) = self.late.take_due(identity) else { continue };
            // Before the program is told.
            let place = self.late.place.get_or_insert_with(|| {
                let thread = std::thread::current();
                let name = format!("a channel of thread {}", thread.name().unwrap_or("without a name"));
                Place::new(name, self.lane.bell())
            });
            let change = self.background.fence.note_late(now, &due, place);
            self.late.late.push(Late { identity, change });
            self.late.done.push(due.substitute());
        }
        self.late.next_due = self.late.due.iter().map(|due| due.at).min();
    }

    /// Closes the lane, which has bios.
    #[cold]
    pub(super) fn close_with_care(&mut self) {
        let fence = Arc::clone(&self.background.fence);
        let mut lane: Box<dyn Lane> = std::mem::replace(&mut self.lane, Box::new(Closed::default()));
        let late = std::mem::take(&mut self.late);
        late.held.iter().for_each(|_| fence.count_held(false));
        let changes = late.late.iter().filter_map(|late| late.change).collect();
        lane.closing(&fence.close(self.clock.now(), changes, late.place.clone()));
        drop((lane, late));
    }
}
