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
//! Source: BFQ of Linux 4.12 and later, with the values of 6.1, and Documentation/block/bfq-iosched; papers in
//! `bfq/service.rs`. Differences:
//! - A process has a queue for each class that it uses: a change of class is a change of queue.
//! - There is no wait for a process that is known to think longer than the wait, or that has exited.
//! - The turn of the idle class ends the current service; it does not wait for the next choice.
//! - Only stretches of sequential requests lower the estimate of the device's rate.
//! - Whether seeks take time is measured, unless the parameter `rotational` says so.
//! - There are no groups (cgroups), no early merging of the queues of processes that read close to each other, and
//!   no injection of other queues' requests into a wait.

use alloc::boxed::Box;
use alloc::vec::Vec;
use platter_block::bio::{Context, Op};
use platter_block::elevator::{Elevator, ElevatorType, RequestId, RequestInfo, Settings};
use platter_block::params::{Param, ParamError};
use platter_block::time::{Span, Time};

mod device;
mod params;
mod procs;
mod raise;
mod requests;
mod serve;
mod service;

use device::Device;
use params::STRICT_GUARANTEES;
use params::{BACK_SEEK_MAX, BACK_SEEK_PENALTY, FIFO_EXPIRE_ASYNC, FIFO_EXPIRE_SYNC, PARAMS, SLICE_IDLE};
use procs::{IDLE, Procs, SEEK_SECTORS, key_of};
use raise::Burst;
use requests::{BackSeek, Requests};
use serve::{Busy, Reason};
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
    /// End of the last request dispatched.
    last_end: u64,
    in_service: Option<u32>,
    service_start: Time,
    /// When the current service has lasted too long.
    budget_end: Time,
    wait: Option<Wait>,
    /// When the idle class was last served, or began to wait.
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
            last_end: 0,
            in_service: None,
            service_start: Time(0),
            budget_end: Time(0),
            wait: None,
            idle_turn: Time(0),
            budgets_assigned: 0,
        }
    }
}

