//! `bfq`: each process has a queue, which is served alone until it has used up a budget of sectors.
//!
//! Queues are served in the order of B-WF2Q+ (see `bfq/service.rs`), so that each receives its share of sectors by
//! weight whatever its budgets are; budgets only decide how long the device stays with one queue, and they are
//! adapted to how the queue uses them. When a queue becomes empty, the elevator waits briefly for its next request if
//! that improves throughput or if the shares would be wrong otherwise. A queue that is slow for the sectors it
//! receives is charged time instead of sectors. Real time comes before best effort, best effort before idle; the idle
//! class has a turn every 200 ms. Weights are raised temporarily for queues that were idle for long (interactive) and
//! for queues whose requests arrive at a moderate, steady rate (soft real time), but not for large bursts of new
//! queues.
//!
//! While a queue is waited for, requests of others may be injected (see `bfq/inject.rs`).
//!
//! Source: `block/bfq-iosched.c` and `bfq-wf2q.c` of Linux, with the values and rules of 6.1, and
//! Documentation/block/bfq-iosched; papers in `bfq/service.rs`. Differences:
//! - A process has a queue for each class that it uses: a change of class is a change of queue.
//! - Whether seeks take time is measured, unless the parameter `rotational` says so.
//! - A request that is next because it has waited too long stays that. There a nearer one that comes takes its place, so that a
//!   stream of one request at a time can pass it for ever.
//! - Ticks are not rounded to: a time in milliseconds there is exact here.
//! - There are no groups (cgroups), no actuators, and no merging of queues, neither of processes that read close to each other nor
//!   of those created within 600 ms of each other with the same priority: a benchmark that starts its processes together
//!   would measure one queue.
//! - The fractions of the pool that writes may take are of the requests for writes, as reads have their own here.

use alloc::boxed::Box;
use alloc::vec::Vec;
use platter_block::bio::{Context, Op};
use platter_block::elevator::{Dir, Elevator, ElevatorType, MayQueue, RequestId, RequestInfo, Settings};
use platter_block::params::{Param, ParamError};
use platter_block::time::{Span, Time};

mod busy;
mod device;
mod inject;
mod params;
mod procs;
mod raise;
mod record;
mod requests;
mod serve;
mod service;

use busy::{Busy, Writes};
use device::Device;
use inject::Trial;
use params::{
    BACK_SEEK_MAX, BACK_SEEK_PENALTY, FIFO_EXPIRE_ASYNC, FIFO_EXPIRE_SYNC, LOW_LATENCY, MAX_BUDGET, PARAMS,
    ROTATIONAL, SLICE_IDLE, STRICT_GUARANTEES, TIMEOUT_SYNC,
};
use procs::Procs;
use raise::Burst;
use record::{IDLE, Link, Why, is_seek, key_of};
use requests::{BackSeek, Requests};
use serve::Reason;
use service::Service;

pub(crate) const TYPE: ElevatorType = ElevatorType {
    name: "bfq",
    summary: "budget fair queueing: sectors are shared by weight, and interactive processes come first",
    params: &PARAMS,
    make: || Box::new(Bfq::default()),
};

/// Number of processes remembered beyond those that have requests.
const REMEMBERED: usize = 32;

/// Budget of a new queue, as a fraction of the largest budget.
const FIRST_BUDGET: (u64, u64) = (2, 3);
/// Largest budget in sectors until the rate of the device is known.
const FIRST_MAX_BUDGET: u64 = 16 * 1024;
/// The smallest budget is the largest divided by this.
const LEAST_BUDGET: u64 = 32;
/// Number of budgets after which the largest is taken as known, in units of 1/256 of many.
const ENOUGH_BUDGETS: u32 = 194;

/// Multiple of `slice_idle`: a request that arrives at most this long after the last completion counts as on time.
const IN_TIME: u64 = 3;
/// A longer request goes to the device at once, even if its queue is waited for.
const SMALL_REQUEST: u64 = 32 * 512;

/// With strict guarantees the elevator waits at least so long, in milliseconds.
const STRICT_IDLE: i64 = 8;

/// What is recorded of a request with the driver, by its slot.
#[derive(Clone, Copy, Debug, Default)]
struct Started {
    generation: u32,
    record: u32,
    /// Dispatch time, if it is a read that found the device empty and its head elsewhere.
    seek: Option<Time>,
}

