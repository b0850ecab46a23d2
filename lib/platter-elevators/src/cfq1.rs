//! `cfq-v1`: complete fair queueing in its first form, rounds of one request from each process.
//!
//! Each process (thread group) with waiting requests has a sorted tree of them, reads and writes together.
//! When the dispatch list is empty it is refilled in passes; a pass takes the lowest request of each process.
//! Passes repeat until at least `quantum` requests have been taken. The list is sorted by position. There are
//! no time limits, priorities or waits, and the record of a process is dropped with its last queued request.
//! A process may have only a limited number of requests queued per direction
//! ([`may_queue`](Elevator::may_queue)): its share of the pool, but at least 3.
//!
//! Source: CFQ of Linux 2.6.6 to 2.6.9. Those kernels' loop counted the processes but took each request from
//! the first one of the list; `rotate=0` does that, and the default does what was intended. They raised the
//! pool to 8192 requests and shared those out, though never more to one process than the original size of the
//! pool; here the raised number is a parameter, `nr_requests`, and the pool keeps its size. A request joins
//! the end of any process's request, and the front of one of its own process. One difference: requests at the
//! same position all stay queued, where the kernels dispatched the earlier one at once.

use crate::cfq::{Entry, Gone, Processes, Requests, requests};
use alloc::boxed::Box;
use platter_block::bio::Context;
use platter_block::elevator::{
    Dir, Elevator, ElevatorType, Fifos, ListId, MayQueue, RequestId, RequestInfo, Settings,
};
use platter_block::params::{Param, ParamError, Unit};
use platter_block::time::Time;

const QUANTUM: usize = 0;
const QUEUED: usize = 1;
const ROTATE: usize = 2;
const NR_REQUESTS: usize = 3;

static PARAMS: [Param; 4] = [
    requests("quantum", 4, 1, "requests that a refill of the dispatch list takes at least"),
    requests("queued", 8, 0, "requests of the pool that are not shared out among processes"),
    Param::number(
        "rotate",
        Unit::Switch,
        1,
        (0, 1),
        "take from all processes in turn; off: drain one after the other, as the code of 2.6.6 to 2.6.9 did",
    ),
    requests("nr_requests", 8192, 1, "requests to share out, no more to one process than the pool has"),
];

/// Smallest share of a process.
const LEAST_SHARE: u64 = 3;

pub(crate) const TYPE: ElevatorType = ElevatorType {
    name: "cfq-v1",
    summary: "rounds of one request from each process, as in Linux 2.6.6 to 2.6.9",
    params: &PARAMS,
    make: || Box::new(Cfq1::default()),
};

/// The record of a process with queued requests.
#[derive(Clone, Copy, Debug, Default)]
struct Process {
    queued: [u32; 2],
}

/// The list of busy processes; its members are slots.
const BUSY: ListId = ListId::new(0);

#[inline]
fn member(slot: u32) -> RequestId {
    RequestId { index: slot, generation: 0 }
}

#[inline]
fn key(context: Context) -> u64 {
    context.process().into()
}

/// The CFQ elevator of Linux 2.6.6 to 2.6.9.
#[derive(Clone, Debug)]
pub struct Cfq1 {
    settings: Settings<4>,
    processes: Processes<Process>,
    requests: Requests,
    busy: Fifos<()>,
    /// Number of requests in the pool per direction: the most that a process may have queued.
    pool: u64,
}

impl Default for Cfq1 {
    fn default() -> Self {
        Cfq1 {
            settings: Settings::new(TYPE.name, &PARAMS),
            processes: Processes::new(),
            requests: Requests::new(1),
            busy: Fifos::new(1),
            pool: 128,
        }
    }
}

impl Cfq1 {
    /// Requests that a process may have queued in a direction before it has to wait.
    fn share(&self) -> u64 {
        let pool = self.settings.unsigned(NR_REQUESTS).saturating_sub(self.settings.unsigned(QUEUED));
        let share = pool / (self.busy.len() as u64).max(1);
        share.clamp(LEAST_SHARE, self.pool.max(LEAST_SHARE))
    }

