//! The queue that all lanes of a device share: elevator, request pool, device plug, merging, flushes and barriers.
//!
//! Without an elevator it is first come, first served; then only flushes, barriers and what must keep order with them
//! go through it.

use crate::bio::{Bio, Flags, Op};
use crate::counters::Counters;
use crate::driver::{Chain, Completion, Geometry, Started};
use crate::elevator::{Dir, Elevator, MayQueue, Noop};
use crate::fault::{Fault, Kind, Stage, Status};
use crate::request::{Marks, State, Table};
use crate::time::Time;
use crate::trace::{Action, Event};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

mod barrier;
mod enqueue;
mod flush;
mod hash;
mod pool;
mod tags;

use super::body::{Queue, Store};
use super::ends::Group;
use super::family::{Parent, Role};
use super::pause::{is_lasting, queue_fault};
use super::prebuilt::Prebuilt;
use super::{FLUSH, MARKS, NO_PARENT, Ordered, Settings};
use enqueue::DevicePlug;
pub use enqueue::PlugSettings;
use flush::{DATA, PRE};
use hash::MergeHash;
use pool::RequestPool;
pub use pool::{CONGESTION_BATCH, PoolRules, PoolStats};

/// Requests kept in reserve so that a flush or a retry can always be made (fact: the kernel's request mempool reserve
/// is 4).
const RESERVE: usize = 4;

/// The requests that the lanes of a device share, and their order. See the [module](super).
pub struct Scheduler {
    table: Table,
    elevator: Option<Box<dyn Elevator>>,
    /// The elevator must be told of completions.
    hears: bool,
    /// The queued requests that may be merged.
    neighbours: MergeHash,
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
        let (mut broken, mut plain) = (0, 0);
        let mut group = Group { op: Op::Read, started: now, count: 0, bytes: 0 };
        for &completion in completions.iter() {
            if queue.complete_common(now, completion, &mut group) {
                plain += 1;
            } else {
                broken += u64::from(queue.complete(now, completion).is_err());
            }
        }
        completions.clear();
        group.count(now, &queue.counters);
        queue.counters.completions.add(plain);
        queue.counters.bios_completed.add(plain);
        broken
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
            hears: false,
            neighbours: MergeHash::new(capacity),
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
        self.store.hears = elevator.as_ref().is_some_and(|elevator| elevator.hears_completions());
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

