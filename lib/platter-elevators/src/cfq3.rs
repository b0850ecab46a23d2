//! `cfq`: complete fair queueing by time slices, with I/O priorities.
//!
//! The synchronous requests of each task are a queue; asynchronous writes of one priority, of all tasks, are
//! one queue. One queue has the disk for a time slice, which is longer the higher its priority level. It
//! sends in rounds of `quantum`: the oldest request if it has expired (checked once per slice), otherwise the
//! request nearest to the last position. An asynchronous queue may also send only a limited number of
//! requests per slice. When a synchronous queue has nothing queued and nothing in flight, the disk waits for
//! it, because the next request of a sequential reader comes soon and near. The process's think time and seek
//! distance decide whether the wait is worthwhile.
//!
//! Real time goes before best effort. The levels of best effort take turns in a sequence of 36 turns, of
//! which level p has 8 − p. The idle class goes, one request at a time, when the others have been quiet for
//! `idle_grace`. Requests without a priority have level 4 of best effort.
//!
//! Source: CFQ of Linux 2.6.13 and later, with the values of 2.6.20; `kernel` chooses others, and
//! `service_tree` the order, start of slices and preemption of 2.6.22. From late kernels (2.6.33 to 4.20)
//! there is `low_latency` with its `target_latency`, but without the slow start of asynchronous queues; their
//! trees by kind of load, groups and joining of cooperating processes are left out. A real-time queue becomes
//! the current one before those of best effort, not behind. Bios join requests only of the queue that they
//! would be in themselves. Requests at the same position all stay queued.

use crate::cfq::{Entry, Gone, Processes, Requests, is_whole_process};
use alloc::boxed::Box;
use platter_block::bio::Context;
use platter_block::elevator::{Dir, Elevator, ElevatorType, MayQueue, RequestId, RequestInfo};
use platter_block::params::{Param, ParamError};
use platter_block::time::Time;

mod order;
mod params;
mod queue;
mod slices;

use order::Order;
use params::{PARAMS, Tunables};
use queue::{Queue, class_and_level};

pub(crate) const TYPE: ElevatorType = ElevatorType {
    name: "cfq",
    summary: "time slices for each process, priorities, waiting for the next read, as in Linux 2.6.13 and later",
    params: &PARAMS,
    make: || Box::new(Cfq::default()),
};

/// Set in the keys of asynchronous queues, which otherwise consist of class and level.
const ASYNC: u64 = 1 << 63;

/// The device queues if it has had more requests than this at once.
const QUEUES: u32 = 4;

#[inline]
fn key_of(info: &RequestInfo) -> u64 {
    if info.sync {
        return info.context.task();
    }
    let (class, level) = class_and_level(info.ioprio);
    ASYNC | (class as u64) << 3 | u64::from(level)
}

/// The CFQ elevator of Linux 2.6.13 and later.
#[derive(Clone, Debug)]
pub struct Cfq {
    tunables: Tunables,
    queues: Processes<Queue>,
    requests: Requests,
    order: Order,
    /// Number of queues with waiting requests: asynchronous, synchronous.
    busy: [u32; 2],
    /// The queue that has the disk.
    active: Option<u32>,
    /// Requests sent in this slice.
    sent: u64,
    /// Until when the disk waits for the active queue.
    idle_until: Option<Time>,
    /// Until when the idle class is held back.
    grace_until: Option<Time>,
    /// When a request of another class than idle last completed.
    last_completion: Option<Time>,
    in_driver: u32,
    /// Whether the device has had more than [`QUEUES`] requests at once.
    device_queues: bool,
}

impl Default for Cfq {
    fn default() -> Self {
        Cfq {
            tunables: Tunables::new(TYPE.name),
            queues: Processes::new(),
            requests: Requests::new(1),
            order: Order::new(),
            busy: [0; 2],
            active: None,
            sent: 0,
            idle_until: None,
            grace_until: None,
            last_completion: None,
            in_driver: 0,
            device_queues: false,
        }
    }
}

