//! The queue that all lanes of a device share: elevator, request pool, device plug, merging, flushes and barriers.
//!
//! Without an elevator it is first come, first served; then only flushes, barriers and what must keep order with them
//! go through it.

use crate::bio::{Bio, Flags, Op};
use crate::counters::Counters;
use crate::driver::{Chain, Completion, Geometry, Started};
use crate::elevator::Elevator;
use crate::fault::{Fault, Kind, Stage, Status};
use crate::request::{Marks, State, Table};
use crate::time::Time;
use crate::trace::{Action, Event};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

mod complete;
mod enqueue;
mod hash;
mod order;
mod plug;
mod pool;
mod switch;
mod tags;
mod withdraw;

use super::body::{Queue, Store};
use super::family::Role;
use super::prebuilt::Prebuilt;
use super::{FLUSH, Settings};
use hash::MergeHash;
use plug::DevicePlug;
pub use plug::PlugSettings;
use pool::RequestPool;
pub use pool::{CONGESTION_BATCH, PoolRules, PoolStats};

/// Requests kept in reserve so that a flush or a retry can always be made (fact: the kernel's request mempool reserve
/// is 4).
const RESERVE: usize = 4;

/// The requests that the lanes of a device share, and their order. See the [module](super).
pub struct Scheduler {
    table: Table,
    elevator: Option<Box<dyn Elevator>>,
    ends: MergeHash,
    starts: MergeHash,
    last_merge: Option<u32>,
    /// Requests in the order in which they go to the driver.
    ready: VecDeque<u32>,
    pool: RequestPool,
    plug: DevicePlug,
    /// Requests with the elevator.
    queued: u32,
    /// The last request that the elevator chose and the driver completed has failed for good.
    fails: bool,
    elevator_fault: Option<String>,
}

/// The queue that the lanes of a device share.
pub type SchedQueue = Queue<Scheduler>;

impl Store for Scheduler {
    #[inline]
    fn unstarted(queue: &Queue<Self>) -> u32 {
        queue.store.table.used() as u32 - queue.in_flight
    }

    fn tags(&self) -> Vec<u32> {
        self.table.in_state(State::Started).collect()
    }

    fn visit(&mut self, tag: u32, each: impl FnMut(&mut Bio)) {
        self.table.for_each_bio_mut(tag, each);
    }

    fn marks(&mut self, tag: u32) -> &mut Marks {
        &mut self.table.at_mut(tag).marks
    }

    fn started_at(&self, tag: u32) -> (Op, Time) {
        let request = self.table.at(tag);
        (request.op, request.started)
    }

    #[inline]
    fn enqueue(queue: &mut Queue<Self>, now: Time, bio: Bio) {
        queue.enqueue(now, bio);
    }

    fn withdraw(queue: &mut Queue<Self>, which: &dyn Fn(&Bio) -> bool, out: &mut Vec<Bio>) {
        queue.withdraw_from_requests(which, out);
    }

    fn wake(queue: &mut Queue<Self>, now: Time) {
        if queue.waiting.iter().any(|list| !list.is_empty()) {
            queue.wake_waiters(now);
        }
        if queue.order.is_closed() {
            queue.try_barrier(now);
            queue.finish_switch(now);
        }
    }

    #[inline]
    fn next(queue: &mut Queue<Self>, now: Time) -> Option<u32> {
        if queue.in_flight >= queue.settings.depth || queue.quiesced {
            return None;
        }
        if queue.attention {
            return queue.next_with_care(now);
        }
        let index = match queue.store.ready.pop_front() {
            Some(index) => index,
            None => queue.next_from_elevator(now)?,
        };
        Some(queue.start(now, index))
    }

