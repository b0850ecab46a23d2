//! How a lane sleeps: it listens to everything that its progress can come from.

use super::Shared;
use super::control::Control;
use super::lane::DiskLane;
use super::lanes::LaneCell;
use crate::deferred::Section;
use crate::sync::Ordering;
use crate::wake::{Ended, PollSet, Sleeper};
use platter_block::backend::LaneUse;
use platter_block::lane::Lane;
use platter_block::time::{Span, Time, VirtualClock};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

/// How an attempt to sleep until the lane is rung ended.
enum Parked {
    /// The lane has slept.
    Slept,
    /// The lane has to poll the driver, and has not slept.
    Polls,
    /// There is something to do already.
    Not,
}

/// Keeps a lane's place among the sleeping lanes until it is dropped, also by a panic, after which another lane must
/// poll.
struct Place {
    shared: Arc<Shared>,
    cell: Arc<LaneCell>,
    route: u32,
}

impl Place {
    /// The lane is about to sleep. Returns whether it polls the driver of the shared queue.
    fn enter(&self) -> bool {
        // First, so that an event for the polling lanes rings this lane from here on.
        self.cell.leaves_polling.store(false, Ordering::SeqCst);
        let polls = self.shared.poller.enter(self.route);
        if !polls {
            self.cell.leaves_polling.store(true, Ordering::SeqCst);
        }
        polls
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.cell.leaves_polling.store(false, Ordering::SeqCst);
        if let Some(next) = self.shared.poller.leave(self.route) {
            self.shared.lanes.ring(next);
        }
    }
}

/// The descriptors that threads which share the lane sleep on.
#[derive(Default)]
pub(super) struct Listed {
    set: Option<PollSet>,
    wanted: Vec<i32>,
}

impl DiskLane {
    /// Collects mail. Returns whether the shared queue holds nothing of the lane, so that the lane need not run it.
    pub(super) fn has_all_mail(&mut self) -> bool {
        let before = self.done.len();
        self.cell.mailbox.take(&mut self.done);
        self.has_come_back(before);
        // In a simulation the queue must be run each time, since disks may have an event at just this time.
        self.away == 0 && self.shared.clock.simulated().is_none()
    }

    /// Lists the descriptors of the lane's own queue.
    fn listen_local(&self, handles: &mut Vec<i32>) -> bool {
        self.local.as_ref().is_none_or(|local| local.wait_handles(handles))
    }

    /// [`Lane::wait_handles`], for threads that sleep while others may use the lane. There may be several such
    /// threads; each is woken by what any of them lists.
    pub(super) fn list_handles(&self, handles: &mut Vec<i32>) -> bool {
        let mut listed = self.listed.borrow_mut();
        let Listed { set, wanted } = &mut *listed;
        wanted.clear();
        let wake = self.cell.mailbox.fall_asleep();
        let mut complete = wake.map(|fd| wanted.push(fd.raw())).is_some();
        complete &= self.listen_local(wanted);
        if self.needs_shared() {
            complete &= self.shared.with_control(|control| control.listen(wanted));
        }
        *set = set.take().or_else(|| PollSet::new().ok());
        let drivers = self.shared.drivers_opened.load(Ordering::SeqCst);
        if let Some(set) = set
            && set.set(wanted, drivers)
        {
            handles.push(set.epoll().as_raw_fd());
        } else {
            handles.append(wanted);
            complete = false;
        }
        if self.cell.mailbox.has_mail() | self.cell.mailbox.take_nudge() || self.has_done() {
            self.cell.mailbox.ring();
        }
        complete
    }

    /// Advances virtual time until something can be done or `timeout` has passed. Without either, another thread must
    /// do what this one waits for.
    fn sleep_simulated(&self, now: Time, timeout: Option<Span>, clock: &VirtualClock) {
        let limit = timeout.map(|span| now + span);
        match Time::earliest(self.next_wakeup(), limit) {
            Some(at) => clock.advance_to(at),
            None => std::thread::yield_now(),
        }
    }