impl Cfq {
    /// Assigns a queue to the process that sends the request, with its priority.
    #[inline]
    fn make_out(&mut self, now: Time, slot: u32, info: &RequestInfo) {
        let priority = class_and_level(info.ioprio);
        let queue = &mut self.queues[slot];
        if (queue.class, queue.level) != priority {
            let was_idle_class = queue.is_idle_class();
            (queue.class, queue.level) = priority;
            if was_idle_class != queue.is_idle_class() {
                queue.idle_window = was_idle_class;
            }
            if queue.queued > 0 && self.active != Some(slot) {
                self.order.remove(&mut self.queues, slot);
                self.enlist(now, slot, false);
            }
        }
        let queue = &mut self.queues[slot];
        if !queue.alive {
            queue.begin(info.sync);
        }
    }

    /// Puts a queue in line when it gets its first request, unless it has the disk already.
    fn arrived(&mut self, now: Time, slot: u32, info: &RequestInfo) {
        if self.active != Some(slot) {
            if self.queues[slot].queued == 1 {
                self.enlist(now, slot, false);
            }
            if self.may_preempt(slot, info) {
                self.preempt(now, slot);
            }
            return;
        }
        let Some(until) = self.idle_until.take() else { return };
        if now >= until && self.requests.len() > self.queues[slot].queued as usize {
            // The request came too late: other queues would have been served already.
            self.expire(now, false);
        } else {
            self.queues[slot].must_dispatch = true;
        }
    }

    /// The process of a queue has exited.
    fn end(&mut self, now: Time, slot: u32) {
        let queue = &mut self.queues[slot];
        queue.alive = false;
        queue.idle_window = false;
        if self.active == Some(slot) && self.queues[slot].queued == 0 {
            self.expire(now, false);
        }
        self.queues.forget(slot);
    }
}