    #[inline]
    fn request(queue: &Queue<Self>, tag: u32) -> Option<Started<'_>> {
        Some(queue.started(tag))
    }

    fn refused(queue: &mut Queue<Self>, now: Time, tag: u32) {
        queue.store.table.at_mut(tag).state = State::Ready;
        queue.store.ready.push_front(tag);
        queue.trace_request(now, Action::Requeue, tag, 0);
    }

    #[inline]
    fn complete(queue: &mut Queue<Self>, now: Time, completions: &mut Vec<Completion>) -> u64 {
        completions.drain(..).filter(|&completion| queue.complete(now, completion).is_err()).count() as u64
    }

    #[inline]
    fn admit_checked(queue: &mut Queue<Self>, now: Time, bio: Bio) {
        queue.submit_checked(now, bio);
    }

    fn next_wakeup(queue: &Queue<Self>) -> Option<Time> {
        Time::earliest(queue.elevator_wakeup(), queue.next_timer())
    }

    fn timer(&self) -> Option<Time> {
        self.plug.deadline()
    }

    fn run_timers(queue: &mut Queue<Self>, now: Time) {
        if queue.store.plug.deadline().is_some_and(|at| now >= at) {
            queue.unplug(now, Action::UnplugTimer);
        }
        if queue.order.deadline().is_some_and(|at| now >= at) {
            queue.start_flush(now);
        }
        if let Some(at) = queue.barrier_deadline().filter(|&at| now >= at) {
            queue.barrier_is_late(now, at);
        }
    }

    fn unplug(queue: &mut Queue<Self>, now: Time) {
        queue.unplug_for_waiter(now);
    }

    fn step_done(queue: &mut Queue<Self>, now: Time, at: u32, status: Status) {
        match at {
            FLUSH => queue.flush_done(now, status),
            at => match queue.families.get(at).map(|parent| parent.role) {
                Some(Role::Tagged) => queue.tag_done(now, at),
                _ => queue.data_done(now, at),
            },
        }
    }

    fn step_failed(queue: &mut Queue<Self>, now: Time, bio: Bio, result: i64) -> Option<Bio> {
        if queue.order.is_watched() { queue.step_failed(now, bio, result) } else { Some(bio) }
    }

    fn end_sequences(queue: &mut Queue<Self>, now: Time, which: &dyn Fn(&Bio) -> bool, why: Kind) {
        queue.withdraw_sequences(now, which, why);
        if queue.order.barrier.as_ref().is_some_and(which) {
            queue.fail_barrier(now, why);
        }
    }
}

impl SchedQueue {
    /// A queue for a disk; `elevator: None` is first come, first served and costs least.
    pub fn new(
        geometry: Geometry,
        settings: Settings,
        elevator: Option<Box<dyn Elevator>>,
        counters: Arc<Counters>,
    ) -> SchedQueue {
        let settings = settings.at_least_one();
        let capacity = pool::capacity(&settings) + RESERVE;
        let store = Scheduler {
            table: Table::new(capacity),
            elevator: None,
            ends: MergeHash::new(capacity),
            starts: MergeHash::new(capacity),
            last_merge: None,
            ready: VecDeque::with_capacity(capacity),
            pool: RequestPool::new(&settings),
            plug: DevicePlug::new(settings.plug),
            queued: 0,
            fails: false,
            elevator_fault: None,
        };
        let mut queue = Queue::over(store, (geometry, settings), counters, capacity);
        queue.set_elevator(elevator);
        queue
    }

    /// Adds slots for requests that must not wait.
    #[cold]
    fn grow_table(&mut self) {
        self.store.table.grow();
        if let Some(elevator) = &mut self.store.elevator {
            elevator.reserve(self.store.table.capacity());
        }
    }

    fn set_elevator(&mut self, mut elevator: Option<Box<dyn Elevator>>) {
        if let Some(elevator) = &mut elevator {
            elevator.depth_updated(self.settings.nr_requests);
            elevator.reserve(self.store.table.capacity());
        }
        self.store.elevator = elevator;
    }

    /// [`Queue::submit_sound`] for a bio that its submitter has examined.
    #[inline]
    pub fn submit_prebuilt(&mut self, now: Time, bio: Bio, prebuilt: Prebuilt) {
        if !prebuilt.holds_for(self.geometry.size) || self.order.is_closed() {
            return self.submit_sound(now, bio);
        }
        if let Some(bio) = self.accept(now, bio, Ok(())) {
            self.enqueue(now, bio);
        }
    }

    #[inline]
    fn submit_checked(&mut self, now: Time, bio: Bio) {
        if self.order.is_closed() || bio.flags().intersects(Flags::ORDERED) || bio.op() == Op::Flush {
            self.submit_ordered(now, bio);
        } else {
            self.admit(now, bio);
        }
    }