    /// A request of a process is no longer queued.
    #[inline]
    fn uncount(&mut self, slot: u32, dir: u8) {
        let queued = &mut self.processes[slot].queued;
        queued[usize::from(dir)] -= 1;
        if *queued == [0; 2] {
            self.busy.remove(member(slot));
        }
        self.processes.release(slot);
    }

    /// Moves the lowest request of a process to the dispatch list.
    #[inline]
    fn take_from(&mut self, slot: u32) {
        let lowest = self.requests.lowest(slot);
        if let Some(entry) = lowest.and_then(|id| self.requests.choose(id, 0)) {
            self.uncount(slot, entry.dir);
        }
    }

    fn refill(&mut self) {
        let (quantum, rotate) = (self.settings.unsigned(QUANTUM), self.settings.at(ROTATE) != 0);
        let mut taken = 0;
        while taken < quantum && !self.busy.is_empty() {
            let mut next = self.busy.front(BUSY).map(|(id, _)| id);
            for _ in 0..self.busy.len() {
                let Some(one) = next else { break };
                next = self.busy.after(one).map(|(id, _)| id);
                self.take_from(one.index);
                if !rotate {
                    next = self.busy.front(BUSY).map(|(id, _)| id);
                }
                taken += 1;
            }
        }
    }
}

impl Elevator for Cfq1 {
    fn name(&self) -> &'static str {
        TYPE.name
    }

    fn reserve(&mut self, requests: usize) {
        let slots = self.processes.reserve(requests);
        self.requests.reserve(requests, slots);
        self.busy.reserve(slots);
    }

    fn insert(&mut self, now: Time, id: RequestId, info: &RequestInfo) {
        if !self.requests.has_room(id) {
            self.reserve(id.index as usize + 1);
        }
        let slot = self.processes.hold(key(info.context), None);
        if !self.requests.insert(0, id, Entry::new(slot, now, info)) {
            return self.processes.release(slot);
        }
        let queued = &mut self.processes[slot].queued;
        let new = *queued == [0; 2];
        queued[info.dir as usize] += 1;
        if new {
            // At the front: the process that arrived last is served first.
            match self.busy.front(BUSY).map(|(first, _)| first) {
                Some(first) => self.busy.insert_before(first, member(slot), ()),
                None => self.busy.push_back(BUSY, member(slot), ()),
            };
        }
    }

    fn front_merges(&self) -> bool {
        true
    }

    fn allow_merge(&self, id: RequestId, request: &RequestInfo, bio: &RequestInfo) -> bool {
        let Some(entry) = self.requests.get(id) else { return false };
        bio.pos == request.end() || self.processes.find(key(bio.context)) == Some(entry.slot)
    }

    fn merged(&mut self, id: RequestId, _old: &RequestInfo, new: &RequestInfo) {
        self.requests.grow(id, new);
    }

    fn absorbed(&mut self, survivor: RequestId, absorbed: RequestId, _info: &RequestInfo) {
        if let Some(Gone::Queued(entry)) = self.requests.absorb(survivor, absorbed) {
            self.uncount(entry.slot, entry.dir);
        }
    }

    fn may_queue(&self, context: Context, dir: Dir) -> MayQueue {
        let queued =
            self.processes.find(key(context)).map_or(0, |slot| self.processes[slot].queued[dir as usize]);
        if u64::from(queued) > self.share() { MayQueue::No } else { MayQueue::May }
    }

    fn depth_updated(&mut self, nr_requests: u32) {
        self.pool = nr_requests.into();
    }

    fn dispatch(&mut self, now: Time, _force: bool) -> Option<RequestId> {
        if let Some(id) = self.requests.leave(now) {
            return Some(id);
        }
        self.refill();
        self.requests.leave(now)
    }

    fn completed(&mut self, _now: Time, id: RequestId, _info: &RequestInfo) {
        self.requests.complete(id);
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