/// The wait for the next request of the queue in service.
#[derive(Clone, Copy, Debug)]
struct Wait {
    since: Time,
    until: Time,
}

/// The BFQ elevator.
#[derive(Clone, Debug)]
pub struct Bfq {
    settings: Settings<{ params::COUNT }>,
    requests: Requests,
    procs: Procs,
    service: Service,
    busy: Busy,
    burst: Burst,
    device: Device,
    /// Requests with the driver, by slot.
    started: Vec<Started>,
    in_driver: u32,
    writes: Writes,
    /// End of the last request dispatched.
    last_end: u64,
    /// The queue of the last request completed.
    last_completed: Option<Link>,
    in_service: Option<u32>,
    service_start: Time,
    wait: Option<Wait>,
    trial: Trial,
    /// When the idle class could last be chosen before the others.
    idle_turn: Time,
    budgets_assigned: u32,
}

impl Default for Bfq {
    fn default() -> Self {
        Bfq {
            settings: Settings::new(TYPE.name, &PARAMS),
            requests: Requests::default(),
            procs: Procs::default(),
            service: Service::default(),
            busy: Busy::default(),
            burst: Burst::default(),
            device: Device::default(),
            started: Vec::new(),
            in_driver: 0,
            writes: Writes::default(),
            last_end: 0,
            last_completed: None,
            in_service: None,
            service_start: Time(0),
            wait: None,
            trial: Trial::default(),
            idle_turn: Time(0),
            budgets_assigned: 0,
        }
    }
}

impl Bfq {
    #[inline]
    fn span(&self, row: usize) -> Span {
        Span::from_millis(self.settings.unsigned(row))
    }

    #[inline]
    fn is_on(&self, row: usize) -> bool {
        self.settings.at(row) != 0
    }

    /// Whether seeks take time.
    fn is_rotational(&self) -> bool {
        match self.settings.at(ROTATIONAL) {
            1 => true,
            2 => false,
            _ => !self.device.seeks_fast(),
        }
    }

    /// Whether enough budgets were assigned to trust them.
    fn knows_budgets(&self) -> bool {
        self.budgets_assigned >= ENOUGH_BUDGETS
    }

    /// The largest budget, in sectors.
    fn largest_budget(&self) -> u64 {
        match self.settings.unsigned(MAX_BUDGET) {
            0 => self.device.sectors_in(self.span(TIMEOUT_SYNC)).unwrap_or(FIRST_MAX_BUDGET),
            sectors => sectors,
        }
    }

    /// The largest budget that queues begin with, in sectors.
    fn first_most_budget(&self) -> u64 {
        if self.knows_budgets() { self.largest_budget() } else { FIRST_MAX_BUDGET }
    }

    /// The smallest budget, in sectors.
    fn first_least_budget(&self) -> u64 {
        self.first_most_budget() / LEAST_BUDGET
    }

    fn back_seek(&self) -> BackSeek {
        let (max, penalty) =
            (self.settings.unsigned(BACK_SEEK_MAX) * 1024, self.settings.unsigned(BACK_SEEK_PENALTY));
        BackSeek { max, penalty }
    }

    /// The queue of a request; it is created if there is none.
    fn queue_for(&mut self, now: Time, info: &RequestInfo) -> Option<u32> {
        if let Some(record) = self.procs.find(key_of(info)) {
            self.procs.wake(record, info);
            return Some(record);
        }
        let (record, was_used) = match self.procs.make(now, info) {
            Some(made) => made,
            None => {
                self.make_room(2 * self.procs.len().max(REMEMBERED), self.started.len());
                self.procs.make(now, info)?
            }
        };
        if was_used {
            self.service.withdraw(record);
        }
        self.procs.wake(record, info);
        self.procs[record].max_budget = self.first_most_budget() * FIRST_BUDGET.0 / FIRST_BUDGET.1;
        if info.sync {
            self.burst.join(now, &mut self.procs, record, self.busy.count > 0);
        }
        Some(record)
    }

    fn make_room(&mut self, records: usize, requests: usize) {
        self.procs.reserve(records);
        self.service.reserve(self.procs.len());
        self.requests.reserve(requests, self.procs.len());
        if requests > self.started.len() {
            self.started.resize(requests, Started::default());
        }
    }

