//! A lane of a handle: it knows the deadlines of its bios, those that are late, and those that wait for late changes
//! (see [`crate::fence`]). The lane of a [`Channel`](crate::channel::Channel) is one, and so is each lane of a device's futures.
//!
//! Example: a write of 4 KiB with a deadline of 100 ms is submitted. The deadline is taken out of the bio and kept here ([`Due`]), and
//! the bio goes to the device. If it is back after 20 ms, the caller gets it, and the deadline is forgotten. If it is not back at
//! 100 ms, the device is asked to cancel it; what has not started ends at once. Otherwise the caller gets a substitute with the token
//! and without memory, the range of the write is in the fence, and the bio is dropped here when the device returns it.

use crate::closed::Closed;
use crate::deferred::Section;
use crate::fence::{Due, Entry, Fence, LateId, Place, TIMED_OUT, UNSETTLED, Waiter, end_late, take_due};
use platter_block::bio::Bio;
use platter_block::fault::{Fault, Stage};
use platter_block::lane::{Bell, Cancel, Lane};
use platter_block::segment::{Region, RegionId};
use platter_block::time::{Span, Time};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Weak};

/// A bio that is late.
struct Late {
    identity: usize,
    change: Option<LateId>,
}

/// Spreads the addresses by which bios are known over a table.
#[derive(Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_usize(usize::from(byte)));
    }

    #[inline]
    fn write_usize(&mut self, address: usize) {
        let mixed = (self.0 ^ address as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 32);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

/// See the module.
pub(crate) struct FencedLane {
    lane: Box<dyn Lane>,
    fence: Arc<Fence>,
    /// Runs the lane when a late change is back; otherwise the lane's own bell.
    caller: Option<Weak<dyn Bell>>,
    /// For the fence, once something was late.
    place: Option<Arc<Place>>,
    /// The deadlines of bios that the device has, by the identity of the bio, with the order in which they came.
    due: HashMap<usize, (u64, Due), BuildHasherDefault<AddressHasher>>,
    taken: u64,
    /// No deadline passes before this time. The bio that had this deadline may have ended.
    next_due: Option<Time>,
    late: Vec<Late>,
    /// Bios that wait because they overlap a late change, and when to look at them again.
    held: VecDeque<Bio>,
    look_at: Option<Time>,
    /// Bios that have ended without the device.
    done: Vec<Bio>,
    /// Any of the lists may have something: all that is looked at while there is nothing.
    is_watchful: bool,
}

impl FencedLane {
    /// `caller`: has the lane run, if it does not belong to one thread.
    pub(crate) fn new(lane: Box<dyn Lane>, fence: Arc<Fence>, caller: Option<Weak<dyn Bell>>) -> FencedLane {
        FencedLane {
            lane,
            fence,
            caller,
            place: None,
            due: HashMap::default(),
            taken: 0,
            next_due: None,
            late: Vec::new(),
            held: VecDeque::new(),
            look_at: None,
            done: Vec::new(),
            is_watchful: false,
        }
    }

    /// Takes a bio. It goes to the device, ends here, or waits for the end of a late change.
    #[inline]
    pub(crate) fn submit(&mut self, now: Time, bio: Bio) {
        match bio.deadline().is_none() && self.fence.is_empty() {
            true => self.submit_common(now, bio),
            false => self.submit_with_care(now, now, bio),
        }
    }

    /// The same for a bio without a deadline, while no change is late.
    #[inline]
    pub(crate) fn submit_common(&mut self, now: Time, bio: Bio) {
        self.lane.submit(now, bio);
    }

    /// Takes a bio that may have a deadline. `at`: the time, if the time of the lane's turn, `now`, may be older.
    #[cold]
    pub(crate) fn submit_with_care(&mut self, now: Time, at: Time, mut bio: Bio) {
        self.is_watchful = true;
        // Before a barrier that comes now.
        self.release_held(now);
        if let Some(due) = take_due(&mut bio) {
            if due.at <= at {
                return self.refuse(bio, TIMED_OUT);
            }
            self.next_due = Time::earliest(self.next_due, Some(due.at));
            self.taken += 1;
            self.due.insert(due.identity, (self.taken, due));
        }
        self.enter(now, bio);
    }

    /// Gives a bio to the device, if the fence lets it.
    fn enter(&mut self, now: Time, bio: Bio) {
        match self.fence.admits(now, &bio) {
            Entry::Open => self.lane.submit(now, bio),
            Entry::Refused => self.refuse(bio, UNSETTLED),
            Entry::Waits => self.hold(now, bio),
        }
    }

    /// Ends a bio that the device does not get.
    fn refuse(&mut self, mut bio: Bio, fault: Fault) {
        self.forget_deadline(bio.identity());
        bio.fail(fault);
        self.done.push(bio);
    }

    /// Has a bio wait for the end of a late change.
    #[cold]
    fn hold(&mut self, now: Time, bio: Bio) {
        // Before it is looked at again, so that no end is missed.
        self.waiter().into_iter().for_each(|waiter| self.fence.call_back(waiter));
        match self.fence.admits(now, &bio) {
            Entry::Open => self.lane.submit(now, bio),
            Entry::Refused => self.refuse(bio, UNSETTLED),
            Entry::Waits => match self.fence.waits_until(now, &bio) {
                Ok(at) => {
                    self.look_at = Time::earliest(self.look_at, Some(at));
                    self.fence.count_held(true);
                    self.held.push_back(bio);
                }
                Err(fault) => self.refuse(bio, fault),
            },
        }
    }

    fn waiter(&self) -> Option<Waiter> {
        match &self.caller {
            Some(caller) => Some(Waiter::Weak(Weak::clone(caller))),
            None => self.lane.bell().map(Waiter::Bell),
        }
    }

    /// Lets bios go on that no longer overlap a late change. Those that have waited too long for a lane that is not run fail.
    #[inline]
    fn release_held(&mut self, now: Time) {
        if !self.held.is_empty() {
            self.release_all_held(now);
        }
    }

    #[cold]
    fn release_all_held(&mut self, now: Time) {
        self.look_at = None;
        for _ in 0..self.held.len() {
            let Some(bio) = self.held.pop_front() else { break };
            self.enter(now, bio);
            // Afterwards, so that no barrier of another lane can come in between.
            self.fence.count_held(false);
        }
    }

    /// Starts what can start.
    pub(crate) fn run(&mut self, now: Time) {
        self.release_held(now);
        self.lane.run(now);
    }

    /// Runs the lane and appends what has ended for the caller.
    #[inline]
    pub(crate) fn turn(&mut self, now: Time, out: &mut Vec<Bio>) {
        self.turn_by(now, out, |lane, out| lane.turn(now, out));
    }

    /// [`turn`](FencedLane::turn) for a program that has nothing else to do.
    #[inline]
    pub(crate) fn poll(&mut self, now: Time, out: &mut Vec<Bio>) {
        self.turn_by(now, out, |lane, out| lane.poll(now, out));
    }

    #[inline(always)]
    fn turn_by(&mut self, now: Time, out: &mut Vec<Bio>, turn: impl FnOnce(&mut dyn Lane, &mut Vec<Bio>)) {
        let before = out.len();
        self.release_held(now);
        turn(&mut *self.lane, out);
        if self.is_watchful || !self.fence.is_empty() {
            self.settle(now, before, out);
        }
    }

    /// Looks at the bios that came back, from index `before` on, and at the deadlines of the others.
    #[cold]
    fn settle(&mut self, now: Time, before: usize, out: &mut Vec<Bio>) {
        self.take_back(now, before, out);
        if !self.held.is_empty() {
            // They were handed over when they were submitted, so they do not wait for the next turn.
            self.run(now);
        }
        if self.next_due.is_some_and(|at| at <= now) {
            self.expire(now, out);
        }
        out.append(&mut self.done);
        self.is_watchful = !(self.due.is_empty() && self.late.is_empty() && self.held.is_empty());
        if !self.late.is_empty() {
            self.place.iter().for_each(|place| place.note_run(now));
        }
    }

    /// Removes late bios, which the caller has got a substitute for.
    fn take_back(&mut self, now: Time, before: usize, out: &mut Vec<Bio>) {
        let mut at = before;
        while at < out.len() {
            let identity = out[at].identity();
            if let Some(late) = self.late.iter().position(|late| late.identity == identity) {
                let change = self.late.swap_remove(late).change;
                change.into_iter().for_each(|id| self.fence.leave(id));
                // Its buffer is one of the program, which gets no panic of the destructor here.
                let _section = Section::enter();
                drop(out.remove(at));
                continue;
            }
            let due = self.due.remove(&identity);
            let bio = &mut out[at];
            if due.is_some_and(|(_, due)| due.at <= now) {
                end_late(bio);
            }
            self.fence.settle(bio);
            at += 1;
        }
    }

    /// Ends the bios whose deadlines have passed. Those that the device still has are late.
    fn expire(&mut self, now: Time, out: &mut Vec<Bio>) {
        let is_over = |(identity, (number, due)): (&usize, &(u64, Due))| {
            (due.at <= now).then_some((*number, *identity))
        };
        let mut over: Vec<(u64, usize)> = self.due.iter().filter_map(is_over).collect();
        over.sort_unstable();
        over.iter().for_each(|&(_, identity)| self.cancel(now, &Cancel::late(identity)));
        let before = out.len();
        self.lane.turn(now, out);
        self.take_back(now, before, out);
        for (_, identity) in over {
            let Some((_, due)) = self.due.remove(&identity) else { continue };
            // Before the caller is told.
            let place = Arc::clone(self.place());
            let change = self.fence.note_late(now, &due, &place);
            self.late.push(Late { identity, change });
            self.done.push(due.substitute());
        }
        self.next_due = self.due.values().map(|(_, due)| due.at).min();
    }

    fn place(&mut self) -> &Arc<Place> {
        let (lane, is_shared) = (&self.lane, self.caller.is_some());
        self.place.get_or_insert_with(|| {
            if is_shared {
                return Place::new("a future or call".to_string(), None);
            }
            let thread = std::thread::current();
            let name = format!("a channel of thread {}", thread.name().unwrap_or("without a name"));
            Place::new(name, lane.bell())
        })
    }

    /// Takes bios back, as far as that is possible.
    pub(crate) fn cancel(&mut self, now: Time, which: &Cancel) {
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

    /// The caller does not wait for this bio any more: it is never late.
    pub(crate) fn forget_deadline(&mut self, identity: usize) {
        if !self.due.is_empty() {
            self.due.remove(&identity);
        }
    }

    /// When the lane must be run even if nothing completes.
    #[inline]
    pub(crate) fn next_wakeup(&self) -> Option<Time> {
        let below = self.lane.next_wakeup();
        if !self.is_watchful {
            return below;
        }
        // What had a deadline or waited may have ended since.
        let look_at = self.look_at.filter(|_| !self.held.is_empty());
        let next_due = self.next_due.filter(|_| !self.due.is_empty());
        Time::earliest(below, Time::earliest(next_due, look_at))
    }

    /// Starts what can start and blocks until there is something to do, or `timeout` has passed. Does not block while something has
    /// ended.
    pub(crate) fn wait(&mut self, now: Time, timeout: Option<Span>) {
        if self.done.is_empty() {
            self.while_sleeping(|lane| lane.wait(now, timeout));
        }
    }

    /// Blocks until there is something to do, `timeout` has passed or one of these descriptors is readable.
    pub(crate) fn sleep(&mut self, now: Time, timeout: Option<Span>, others: &[i32]) {
        if !self.lane.has_done() && self.done.is_empty() {
            self.while_sleeping(|lane| lane.sleep(now, timeout, others));
        }
    }

    #[inline]
    fn while_sleeping(&mut self, wait: impl FnOnce(&mut dyn Lane)) {
        let place = self.place.as_ref().filter(|_| !self.late.is_empty());
        place.iter().for_each(|place| place.set_sleeps(true));
        wait(&mut *self.lane);
        place.iter().for_each(|place| place.set_sleeps(false));
    }

    /// A thread waits for bios of the lane.
    pub(crate) fn unplug(&mut self, now: Time) {
        self.release_held(now);
        self.lane.unplug(now);
    }

    pub(crate) fn in_flight(&self) -> u32 {
        self.lane.in_flight()
    }

    /// Whether all that there is waits for late changes of other lanes.
    pub(crate) fn only_holds(&self) -> bool {
        !self.held.is_empty() && self.lane.in_flight() == 0
    }

    /// Whether nothing is outstanding.
    pub(crate) fn is_idle(&self) -> bool {
        self.lane.is_idle() && self.held.is_empty() && self.done.is_empty()
    }

    /// Takes what has ended without the device, before the next turn.
    #[inline]
    pub(crate) fn take_refused(&mut self, out: &mut Vec<Bio>) {
        out.append(&mut self.done);
    }

    pub(crate) fn wait_handles(&self, out: &mut Vec<i32>) -> bool {
        self.lane.wait_handles(out)
    }

    pub(crate) fn register(&mut self, region: &Region) {
        self.lane.register(region);
    }

    pub(crate) fn unregister(&mut self, region: RegionId) {
        self.lane.unregister(region);
    }

    /// Closes the lane, which may have bios. The lane below is dropped before what was late here.
    #[cold]
    pub(crate) fn close(&mut self, now: Time) {
        let mut lane = self.take_lane();
        self.held.drain(..).for_each(|_| self.fence.count_held(false));
        let changes = self.late.drain(..).filter_map(|late| late.change).collect();
        lane.closing(&self.fence.close(now, changes, self.place.clone()));
        drop(lane);
    }

    /// Number of bios that the device has of callers that have got a substitute.
    pub(crate) fn lates(&self) -> usize {
        self.late.len()
    }

    /// Number of bios that wait for late changes.
    pub(crate) fn held(&self) -> usize {
        self.held.len()
    }

    /// Takes the way to the device; what is submitted from now on fails.
    pub(crate) fn take_lane(&mut self) -> Box<dyn Lane> {
        std::mem::replace(&mut self.lane, Box::new(Closed::default()))
    }

    /// Whether anything must be looked after when the lane is closed.
    pub(crate) fn is_watchful(&self) -> bool {
        self.is_watchful
    }
}
