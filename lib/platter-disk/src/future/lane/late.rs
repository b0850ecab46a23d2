//! Bios of a lane that are taken back: cancelled, or late; and those that wait for late changes: see [`crate::fence`].

use super::{Admission, AsyncLane, AsyncState, Waiting};
use crate::fence::{Due, LateId, UNSETTLED, Waiter};
use crate::future::reply::Reply;
use crate::service;
use crate::sync::lock;
use platter_block::bio::Bio;
use platter_block::deferred::{Deferred, later};
use platter_block::fault::{Fault, Stage};
use platter_block::lane::{Bell, Cancel};
use platter_block::time::Time;
use std::sync::{Arc, Weak};

impl Bell for AsyncLane {
    /// The service thread runs the lane. Without that thread the callers that wait do.
    fn ring(&self) {
        self.call();
        service::ring();
    }
}

impl AsyncLane {
    /// Asks the device to cancel an I/O. Its future gets the result in the usual way.
    pub(in crate::future) fn cancel(self: &Arc<Self>, reply: &Reply) {
        let mut state = lock(&self.state);
        if !matches!(state.entries[reply.index as usize].waiting, Waiting::Pending(_)) {
            return;
        }
        let now = self.clock.now();
        state.cancel(now, &Cancel::token(u64::from(reply.index)));
        state.run(now);
        drop(state);
        self.watch(true);
    }

    /// The future was dropped. Its I/O is cancelled unless it `is_wanted` for its effect; in either case its end must
    /// be seen.
    pub(in crate::future) fn abandon(self: &Arc<Self>, reply: &Reply, is_wanted: bool) {
        let mut state = lock(&self.state);
        match std::mem::replace(&mut state.entries[reply.index as usize].waiting, Waiting::Abandoned) {
            Waiting::Pending(waker) => waker.into_iter().for_each(|waker| later(Deferred::Forget(waker))),
            other => {
                state.entries[reply.index as usize].waiting = other;
                drop(state);
                self.finish(reply, |_| ());
                return;
            }
        }
        if !is_wanted {
            state.cancel(self.clock.now(), &Cancel::token(u64::from(reply.index)));
        }
        drop(state);
        // If the future was never polled, its bio has not been handed to the device.
        self.watch(true);
    }
}

impl AsyncState {
    /// Gives a bio to the device, if the fence lets it.
    #[inline]
    pub(super) fn submit(&mut self, now: Time, bio: Bio) {
        if !self.held.is_empty() {
            // Before a barrier that comes now.
            self.release_held(now);
        }
        self.enter(now, bio);
    }

    #[inline]
    fn enter(&mut self, now: Time, bio: Bio) {
        match self.fence.admits(now, &bio) {
            Admission::Open => self.lane.submit(now, bio),
            Admission::Waits => self.hold(now, bio),
            Admission::Refused => self.refuse(bio, UNSETTLED),
        }
    }

    /// When the lane must be run even if nothing completes.
    pub(super) fn next_wakeup(&self) -> Option<Time> {
        // What waited may have been taken back since.
        let look_at = self.look_at.filter(|_| !self.held.is_empty());
        let own = Time::earliest(self.next_due, look_at);
        Time::earliest(self.lane.next_wakeup(), own)
    }

    /// Whether nothing is outstanding.
    pub(super) fn is_idle(&self) -> bool {
        self.lane.is_idle() && self.held.is_empty()
    }

    /// Ends a bio that the device does not get.
    pub(super) fn refuse(&mut self, mut bio: Bio, fault: Fault) {
        bio.fail(fault);
        self.complete(bio);
    }

    /// Has a bio wait for the end of a late change.
    #[cold]
    pub(super) fn hold(&mut self, now: Time, bio: Bio) {
        // Before it is looked at again, so that no end is missed.
        self.fence.call_back(Waiter::Futures(Weak::clone(&self.itself) as Weak<dyn Bell>));
        match self.fence.admits(now, &bio) {
            Admission::Open => self.lane.submit(now, bio),
            Admission::Refused => self.refuse(bio, UNSETTLED),
            Admission::Waits => match self.fence.waits_until(now, &bio) {
                Ok(at) => {
                    self.look_at = Time::earliest(self.look_at, Some(at));
                    self.fence.count_held(true);
                    self.held.push_back(bio);
                }
                Err(fault) => self.refuse(bio, fault),
            },
        }
    }

    /// Takes bios back, as far as that is possible.
    pub(super) fn cancel(&mut self, now: Time, which: &Cancel) {
        for _ in 0..self.held.len() {
            let Some(bio) = self.held.pop_front() else { break };
            match which.matches(&bio) {
                true => {
                    self.fence.count_held(false);
                    self.refuse(bio, Fault::new(which.kind(), Stage::Handle));
                }
                false => self.held.push_back(bio),
            }
        }
        self.lane.cancel(now, which);
    }

    /// Ends the I/Os whose deadlines have passed. Those that the device still has are late.
    #[cold]
    pub(super) fn expire(&mut self, now: Time) {
        let is_late = |due: &Due| due.at <= now;
        for index in 0..self.entries.len() {
            let entry = &self.entries[index];
            if matches!(entry.waiting, Waiting::Pending(_))
                && let Some(due) = entry.due.as_ref().filter(|due| is_late(due))
            {
                let which = Cancel::late(due.identity);
                self.cancel(now, &which);
            }
        }
        self.run_lane(now);
        for index in 0..self.entries.len() {
            self.give_substitute(now, index);
        }
        let pending = self.entries.iter().filter(|entry| matches!(entry.waiting, Waiting::Pending(_)));
        self.next_due = pending.filter_map(|entry| entry.due.as_ref()).map(|due| due.at).min();
    }

    /// Ends an I/O that is late and that the device still has.
    fn give_substitute(&mut self, now: Time, index: usize) {
        let entry = &mut self.entries[index];
        if !matches!(entry.waiting, Waiting::Pending(_)) {
            return;
        }
        let Some(due) = entry.due.take_if(|due| due.at <= now) else { return };
        // Before the program is told.
        let change = self.fence.note_late(now, &due, &self.place);
        self.late += 1;
        let late = Waiting::Late { change, is_returned: false };
        let Waiting::Pending(waker) = std::mem::replace(&mut entry.waiting, late) else { return };
        let put = entry.reply.put(due.substitute());
        debug_assert!(put.is_ok(), "a reply is empty while its bio is on its way");
        waker.into_iter().for_each(|waker| later(Deferred::Wake(waker)));
    }

    /// A late bio has come back.
    #[cold]
    pub(super) fn complete_late(&mut self, index: u32, bio: Bio, change: Option<LateId>, is_returned: bool) {
        self.late -= 1;
        change.into_iter().for_each(|id| self.fence.leave(id));
        if is_returned {
            self.entries[index as usize].waiting = Waiting::Free;
            self.free.push(index);
        }
        self.keep(bio);
    }

    /// Lets bios go on that no longer overlap a late change. Those that have waited too long for a lane that is not run fail.
    #[cold]
    pub(super) fn release_held(&mut self, now: Time) {
        self.look_at = None;
        for _ in 0..self.held.len() {
            let Some(bio) = self.held.pop_front() else { break };
            self.enter(now, bio);
            // Afterwards, so that no barrier of another lane can come in between.
            self.fence.count_held(false);
        }
    }
}