    /// A request arrives for a queue that is not busy. Returns whether its process seems interactive.
    fn become_busy(&mut self, now: Time, record: u32) -> bool {
        let in_time = now <= self.procs[record].last_done + Span(IN_TIME * self.span(SLICE_IDLE).0);
        let signs = self.signs(now, record);
        let first = self.first_budget(record);
        let it = &mut self.procs[record];
        // What it would have received if this request had come a little sooner, it gets now.
        let resumes = it.expected && in_time && it.left() > 0;
        it.budget = if resumes { it.left().min(it.max_budget) } else { first };
        it.service = 0;
        it.expected = false;
        self.consider_raising(now, record, signs);
        let (weight, factor) = (self.weight(record), self.factor(record));
        let it = &mut self.procs[record];
        it.backlogged_since = now;
        it.backlogged_service = 0;
        it.soft_rt_due = false;
        it.busy = true;
        self.service.activate(record, it.class, weight, it.budget, resumes.then_some(factor));
        self.busy.update(it);
        self.procs.list(record);
        if let Some(served) = self.in_service {
            let (new, old) = (&self.procs[record], &self.procs[served]);
            let higher = new.class < old.class || weight > self.weight(served);
            if resumes && factor >= self.factor(served) || higher || !self.better_to_wait(served) {
                self.expire(now, false, Reason::Preempted);
            }
        }
        signs.interactive
    }

    /// Puts a queue that is not busy to rest if it has nothing outstanding.
    fn settle(&mut self, record: u32) {
        let it = &self.procs[record];
        if it.is_lone() && !it.busy {
            self.procs.rest(record);
        }
    }

    /// Recomputes the next request of a queue that loses this one: the oldest if it has waited too long (checked once per
    /// service), otherwise the nearest.
    fn choose_next(
        &mut self,
        record: u32,
        expired: Option<RequestId>,
        follower: Option<RequestId>,
        pos: u64,
    ) {
        let ahead = follower.or_else(|| self.requests.from(record, 0));
        let behind = self.requests.before(record, pos);
        let nearest = self.requests.nearer(ahead, behind, pos, self.back_seek());
        let it = &mut self.procs[record];
        it.next = expired.or(nearest);
        it.next_is_late = expired.is_some();
        self.next_changed(record);
    }

    /// A request has come, or grown to the front: it may be nearer than the next one.
    fn offer(&self, record: u32, id: RequestId) -> Option<RequestId> {
        let it = &self.procs[record];
        let new = Some(id).filter(|_| !it.next_is_late);
        self.requests.nearer(it.next, new, self.last_end, self.back_seek())
    }

    /// Removes a request from its queue for dispatch.
    fn start(&mut self, now: Time, record: u32, id: RequestId) -> Option<RequestId> {
        let charge = self.charge(record, Some(id));
        let checked = core::mem::replace(&mut self.procs[record].fifo_checked, true);
        let expired = self.requests.expired(now, record, id).filter(|_| !checked);
        let (entry, follower) = self.requests.remove(record, id)?;
        let serving = self.in_service == Some(record);
        self.receive(record, charge);
        if serving {
            self.trial.started(id);
        }
        let rotational = self.is_rotational();
        self.device.started(now, entry.pos, entry.sectors(), self.in_driver, rotational);
        let it = &mut self.procs[record];
        let jump = is_seek(self.last_end.max(1), entry.pos, entry.sectors(), true);
        let lone = (self.in_driver == 0 && jump && it.sync).then_some(now);
        if let Some(started) = self.started.get_mut(id.index as usize) {
            *started = Started { generation: id.generation, record, seek: lone };
        }
        self.last_end = entry.end;
        self.in_driver += 1;
        it.queued -= 1;
        it.dispatched += 1;
        if it.queued == 0 {
            (it.next, it.next_is_late) = (None, false);
            self.run_dry(record);
        } else {
            self.choose_next(record, expired, follower, entry.pos);
        }
        if serving {
            self.end_raising(now, record);
            // Other queues wait: the idle class may have only one request with the driver.
            if self.procs[record].class == IDLE && self.busy.several() {
                self.expire(now, false, Reason::Exhausted);
            }
        }
        Some(id)
    }