    #[inline]
    fn start(&mut self, now: Time, index: u32) -> u32 {
        self.in_flight += 1;
        let request = self.store.table.at_mut(index);
        request.state = State::Started;
        request.started = now;
        if self.care {
            let op = request.op;
            self.watch_start(now, op);
        }
        self.counters.dispatched(self.in_flight);
        self.trace_request(now, Action::Issue, index, 0);
        index
    }

    /// [`Queue::next`] while bios wait or were withdrawn from requests.
    #[cold]
    fn next_with_care(&mut self, now: Time) -> Option<u32> {
        loop {
            self.requeue_retries(now);
            let index = match self.store.ready.pop_front() {
                Some(index) => index,
                None => match self.next_from_elevator(now) {
                    Some(index) => index,
                    None if self.tag_follows(now) => continue,
                    None => return None,
                },
            };
            if !self.store.table.at(index).marks.contains(Marks::WITHDRAWN) {
                return Some(self.start(now, index));
            }
            self.take_apart(now, index);
        }
    }

    /// [`Queue::request`] for a request that is known to have started.
    #[inline]
    pub fn started(&self, index: u32) -> Started<'_> {
        let request = self.store.table.at(index);
        Started {
            tag: index,
            op: request.op,
            pos: request.pos,
            len: request.len,
            fua: request.flags.intersects(self.fua) && request.op == Op::Write,
            atomic: request.flags.contains(Flags::ATOMIC),
            ioprio: self.store.table.ioprio(index),
            piece: None,
            chain: Chain::Linked(self.store.table.chain(index)),
            limits: &self.geometry.limits,
        }
    }

    /// The driver has completed a request. Unknown tags are ignored and reported as a broken contract.
    ///
    /// # Errors
    /// [`Kind::Contract`] when no such request was with the driver.
    #[inline]
    pub fn complete(&mut self, now: Time, completion: Completion) -> Result<(), Fault> {
        let index = completion.tag;
        if self.store.table.get(index).is_none_or(|r| r.state != State::Started) {
            return Err(Fault::new(Kind::Contract, Stage::Driver));
        }
        self.in_flight -= 1;
        self.counters.completions.add(1);
        if self.sink.is_some() {
            let errno = i32::try_from(completion.result.min(0).unsigned_abs()).unwrap_or(i32::MAX);
            self.trace_request(now, Action::Complete, index, errno);
        }
        self.complete_request(now, index, completion.result);
        Ok(())
    }

    /// When the elevator wants to be asked again even if nothing happens.
    pub fn elevator_wakeup(&self) -> Option<Time> {
        // The time only matters if the elevator would be asked then.
        let asked = !self.quiesced && self.store.ready.is_empty() && self.in_flight < self.settings.depth;
        let elevator = self.store.elevator.as_ref().filter(|_| asked && !self.store.plug.is_plugged());
        elevator.and_then(|e| e.next_wakeup())
    }

    /// Whether the device holds its requests back for merging.
    #[inline]
    pub fn is_plugged(&self) -> bool {
        self.store.plug.is_plugged()
    }

    /// A thread waits: starts a plugged device.
    #[inline]
    pub fn unplug_for_waiter(&mut self, now: Time) {
        if self.store.plug.is_plugged() {
            self.unplug(now, Action::Unplug);
        }
    }

    /// The elevator, to read and set its parameters.
    pub fn elevator_mut(&mut self) -> Option<&mut (dyn Elevator + 'static)> {
        self.store.elevator.as_deref_mut()
    }

    /// Name of the elevator, or `none`.
    pub fn elevator_name(&self) -> &'static str {
        self.store.elevator.as_ref().map_or("none", |e| e.name())
    }

    /// The error of the elevator, if it had to be replaced with `noop`.
    pub fn elevator_fault(&self) -> Option<&str> {
        self.store.elevator_fault.as_deref()
    }

    fn trace_request(&mut self, now: Time, action: Action, index: u32, errno: i32) {
        let Some(sink) = &mut self.sink else { return };
        let request = self.store.table.at(index);
        sink.event(&Event {
            time: now,
            action,
            op: request.op,
            flags: request.flags,
            pos: request.pos,
            len: request.len,
            context: request.info().context.process(),
            errno,
            extra: 0,
        });
    }
}