    /// Sleeps until something can be done, a descriptor in `others` is readable or `timeout` has passed.
    pub(super) fn sleep_on(&mut self, now: Time, timeout: Option<Span>, others: &[i32]) {
        if let Some(clock) = self.shared.clock.simulated() {
            return self.sleep_simulated(now, timeout, clock);
        }
        // A destructor of the program that ran below could wait for a lane that leaves polling to this one.
        let _section = Section::enter();
        let place = self.needs_shared().then(|| self.place());
        let until = timeout.map(|span| now + span);
        let mut sleeper = std::mem::take(&mut self.sleeper);
        let mut now = now;
        loop {
            let goes_on = self.sleep_once(now, until, others, place.as_ref(), &mut sleeper);
            let must_run = self.must_run();
            if must_run {
                self.help(self.shared.clock.now());
            }
            if !goes_on {
                break;
            }
            // Only the shared queue caused the wake-up: it is run here, and the caller continues to sleep.
            now = self.shared.clock.now();
            let is_called = self.shared.poller.is_called(self.route);
            if !self.has_all_mail() && !is_called && !must_run {
                self.help(now);
            }
            if self.has_done() || self.away == 0 {
                break;
            }
        }
        self.cell.mailbox.wake_up();
        self.sleeper = sleeper;
    }

    fn place(&self) -> Place {
        Place { shared: Arc::clone(&self.shared), cell: Arc::clone(&self.cell), route: self.route }
    }

    /// Ends a sleep until the lane is rung, or one that has not begun. Returns whether other threads have left bios to this
    /// one: then it must run the shared queue before it does anything else.
    fn must_run(&self) -> bool {
        self.cell.mailbox.parker.settle() && self.shared.has_inbox.load(Ordering::SeqCst)
    }

    /// Sleeps until the lane is rung, if another lane polls the driver of the shared queue.
    fn park(&self, now: Time, until: Option<Time>, place: &Place) -> Parked {
        let mailbox = &self.cell.mailbox;
        mailbox.parker.arm();
        if mailbox.has_mail() | mailbox.take_nudge() {
            return Parked::Not;
        }
        if place.enter() {
            return match self.must_run() {
                true => Parked::Slept,
                false => Parked::Polls,
            };
        }
        mailbox.parker.sleep(until.map(|at| Duration::from_nanos(at.since(now).0)));
        Parked::Slept
    }

    /// Sleeps once. Returns whether it ended without a cause other than the shared queue.
    fn sleep_once(
        &self,
        now: Time,
        until: Option<Time>,
        others: &[i32],
        place: Option<&Place>,
        sleeper: &mut Sleeper,
    ) -> bool {
        let local = self.local.as_ref().filter(|local| !local.is_idle());
        let is_alone = self.lane_use == LaneUse::Synchronous && local.is_none() && others.is_empty();
        if is_alone && let Some(place) = place {
            match self.park(now, until, place) {
                Parked::Polls => {}
                Parked::Slept => return until.is_none_or(|until| self.shared.clock.now() < until),
                Parked::Not => return false,
            }
        }
        sleeper.handles.clear();
        let wake = self.cell.mailbox.fall_asleep();
        let rings = wake.map(|fd| sleeper.handles.push(fd.raw())).is_some();
        if self.cell.mailbox.has_mail() | self.cell.mailbox.take_nudge() {
            return false;
        }
        let polls = place.is_some_and(Place::enter);
        let mut complete = true;
        let mut wake = Time::earliest(until, local.and_then(Lane::next_wakeup));
        if polls {
            let listen =
                |control: &mut Control| (control.listen(&mut sleeper.handles), control.next_wakeup());
            let (shows_all, timer) = self.shared.with_control(listen);
            self.shared.shows_completions.store(shows_all, Ordering::Relaxed);
            complete = shows_all;
            wake = Time::earliest(wake, timer);
        }
        let first_other = sleeper.handles.len();
        if self.local.as_ref().is_some_and(|local| local.in_flight() > 0) {
            complete &= self.listen_local(&mut sleeper.handles);
        }
        sleeper.handles.extend_from_slice(others);
        // A completion that no descriptor shows is there at the next run, if its request has been started.
        if !complete && self.in_flight() > 0 {
            return false;
        }
        let ended = sleeper.sleep(rings, wake.map(|at| at.since(now)));
        ended != Ended::Interrupted
            && place.is_some()
            && local.is_none()
            && !sleeper.is_readable(first_other..sleeper.handles.len())
            && until.is_none_or(|until| self.shared.clock.now() < until)
    }
}

#[cfg(test)]
mod tests;