impl Elevator for Cfq {
    fn name(&self) -> &'static str {
        TYPE.name
    }

    fn reserve(&mut self, requests: usize) {
        let slots = self.queues.reserve(requests);
        self.requests.reserve(requests, slots);
        self.order.reserve(requests, slots);
    }

    fn insert(&mut self, now: Time, id: RequestId, info: &RequestInfo) {
        if !self.requests.has_room(id) {
            self.reserve(id.index as usize + 1);
        }
        let slot = self.queues.hold(key_of(info), self.active);
        if !self.requests.insert(0, id, Entry::new(slot, now, info)) {
            return self.queues.release(slot);
        }
        self.make_out(now, slot, info);
        let next = self.requests.better(self.tunables.rule(), self.queues[slot].next, id);
        let (slice_idle, device_queues) = (self.tunables.slice_idle(), self.device_queues);
        let queue = &mut self.queues[slot];
        if queue.sync {
            queue.learn(now, info, slice_idle, device_queues);
        }
        queue.next = Some(next);
        queue.allocated[info.dir as usize] += 1;
        queue.queued += 1;
        if queue.queued == 1 {
            self.busy[usize::from(queue.sync)] += 1;
        }
        self.arrived(now, slot, info);
    }

    fn front_merges(&self) -> bool {
        true
    }

    fn allow_merge(&self, id: RequestId, _request: &RequestInfo, bio: &RequestInfo) -> bool {
        self.requests.get(id).is_some_and(|entry| self.queues.find(key_of(bio)) == Some(entry.slot))
    }

    fn merged(&mut self, id: RequestId, old: &RequestInfo, new: &RequestInfo) {
        self.requests.grow(id, new);
        if let Some(slot) = self.requests.get(id).map(|entry| entry.slot)
            && old.pos != new.pos
        {
            let next = self.requests.better(self.tunables.rule(), self.queues[slot].next, id);
            self.queues[slot].next = Some(next);
        }
    }

    fn absorbed(&mut self, survivor: RequestId, absorbed: RequestId, _info: &RequestInfo) {
        let follower = self.requests.best_beside(self.tunables.rule(), absorbed, false);
        let Some(gone) = self.requests.absorb(survivor, absorbed) else { return };
        let (slot, dir) = match gone {
            Gone::Queued(entry) => {
                if self.queues[entry.slot].next == Some(absorbed) {
                    self.queues[entry.slot].next = follower;
                }
                self.uncount(entry.slot);
                (entry.slot, entry.dir)
            }
            Gone::Chosen(taken) => {
                self.queues[taken.slot].in_flight -= 1;
                (taken.slot, taken.dir)
            }
        };
        self.queues[slot].allocated[usize::from(dir)] -= 1;
        self.queues.release(slot);
    }

    /// The process that the disk waits for may exceed all limits; every other process may have `queued`
    /// requests in any case.
    fn may_queue(&self, context: Context, dir: Dir) -> MayQueue {
        let slot = self.queues.find(context.task());
        let allocated = slot.map_or(0, |slot| self.queues[slot].allocated[dir as usize]);
        let waited_for = slot.is_some() && slot == self.active && self.idle_until.is_some();
        if waited_for || u64::from(allocated) < self.tunables.queued() {
            MayQueue::Must
        } else {
            MayQueue::May
        }
    }

    fn may_queue_async(&self, _context: Context, _dir: Dir) -> MayQueue {
        MayQueue::May
    }

    fn dispatch(&mut self, now: Time, force: bool) -> Option<RequestId> {
        self.grace_until = None;
        if !self.requests.has_chosen() {
            let slot = self.select(now, force)?;
            self.round(now, slot);
        } else if !force && self.active.is_some_and(|slot| self.is_driver_full(slot)) {
            return None;
        }
        let id = self.requests.leave(now)?;
        self.in_driver += 1;
        self.device_queues |= self.in_driver > QUEUES;
        Some(id)
    }

    fn completed(&mut self, now: Time, id: RequestId, _info: &RequestInfo) {
        let Some(taken) = self.requests.complete(id) else { return };
        let slot = taken.slot;
        self.in_driver -= 1;
        let queue = &mut self.queues[slot];
        queue.completed(now);
        queue.allocated[usize::from(taken.dir)] -= 1;
        let (quiet, waits) = (queue.in_flight == 0, queue.queued > 0);
        if !queue.is_idle_class() {
            self.last_completion = Some(now);
        }
        if self.active == Some(slot) {
            self.start_slice(now, slot);
            if self.queues[slot].is_over(now) {
                self.expire(now, false);
            } else if quiet && !waits {
                self.wait(now, slot);
            }
        } else if quiet && waits && self.order.is_busy(slot) {
            self.order.remove(&mut self.queues, slot);
            self.enlist(now, slot, false);
        }
        self.queues.release(slot);
    }

    fn exited(&mut self, now: Time, context: Context) {
        if !is_whole_process(context) {
            if let Some(slot) = self.queues.find(context.task()) {
                self.end(now, slot);
            }
            return;
        }
        for slot in self.queues.slots() {
            let key = self.queues.key(slot);
            if key & ASYNC == 0 && key >> 16 == u64::from(context.process()) {
                self.end(now, slot);
            }
        }
    }

    fn next_wakeup(&self) -> Option<Time> {
        if self.is_empty() {
            return None;
        }
        self.idle_until.or(self.grace_until)
    }

    fn len(&self) -> usize {
        self.requests.len()
    }

    fn params(&self) -> &'static [Param] {
        &PARAMS
    }

    fn get(&self, name: &str) -> Option<i64> {
        self.tunables.get(name)
    }

    fn set(&mut self, name: &str, value: i64) -> Result<(), ParamError> {
        self.tunables.set(name, value)
    }
}

#[cfg(test)]
mod tests;