impl Bfq {
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
        let (record, was_used) = match self.procs.make(info) {
            Some(made) => made,
            None => {
                self.make_room(2 * self.procs.len().max(REMEMBERED), self.started.len());
                self.procs.make(info)?
            }
        };
        if was_used {
            self.service.withdraw(record);
        }
        self.procs.wake(record, info);
        self.procs[record].max_budget = self.largest_budget() * FIRST_BUDGET.0 / FIRST_BUDGET.1;
        if info.sync {
            self.burst.join(now, &mut self.procs, record);
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

    /// Called when a queue that had no queued request, and is not in service, gets one.
    fn become_backlogged(&mut self, now: Time, record: u32) {
        self.consider_raising(now, record);
        let least = self.least_budget();
        let it = &mut self.procs[record];
        it.backlogged_since = now;
        it.backlogged_service = 0;
        if it.is_raised() {
            it.max_budget = it.max_budget.min(2 * least);
        }
        if it.class == IDLE && !self.service.has_waiting(IDLE) {
            self.idle_turn = self.idle_turn.max(now);
        }
        let (class, weight, budget) =
            (self.procs[record].class, self.weight(record), self.first_budget(record));
        self.procs[record].budget = budget;
        self.service.activate(record, class, weight, budget);
        self.busy.add(&mut self.procs[record], weight);
        if self.in_service.is_some_and(|served| self.service.preempts(record, served)) {
            self.expire(now, Reason::Preempted);
        }
    }

    /// Puts a queue that is not busy to rest if it has nothing outstanding.
    fn settle(&mut self, record: u32) {
        let it = &self.procs[record];
        if it.counted == 0 && it.dispatched == 0 {
            self.procs.rest(record);
        }
    }

    /// The request to dispatch from the queue in service: the oldest if it has waited too long (checked once per
    /// service), otherwise the nearest.
    fn pick(&mut self, now: Time, record: u32) -> Option<RequestId> {
        let it = &mut self.procs[record];
        if !core::mem::replace(&mut it.fifo_checked, true)
            && let Some((id, entry)) = self.requests.oldest(record)
            && now >= entry.expire
        {
            return Some(id);
        }
        it.next
    }

    /// Recomputes the next request of a queue, for a head at `last`.
    fn choose_next(&mut self, record: u32, follower: Option<RequestId>, last: u64) {
        let ahead = follower.or_else(|| self.requests.from(record, 0));
        let behind = self.requests.before(record, last);
        self.procs[record].next = self.requests.nearer(ahead, behind, last, self.back_seek());
    }

    /// Removes a request from its queue for dispatch.
    fn start(&mut self, now: Time, record: u32, id: RequestId) -> Option<RequestId> {
        let (entry, follower) = self.requests.remove(record, id)?;
        let sectors = entry.sectors();
        let charge = self.charge_of(record, sectors);
        self.device.started(now, entry.pos, sectors, self.in_driver, self.requests.len());
        let jump = entry.pos.abs_diff(self.last_end) > SEEK_SECTORS * 512;
        let lone = (self.in_driver == 0 && jump && self.procs[record].sync).then_some(now);
        if let Some(started) = self.started.get_mut(id.index as usize) {
            *started = Started { generation: id.generation, record, seek: lone };
        }
        self.last_end = entry.end;
        self.in_driver += 1;
        self.service.serve(record, charge);
        let it = &mut self.procs[record];
        it.queued -= 1;
        it.dispatched += 1;
        it.service += charge;
        it.raise.service += sectors;
        it.backlogged_service += sectors;
        if it.queued == 0 {
            it.next = None;
        } else {
            self.choose_next(record, follower, entry.end);
        }
        // Other queues wait: the idle class may have only one request with the driver.
        if self.procs[record].class == IDLE && self.busy.several() {
            self.expire(now, Reason::Exhausted);
        }
        Some(id)
    }

    /// After a completion: if the queue in service is empty, starts a wait for it or ends its service.
    fn look_after_service(&mut self, now: Time, record: u32) {
        let it = &self.procs[record];
        if it.queued > 0 {
            return;
        }
        match (self.better_to_wait(record), self.procs[record].dispatched) {
            (false, _) => self.expire(now, Reason::NoMore),
            (true, 0) => self.start_wait(now, record),
            (true, _) => {}
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
        let longest = Span(2 * self.span(SLICE_IDLE).0);
        let back = self.back_seek();
        let rotational = self.is_rotational();
        let it = &mut self.procs[record];
        it.note_arrival(now, info, longest, rotational);
        it.queued += 1;
        it.next = self.requests.nearer(it.next, Some(id), self.last_end, back);
        if self.in_service == Some(record) {
            self.wait = None;
        } else if it.queued == 1 {
            self.become_backlogged(now, record);
        } else if !info.sync {
            self.consider_raising_async(now, record);
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
            let next = self.procs[record].next;
            self.procs[record].next = self.requests.nearer(next, Some(id), self.last_end, self.back_seek());
        }
    }

    fn absorbed(&mut self, survivor: RequestId, absorbed: RequestId, _info: &RequestInfo) {
        let Some(record) = self.requests.queue_of(absorbed).filter(|_| survivor != absorbed) else { return };
        self.requests.absorb(record, survivor, absorbed);
        let it = &mut self.procs[record];
        it.queued -= 1;
        if it.queued > 0 {
            if it.next == Some(absorbed) {
                let follower = self.requests.from(record, self.last_end);
                self.choose_next(record, follower, self.last_end);
            }
            return;
        }
        // Its last request went to another queue. If the queue is in service, its next check notices that.
        it.next = None;
        if self.in_service != Some(record) {
            self.service.withdraw(record);
            self.busy.remove(&mut self.procs[record]);
            self.settle(record);
        }
    }

    fn dispatch(&mut self, now: Time, force: bool) -> Option<RequestId> {
        if self.requests.len() == 0 || !force && self.in_driver > 0 && self.is_on(STRICT_GUARANTEES) {
            return None;
        }
        let record = self.select(now, force)?;
        let id = self.pick(now, record)?;
        self.start(now, record, id)
    }

    fn completed(&mut self, now: Time, id: RequestId, info: &RequestInfo) {
        let Some(started) = self.started.get_mut(id.index as usize) else { return };
        if started.generation != id.generation || self.in_driver == 0 {
            return;
        }
        let Started { record, seek, .. } = core::mem::take(started);
        self.in_driver -= 1;
        let seek = seek.filter(|_| info.op == Op::Read).map(|since| now.since(since));
        self.device.completed(now, seek);
        let it = &mut self.procs[record];
        it.dispatched = it.dispatched.saturating_sub(1);
        it.note_done(now);
        if it.queued == 0 && it.dispatched == 0 {
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
            if self.in_service == Some(record) && self.procs[record].queued == 0 && self.wait.is_some() {
                self.expire(now, Reason::NoMore);
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
        self.settings.set(name, value)
    }
}

#[cfg(test)]
mod tests;