    /// The last request of a queue is gone. If the queue is in service, its next check notices that.
    fn run_dry(&mut self, record: u32) {
        if self.in_service == Some(record) || !self.procs[record].busy {
            return;
        }
        self.service.leave(record);
        self.procs.unlist(record);
        let it = &mut self.procs[record];
        it.busy = false;
        (it.budget, it.service) = (0, 0);
        self.busy.update(it);
        self.settle(record);
    }

    /// After a completion: starts a wait for the queue in service, or ends its service.
    fn look_after_service(&mut self, now: Time, record: u32) {
        let empty = self.procs[record].queued == 0;
        let (waits, idle) = (self.better_to_wait(record), self.procs[record].dispatched == 0);
        if empty && waits {
            if idle {
                self.start_wait(now, record);
            }
        } else if self.may_time_out(now, record) {
            self.expire(now, false, Reason::Timeout);
        } else if empty {
            self.expire(now, false, Reason::NoMore);
        }
    }

    /// A request was queued for the queue in service, which is waited for.
    fn stop_waiting(&mut self, now: Time, record: u32, len: u64) {
        let over = self.procs[record].is_over(now);
        let small = self.procs[record].queued == 1 && len < SMALL_REQUEST;
        if small && self.wait_pays(record) && !over {
            return;
        }
        self.wait = None;
        if over {
            self.expire(now, false, Reason::Timeout);
        }
    }
}