    /// [`Queue::submit_prebuilt`] for a whole batch, which is empty afterwards.
    pub fn submit_batch(&mut self, now: Time, batch: &mut VecDeque<Bio>, prebuilt: Prebuilt) {
        let plain = prebuilt.holds_for(self.geometry.size) && !self.order.is_closed();
        if !plain || self.failed || self.sink.is_some() {
            batch.drain(..).for_each(|bio| self.submit_prebuilt(now, bio, prebuilt));
            return;
        }
        self.counters.bios.add(batch.len() as u64);
        while let Some(bio) = batch.pop_front() {
            match self.store.elevator {
                Some(_) => self.enqueue_elevator(now, bio),
                None => self.enqueue(now, bio),
            }
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
        if self.sink.is_some() {
            self.trace_request(now, Action::Issue, index, 0);
        }
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

    /// Whether nothing can start, because the device is plugged.
    #[inline]
    pub fn holds_all_back(&self) -> bool {
        self.store.plug.is_plugged() && self.store.ready.is_empty() && !self.attention
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

// What a completed request of the shared queue releases: its slot, its place in the pool, the bios that wait for these.
impl SchedQueue {
    #[inline]
    fn complete_request(&mut self, now: Time, index: u32, result: i64) {
        if self.attention {
            return self.complete_with_care(now, index, result);
        }
        self.complete_plainly(now, index, result);
    }

    /// Completes a request when it may be overdue, free a request for a waiter or let a barrier begin.
    #[cold]
    fn complete_with_care(&mut self, now: Time, index: u32, result: i64) {
        let request = self.store.table.at(index);
        let (marks, several) = (request.marks, request.bios > 1);
        let result = self.take_back(index, marks, several, result);
        self.look_at_tag(now, index, result);
        self.complete_plainly(now, index, result);
        self.attend(now);
    }

    /// Completes a request of one bio of a submitter, if all of it was carried out and nothing but that is expected of it.
    #[inline(always)]
    fn complete_common(&mut self, now: Time, completion: Completion, group: &mut Group) -> bool {
        let index = completion.tag;
        if self.attention || self.sink.is_some() {
            return false;
        }
        let Scheduler { table, elevator, pool, fails, .. } = &mut self.store;
        let plain =
            |bio: &Bio| bio.parent() == NO_PARENT && !bio.flags().intersects(MARKS) && bio.status().is_ok();
        let Some((request, mut bio)) = table.take_plain(index, completion.result, plain) else {
            return false;
        };
        if request.started != group.started || request.op != group.op {
            group.count(now, &self.counters);
            *group = Group { op: request.op, started: request.started, count: 0, bytes: 0 };
        }
        group.count += 1;
        group.bytes += request.len;
        self.in_flight -= 1;
        if let Some(elevator) = elevator {
            if core::mem::take(&mut request.chosen) {
                elevator.completed(now, request.id(index), &request.info());
            }
            *fails = false;
            pool.put(request.op.dir());
        }
        table.release(index);
        bio.finish();
        self.done.push(bio);
        true
    }

    #[inline]
    fn complete_plainly(&mut self, now: Time, index: u32, result: i64) {
        let request = self.store.table.at(index);
        let (op, len, dir, bios) = (request.op, request.len, request.op.dir(), request.bios);
        self.counters.latency_of(op).record(now.since(request.started).0);
        if self.store.elevator.is_some() {
            self.tell_completed(now, index);
            self.store.fails = result < 0 && is_lasting(op, result);
            self.store.pool.put(dir);
        }
        if bios == 1
            && let Some(bio) = self.store.table.take_single(index)
        {
            return self.complete_single(now, bio, result);
        }
        let mut shares = self.shares((op, len), result);
        loop {
            let last = self.store.table.at(index).bios == 1;
            let Some(bio) = self.store.table.pop_bio(index) else { return };
            self.complete_share(now, bio, &mut shares);
            if last {
                return;
            }
        }
    }

    /// Tells the elevator, once, that a request it chose has completed or is dismantled.
    #[inline]
    fn tell_completed(&mut self, now: Time, index: u32) {
        let Some(elevator) = &mut self.store.elevator else { return };
        if core::mem::take(&mut self.store.table.at_mut(index).chosen) {
            elevator.completed(now, self.store.table.id(index), &self.store.table.at(index).info());
        }
    }

    /// Retries go before everything else, in order, each as a request of its own.
    #[cold]
    fn requeue_retries(&mut self, now: Time) {
        while let Some(bio) = self.retries.pop_back() {
            if self.store.elevator.is_some() {
                self.store.pool.take_always(bio.op().dir());
            }
            if !self.store.table.has_free() {
                self.grow_table();
            }
            if let Ok(index) = self.store.table.make(bio, State::Ready) {
                self.counters.restarts.add(1);
                self.store.ready.push_front(index);
                self.trace_request(now, Action::Insert, index, 0);
            }
        }
    }

    #[cold]
    fn wake_waiters(&mut self, now: Time) {
        if self.store.elevator.is_none() {
            loop {
                if self.merge_waiter(now, 0) {
                    continue;
                }
                if !self.may_make() {
                    return;
                }
                let Some(bio) = self.waiting[0].pop_front() else { return };
                self.make_ready(now, bio);
            }
        }
        for list in 0..self.waiting.len() {
            self.wake_direction(now, list);
        }
    }

    /// Wakes waiters in order; each context that had to wait may then batch. A waiter that can be merged into a
    /// request needs none of its own.
    fn wake_direction(&mut self, now: Time, list: usize) {
        while let Some(first) = self.waiting[list].front() {
            let (context, dir) = (first.context(), first.op().dir());
            if self.merge_waiter(now, list) {
                continue;
            }
            if !self.store.pool.may_wake(dir) {
                return;
            }
            if self.first_is_refused(list) {
                return;
            }
            self.store.pool.start_batch(now, dir, context);
            while self.waiting[list].front().is_some_and(|bio| bio.context() == context) {
                if self.merge_waiter(now, list) {
                    continue;
                }
                if self.first_is_refused(list) || !self.store.pool.take(now, dir, context, MayQueue::May) {
                    return;
                }
                let Some(bio) = self.waiting[list].pop_front() else { return };
                self.insert_new(now, bio);
            }
        }
    }

    /// Whether the elevator makes the first waiter wait longer: only while something is left whose completion will
    /// wake it.
    fn first_is_refused(&self, list: usize) -> bool {
        let first = self.waiting[list].front();
        self.store.table.used() > 0 && first.is_some_and(|bio| self.may_queue(bio) == MayQueue::No)
    }
}

// Takes bios out of the shared queue before the driver has them: when they are cancelled or late, and when the device has
// failed.
//
// Elevators have no call to remove a request, and need none: a bio that leaves a request before it starts leaves a
// placeholder, and the request is dismantled when it is about to start.
impl SchedQueue {
    /// Takes bios out of requests that have not started, and marks those requests.
    fn withdraw_from_requests(&mut self, which: &dyn Fn(&Bio) -> bool, out: &mut Vec<Bio>) {
        let idle: Vec<u32> =
            self.store.table.in_state(State::Queued).chain(self.store.table.in_state(State::Ready)).collect();
        for index in idle {
            let before = out.len();
            self.store.table.for_each_bio_mut(index, |bio| {
                if !bio.flags().contains(Flags::ORPHAN) && which(bio) {
                    out.push(bio.leave_placeholder());
                }
            });
            if out.len() > before && !self.store.table.at(index).marks.contains(Marks::WITHDRAWN) {
                self.store.table.at_mut(index).marks.add(Marks::WITHDRAWN);
                self.withdrawn += 1;
            }
        }
    }

    /// Has a request be dismantled if the one that it is about to absorb would have been: placeholders have no memory.
    #[cold]
    fn pass_mark_on(&mut self, survivor: u32, absorbed: u32) {
        let is_marked = |index| self.store.table.at(index).marks.contains(Marks::WITHDRAWN);
        if !is_marked(absorbed) {
            return;
        }
        if is_marked(survivor) {
            self.withdrawn -= 1;
        } else {
            self.store.table.at_mut(survivor).marks.add(Marks::WITHDRAWN);
        }
    }

    /// Ends sequences that have not started: they wait for the flush before their data. One whose data the device has ends with
    /// the flush behind it, and one that a flush in flight serves ends with that flush, without its data. On a device that has
    /// failed no flush starts, so all that wait for one end.
    fn withdraw_sequences(&mut self, now: Time, which: &dyn Fn(&Bio) -> bool, why: Kind) {
        let (pending, running) = (core::mem::take(&mut self.order.pending), &self.order.running);
        for &at in running {
            let matching = self.families.get_mut(at).filter(|parent| which(&parent.bio));
            if let Some(Parent { bio, role: Role::Sequence { steps, .. }, .. }) = matching
                && *steps & DATA != 0
            {
                bio.fail(queue_fault(why));
            }
        }
        let mut ended: Vec<u32> = Vec::new();
        for at in pending {
            let ends = self.families.get_mut(at).filter(|parent| which(&parent.bio)).is_some_and(|parent| {
                let waits =
                    self.failed || matches!(parent.role, Role::Sequence { steps, .. } if steps & PRE != 0);
                if waits {
                    parent.bio.fail(queue_fault(why));
                }
                waits
            });
            if ends { &mut ended } else { &mut self.order.pending }.push(at);
        }
        ended.into_iter().for_each(|at| self.advance_sequence(now, at));
    }

    /// Dismantles a request of which bios were withdrawn: their placeholders are dropped, and the others start next, each in a
    /// request of its own.
    fn take_apart(&mut self, now: Time, index: u32) {
        self.tell_completed(now, index);
        let (dir, bios) = (self.store.table.at(index).op.dir(), self.store.table.at(index).bios);
        self.withdrawn -= 1;
        if self.store.elevator.is_some() {
            self.store.pool.put(dir);
        }
        self.counters.dismantled.add(1);
        for _ in 0..bios {
            let Some(mut bio) = self.store.table.pop_bio(index) else { break };
            if bio.flags().contains(Flags::ORPHAN) {
                self.keep_spare(bio);
            } else {
                bio.add_flags(Flags::ALONE);
                self.retries.push_back(bio);
            }
        }
        // The slot is free now, and a barrier may have waited for that.
        self.attend(now);
    }
}

// Freezing, switching elevators or the order of barriers under load, and broken elevators.
//
// The order of barriers is switched when everything that the queue has admitted has ended, an ordered tag and its
// repetition included. What is submitted meanwhile is held back, behind what a barrier holds back already, and follows in
// the new mode. So the device never has requests of both modes.
impl SchedQueue {
    /// State of the request pool for one direction.
    pub fn pool_stats(&self, dir: Dir) -> PoolStats {
        self.store.pool.stats(dir)
    }

    /// Replaces the elevator. Requests that the old elevator held go to the dispatch list in its order; none
    /// is lost, and none passes through the new one.
    pub fn switch_elevator(&mut self, now: Time, elevator: Option<Box<dyn Elevator>>) {
        self.unplug_for_waiter(now);
        while self.store.queued > 0 {
            let Some(index) = self.choose(now, true) else { break };
            self.store.ready.push_back(index);
        }
        self.store.table.forget_choices();
        let had_elevator = self.store.elevator.is_some();
        self.set_elevator(elevator);
        self.store.elevator_fault = None;
        self.recount_pool(had_elevator);
        let mut waiting: Vec<Bio> = Vec::new();
        self.waiting.iter_mut().for_each(|list| waiting.extend(list.drain(..)));
        for bio in waiting {
            self.enqueue(now, bio);
        }
    }

    /// The pool counts requests only while there is an elevator.
    fn recount_pool(&mut self, had_elevator: bool) {
        if had_elevator == self.store.elevator.is_some() {
            return;
        }
        self.store.pool = RequestPool::new(&self.settings);
        if self.store.elevator.is_some() {
            let live: Vec<u32> = self
                .store
                .table
                .in_state(State::Ready)
                .chain(self.store.table.in_state(State::Started))
                .collect();
            for index in live {
                self.store.pool.take_always(self.store.table.at(index).op.dir());
            }
        }
    }

    /// Replaces an elevator that broke its contract with `noop`, which gets all requests still queued.
    #[cold]
    fn replace_broken(&mut self, now: Time, what: &str) {
        let name = self.elevator_name();
        self.store.elevator_fault = Some(format!("elevator {name} {what}; noop took over"));
        self.store.table.forget_choices();
        let mut noop = Noop::default();
        noop.reserve(self.store.table.capacity());
        let held: Vec<u32> = self.store.table.in_state(State::Queued).collect();
        for &index in &held {
            noop.insert(now, self.store.table.id(index), &self.store.table.at(index).info());
        }
        self.store.queued = held.len() as u32;
        self.store.hears = noop.hears_completions();
        self.store.elevator = Some(Box::new(noop));
    }
}

impl SchedQueue {
    /// How hard barriers that are submitted from now on keep their order.
    pub fn ordered(&self) -> Ordered {
        self.order.switching.unwrap_or(self.settings.ordered)
    }

    /// Changes how hard barriers keep their order. What has been admitted ends first; what a barrier holds back, and what is
    /// submitted meanwhile, follows in the new mode.
    pub fn switch_ordered(&mut self, now: Time, ordered: Ordered) {
        if ordered == self.ordered() {
            return;
        }
        self.order.switching = Some(ordered);
        self.unplug_for_waiter(now);
        self.finish_switch(now);
        self.note_attention();
    }

    /// Whether a switch waits for the queue to drain.
    pub fn ordered_switch_pending(&self) -> bool {
        self.order.switching.is_some()
    }

    /// Carries out a switch that was asked for, if all that came before it has ended.
    fn finish_switch(&mut self, now: Time) {
        if self.order.is_closed_by_barrier() || self.order.tag.is_some() || !self.has_nothing_to_send() {
            return;
        }
        let Some(ordered) = self.order.switching.take() else { return };
        self.settings.ordered = ordered;
        self.let_in(now);
    }

    /// Whether no request exists or will be made of what was admitted. Parents of bios that are held
    /// back may exist.
    fn has_nothing_to_send(&self) -> bool {
        self.store.table.used() == 0 && self.nothing_waits() && !self.order.has_sequences()
    }
}