impl Elevator for Bfq {
    fn name(&self) -> &'static str {
        TYPE.name
    }

    fn reserve(&mut self, requests: usize) {
        self.make_room(requests + REMEMBERED, requests);
    }

    fn insert(&mut self, now: Time, id: RequestId, info: &RequestInfo) {
        if self.wait.is_some_and(|wait| now >= wait.until) {
            self.end_wait(now);
        }
        if id.index as usize >= self.started.len() {
            self.make_room(self.procs.len(), id.index as usize + 1);
        }
        let Some(record) = self.queue_for(now, info) else { return };
        let expire = self.span(if info.sync { FIFO_EXPIRE_SYNC } else { FIFO_EXPIRE_ASYNC });
        if !self.requests.insert(record, id, info, now + expire) {
            return self.settle(record);
        }
        self.writes.count(info, 1);
        self.note_think_time(now, record);
        let rotational = self.is_rotational();
        self.procs[record].note_seek(info, rotational);
        if self.procs[record].raise.why == Why::SoftRealTime && self.procs[record].seeks == u32::MAX {
            self.lower_soft_rt(now, record);
        }
        if info.sync {
            if self.procs[record].is_lone() {
                self.note_lone_arrival(now, record);
            }
            self.procs[record].note_intensity(now);
        }
        let next = self.offer(record, id);
        let it = &mut self.procs[record];
        let was_raised = it.is_raised();
        it.queued += 1;
        let changed = core::mem::replace(&mut it.next, next) != next;
        let mut interactive = false;
        if it.busy {
            self.consider_raising_async(now, record);
            if changed {
                self.next_changed(record);
            }
        } else {
            interactive = self.become_busy(now, record);
        }
        let it = &mut self.procs[record];
        if !was_raised || !it.is_raised() || interactive {
            it.raise.since = now;
        }
        if self.in_service == Some(record) && self.wait.is_some() {
            self.stop_waiting(now, record, info.len);
        }
    }

    fn allow_merge(&self, id: RequestId, _request: &RequestInfo, bio: &RequestInfo) -> bool {
        let queue = self.requests.queue_of(id);
        queue.is_some() && queue == self.procs.find(key_of(bio))
    }

    fn front_merges(&self) -> bool {
        true
    }

    fn merged(&mut self, id: RequestId, old: &RequestInfo, new: &RequestInfo) {
        let Some(record) = self.requests.queue_of(id) else { return };
        self.requests.grow(record, id, new);
        if old.pos != new.pos {
            let next = self.offer(record, id);
            if core::mem::replace(&mut self.procs[record].next, next) != next {
                self.next_changed(record);
            }
        }
    }

    fn absorbed(&mut self, survivor: RequestId, absorbed: RequestId, info: &RequestInfo) {
        let Some(record) = self.requests.queue_of(absorbed).filter(|_| survivor != absorbed) else { return };
        let within = self.requests.queue_of(survivor) == Some(record);
        self.requests.absorb(record, survivor, absorbed);
        self.writes.count(info, -1);
        let it = &mut self.procs[record];
        it.queued -= 1;
        if it.queued == 0 {
            (it.next, it.next_is_late) = (None, false);
            return self.run_dry(record);
        }
        if it.next == Some(absorbed) {
            if within {
                it.next = Some(survivor);
            } else {
                let follower = self.requests.from(record, info.pos);
                self.choose_next(record, None, follower, info.pos);
            }
        }
    }

    fn may_queue(&self, _context: Context, dir: Dir) -> MayQueue {
        if dir == Dir::Write { self.writes.room(true, self.busy.raised > 0) } else { MayQueue::May }
    }

    fn may_queue_async(&self, _context: Context, _dir: Dir) -> MayQueue {
        self.writes.room(false, self.busy.raised > 0)
    }

    fn depth_updated(&mut self, nr_requests: u32) {
        self.writes.nr_requests = nr_requests.into();
    }

    fn dispatch(&mut self, now: Time, force: bool) -> Option<RequestId> {
        if self.requests.len() == 0 || !force && self.in_driver > 0 && self.is_on(STRICT_GUARANTEES) {
            return None;
        }
        let record = self.select(now, force)?;
        let id = self.procs[record].next?;
        self.start(now, record, id)
    }

    fn completed(&mut self, now: Time, id: RequestId, info: &RequestInfo) {
        let Some(started) = self.started.get_mut(id.index as usize) else { return };
        if started.generation != id.generation || self.in_driver == 0 {
            return;
        }
        let Started { record, seek, .. } = core::mem::take(started);
        self.writes.count(info, -1);
        self.note_sample(now, record, id);
        let few = self.in_service.is_some_and(|served| {
            let it = &self.procs[served];
            it.short_think && it.dispatched + it.queued < 3
        });
        self.device.look_at_queue(self.in_driver, self.requests.len(), few);
        self.in_driver -= 1;
        let it = &mut self.procs[record];
        it.dispatched = it.dispatched.saturating_sub(1);
        if it.dispatched == 0 && !it.busy {
            it.budget_end = Some(now);
        }
        self.busy.update(it);
        it.last_done = now;
        self.last_completed = Some(it.link(record));
        let expects = it.soft_rt_due && it.is_lone() && it.raise.why != Why::Interactive;
        let (seek, rotational) = (seek.filter(|_| info.op == Op::Read), self.is_rotational());
        self.device.completed(now, seek.map(|since| now.since(since)), rotational);
        if expects {
            self.expect_soft_rt(now, record);
        }
        if self.in_service == Some(record) {
            self.look_after_service(now, record);
        } else {
            self.settle(record);
        }
    }

    fn exited(&mut self, now: Time, context: Context) {
        for record in self.procs.numbers() {
            if !self.procs.belongs(record, context) {
                continue;
            }
            self.procs[record].exited = true;
            self.burst.leave(&mut self.procs, record);
            if self.in_service == Some(record) && self.procs[record].queued == 0 && self.wait.is_some() {
                self.expire(now, false, Reason::NoMore);
            }
        }
    }

    fn next_wakeup(&self) -> Option<Time> {
        // With nothing queued, or with a request in the device under strict guarantees, nothing could be dispatched
        // afterwards.
        let asked = self.requests.len() > 0 && (self.in_driver == 0 || !self.is_on(STRICT_GUARANTEES));
        self.wait.filter(|_| asked).map(|wait| wait.until)
    }

    fn len(&self) -> usize {
        self.requests.len()
    }

    fn params(&self) -> &'static [Param] {
        &PARAMS
    }

    fn get(&self, name: &str) -> Option<i64> {
        self.settings.get(name)
    }

    fn set(&mut self, name: &str, value: i64) -> Result<(), ParamError> {
        self.settings.set(name, value)?;
        if name == "strict_guarantees" && value != 0 {
            let idle = self.settings.at(SLICE_IDLE).max(STRICT_IDLE);
            self.settings.put(SLICE_IDLE, idle);
        }
        if !self.is_on(LOW_LATENCY) {
            for record in self.procs.numbers() {
                if self.procs[record].is_raised() {
                    self.lower(self.procs[record].raise.since, record);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
