//! `cfq-v2`: complete fair queueing by the service that each process has received.
//!
//! Records of processes outlive their requests. Busy processes are sorted by service received, those with equal service by
//! requests in flight. When the dispatch list is empty it is refilled in passes over all busy processes: each
//! sends one request, in the first pass only those with nothing in flight. The passes end when a whole one has reached
//! `quantum`, so with more busy processes than that a refill takes one request of each. A process sends its
//! oldest request if that has expired (at most once per `fifo_batch_expire`), otherwise the request nearest
//! to the last position.
//!
//! Service is the time with the driver, in ticks of a millisecond (Linux with HZ=1000). When more than a second has passed since
//! the account was opened, it is divided by 8 and the second begins again; it is also divided when the process becomes busy
//! after such a time. On a device that queues (`tagged`, which four requests in the driver at once turn on) these times
//! overlap and are meaningless; there each request counts 1 when the driver takes it, and the account is divided by 10. Both units go to the
//! same account, as in the kernel.
//!
//! A process may have at most 64 requests of a direction. Those kernels also set the pool to 1,024 requests when CFQ was chosen;
//! here it is the device's `nr_requests` (128 by default).
//!
//! Source: CFQ of Linux 2.6.10 to 2.6.12 (`drivers/block/cfq-iosched.c` of 2.6.12-rc2). Those kernels applied each of the
//! two `fifo_expire` to the other kind of request; `swap_fifo_expire=1` does that. Merges and equal positions are as in
//! [`Cfq1`](super::Cfq1); the dispatch list is sorted from the last position on.

use crate::cfq::{BACK_SEEK, Entry, Gone, Nearest, Processes, Requests, is_whole_process, millis, requests};
use alloc::boxed::Box;
use platter_block::bio::Context;
use platter_block::elevator::{
    Dir, Elevator, ElevatorType, MayQueue, RequestId, RequestInfo, SectorMap, Settings,
};
use platter_block::params::{Param, ParamError, Unit};
use platter_block::time::{Span, Time};

const KEY_TYPE: usize = 0;
const QUANTUM: usize = 1;
const QUEUED: usize = 2;
const FIFO_EXPIRE_SYNC: usize = 3;
const FIFO_EXPIRE_ASYNC: usize = 4;
const FIFO_BATCH_EXPIRE: usize = 5;
const BACK_SEEK_MAX: usize = 6;
const BACK_SEEK_PENALTY: usize = 7;
const FIND_BEST_CRQ: usize = 8;
const TAGGED: usize = 9;
const SWAP_FIFO_EXPIRE: usize = 10;

const fn switch(name: &'static str, default: i64, help: &'static str) -> Param {
    Param::number(name, Unit::Switch, default, (0, 1), help)
}

static PARAMS: [Param; 11] = [
    Param::word(
        "key_type",
        &["pgid", "tgid", "uid", "gid"],
        1,
        "what counts as one process: the process group, the process, the user, or the group again",
    ),
    requests(
        "quantum",
        4,
        1,
        "requests after which no other pass over the busy processes refills the dispatch list",
    ),
    requests("queued", 8, 0, "requests that each process may always have; also its least share of the pool"),
    millis(
        "fifo_expire_sync",
        500,
        "a synchronous request that has waited longer is the next of its process",
    ),
    millis("fifo_expire_async", 5000, "the same for an asynchronous one"),
    millis("fifo_batch_expire", 125, "least time between two such choices of a process"),
    BACK_SEEK[0],
    BACK_SEEK[1],
    switch("find_best_crq", 1, "choose the nearest request; off: the lowest"),
    switch("tagged", 0, "count requests instead of time; four requests in the driver turn it on"),
    switch("swap_fifo_expire", 0, "exchange the two time limits, as the code of 2.6.10 to 2.6.12 did"),
];

/// Requests in the driver at once that show that the device queues.
const TAGGED_DEPTH: u32 = 4;

/// Ticks after which an account is scaled down.
const SERVICE: u64 = 1000;

/// Requests of a direction that a process may have at most: a sixteenth of the kernel's pool of 1,024.
const MAX_QUEUED: u64 = 64;

pub(crate) const TYPE: ElevatorType = ElevatorType {
    name: "cfq-v2",
    summary: "the process that has received the least service goes first, as in Linux 2.6.10 to 2.6.12",
    params: &PARAMS,
    make: || Box::new(Cfq2::default()),
};

/// The record of a process (or of the unit that `key_type` selects).
#[derive(Clone, Copy, Debug, Default)]
struct Process {
    queued: u32,
    in_flight: u32,
    /// Requests queued or in flight, per direction.
    allocated: [u32; 2],
    service_used: u64,
    /// The tick at which the account was opened.
    service_start: Option<u64>,
    /// When the oldest request was last chosen because it had expired.
    last_fifo: Option<Time>,
    /// The request to choose next.
    next: Option<RequestId>,
    /// Its key in the list of busy processes.
    listed: Option<(u64, RequestId)>,
}

impl Process {
    /// Scales an account that is older than a second.
    #[inline]
    fn decay(&mut self, now: u64, divisor: u64) {
        let start = *self.service_start.get_or_insert(now);
        if now.saturating_sub(start) > SERVICE {
            self.service_start = Some(now);
            self.service_used /= divisor;
        }
    }

    /// A process becomes busy: if its account is older than a second, it is scaled and stays as old.
    #[inline]
    fn arrive(&mut self, now: u64) {
        if self.service_start.is_some_and(|start| now.saturating_sub(start) > SERVICE) {
            self.service_used /= 8;
        }
    }
}

/// The tick of a time: milliseconds, rounded down.
#[inline]
fn tick(time: Time) -> u64 {
    time.since(Time(0)).as_millis()
}

/// The CFQ elevator of Linux 2.6.10 to 2.6.12.
#[derive(Clone, Debug)]
pub struct Cfq2 {
    settings: Settings<11>,
    processes: Processes<Process>,
    requests: Requests,
    /// Busy processes by service and requests in flight. The index of an entry's id is a count of such
    /// entries, so that equal entries stay in order; its generation is the slot.
    busy: SectorMap,
    listings: u32,
    in_driver: u32,
    /// Number of requests in the pool per direction.
    pool: u64,
}

impl Default for Cfq2 {
    fn default() -> Self {
        Cfq2 {
            settings: Settings::new(TYPE.name, &PARAMS),
            processes: Processes::new(),
            requests: Requests::new(2),
            busy: SectorMap::new(),
            listings: 0,
            in_driver: 0,
            pool: 128,
        }
    }
}

impl Cfq2 {
    /// Key of a context. Keys of different kinds differ, so that they do not mix when `key_type` is changed.
    #[inline]
    fn key(&self, context: Context) -> u64 {
        let kind = self.settings.unsigned(KEY_TYPE);
        let who = match kind {
            1 => context.process(),
            2 => context.user(),
            _ => context.group(),
        };
        kind << 32 | u64::from(who)
    }

    #[inline]
    fn rule(&self) -> Nearest {
        Nearest::new(self.settings.unsigned(BACK_SEEK_MAX), self.settings.unsigned(BACK_SEEK_PENALTY))
    }

    /// Moves a process to its place in the list of busy processes.
    #[inline]
    fn list(&mut self, slot: u32) {
        let process = &mut self.processes[slot];
        let place = process.service_used.min((1 << 48) - 1) << 16 | u64::from(process.in_flight.min(0xffff));
        if let Some((old, entry)) = process.listed {
            if old == place && process.queued > 0 {
                return;
            }
            process.listed = None;
            self.busy.remove(old, entry);
        }
        if process.queued > 0 {
            let entry = RequestId { index: self.listings, generation: slot };
            self.listings = self.listings.wrapping_add(1);
            self.busy.insert(place, entry);
            process.listed = Some((place, entry));
        }
    }

    /// The oldest request of a process, if it has expired and the last such choice was long enough ago.
    #[inline]
    fn expired(&mut self, now: Time, slot: u32) -> Option<RequestId> {
        let pause = Span::from_millis(self.settings.unsigned(FIFO_BATCH_EXPIRE));
        if self.processes[slot].last_fifo.is_some_and(|last| now < last + pause) {
            return None;
        }
        for (list, limit) in [(1, FIFO_EXPIRE_SYNC), (0, FIFO_EXPIRE_ASYNC)] {
            let list = if self.settings.at(SWAP_FIFO_EXPIRE) != 0 { 1 - list } else { list };
            let limit = Span::from_millis(self.settings.unsigned(limit));
            if let Some((id, arrived)) = self.requests.oldest(slot, list)
                && now > arrived + limit
            {
                self.processes[slot].last_fifo = Some(now);
                return Some(id);
            }
        }
        None
    }

    /// Moves one request of a process to the dispatch list. The process keeps its place among the busy ones.
    #[inline]
    fn take_from(&mut self, now: Time, slot: u32) {
        let chosen = self.expired(now, slot).or_else(|| {
            let best = self.settings.at(FIND_BEST_CRQ) != 0;
            if best { self.processes[slot].next } else { self.requests.lowest(slot) }
        });
        let Some(id) = chosen else { return };
        if self.processes[slot].next == Some(id) {
            self.processes[slot].next = self.requests.best_beside(self.rule(), id, true);
        }
        self.requests.choose(id, self.requests.boundary());
        self.processes[slot].queued -= 1;
        self.processes[slot].in_flight += 1;
        if self.processes[slot].queued == 0 {
            self.list(slot);
        }
    }

    /// Fills the dispatch list. `quantum` is looked at between passes, not within one.
    fn refill(&mut self, now: Time) {
        let quantum = self.settings.unsigned(QUANTUM);
        let (mut taken, mut first) = (0, true);
        loop {
            let before = taken;
            let mut at = self.busy.first();
            while let Some((place, entry)) = at {
                let slot = entry.generation;
                if !first || self.processes[slot].in_flight == 0 {
                    self.take_from(now, slot);
                    taken += 1;
                }
                at = self.busy.successor(place, entry);
            }
            if taken >= quantum || (taken == before && !first) {
                return;
            }
            first = false;
        }
    }

    /// A request goes to the driver.
    #[inline]
    fn sent(&mut self, now: Time, id: RequestId) {
        let Some(slot) = self.requests.chosen_by(id) else { return };
        let process = &mut self.processes[slot];
        if self.settings.at(TAGGED) != 0 {
            process.decay(tick(now), 10);
            process.service_used += 1;
            self.list(slot);
        } else {
            process.service_start.get_or_insert(tick(now));
        }
        self.in_driver += 1;
        if self.in_driver >= TAGGED_DEPTH {
            self.settings.put(TAGGED, 1);
        }
    }
}

impl Elevator for Cfq2 {
    fn name(&self) -> &'static str {
        TYPE.name
    }

    fn reserve(&mut self, requests: usize) {
        let slots = self.processes.reserve(requests);
        self.requests.reserve(requests, slots);
        self.busy.reserve(requests);
    }

    fn insert(&mut self, now: Time, id: RequestId, info: &RequestInfo) {
        if !self.requests.has_room(id) {
            self.reserve(id.index as usize + 1);
        }
        let slot = self.processes.hold(self.key(info.context), None);
        if !self.requests.insert(info.sync.into(), id, Entry::new(slot, now, info)) {
            return self.processes.release(slot);
        }
        let next = self.requests.better(self.rule(), self.processes[slot].next, id);
        let process = &mut self.processes[slot];
        process.next = Some(next);
        process.queued += 1;
        process.allocated[info.dir as usize] += 1;
        if process.queued == 1 {
            process.arrive(tick(now));
            self.list(slot);
        }
    }

    fn front_merges(&self) -> bool {
        true
    }

    fn allow_merge(&self, id: RequestId, request: &RequestInfo, bio: &RequestInfo) -> bool {
        let Some(entry) = self.requests.get(id) else { return false };
        bio.pos == request.end() || self.processes.find(self.key(bio.context)) == Some(entry.slot)
    }

    fn merged(&mut self, id: RequestId, old: &RequestInfo, new: &RequestInfo) {
        self.requests.grow(id, new);
        if let Some(slot) = self.requests.get(id).map(|entry| entry.slot)
            && old.pos != new.pos
        {
            let next = self.requests.better(self.rule(), self.processes[slot].next, id);
            self.processes[slot].next = Some(next);
        }
    }

    fn absorbed(&mut self, survivor: RequestId, absorbed: RequestId, _info: &RequestInfo) {
        let follower = self.requests.best_beside(self.rule(), absorbed, false);
        let Some(gone) = self.requests.absorb(survivor, absorbed) else { return };
        let (slot, dir) = match gone {
            Gone::Queued(entry) => {
                let process = &mut self.processes[entry.slot];
                process.queued -= 1;
                if process.next == Some(absorbed) {
                    process.next = follower;
                }
                (entry.slot, entry.dir)
            }
            Gone::Chosen(taken) => {
                self.processes[taken.slot].in_flight -= 1;
                (taken.slot, taken.dir)
            }
        };
        self.processes[slot].allocated[usize::from(dir)] -= 1;
        self.list(slot);
        self.processes.release(slot);
    }

    /// A process may always have `queued` requests of a direction, and at most its share of the pool or 64.
    fn may_queue(&self, context: Context, dir: Dir) -> MayQueue {
        let Some(slot) = self.processes.find(self.key(context)) else { return MayQueue::May };
        let allocated = u64::from(self.processes[slot].allocated[dir as usize]);
        let least = self.settings.unsigned(QUEUED);
        let share = match self.busy.len() as u64 {
            0 => MAX_QUEUED,
            busy => self.pool / busy,
        };
        if allocated < least {
            MayQueue::Must
        } else if allocated >= share.min(MAX_QUEUED).max(least) {
            MayQueue::No
        } else {
            MayQueue::May
        }
    }

    fn depth_updated(&mut self, nr_requests: u32) {
        self.pool = nr_requests.into();
    }

    fn dispatch(&mut self, now: Time, _force: bool) -> Option<RequestId> {
        if !self.requests.has_chosen() {
            self.refill(now);
        }
        let id = self.requests.leave(now)?;
        self.sent(now, id);
        Some(id)
    }

    fn completed(&mut self, now: Time, id: RequestId, _info: &RequestInfo) {
        let Some(taken) = self.requests.complete(id) else { return };
        self.in_driver -= 1;
        let process = &mut self.processes[taken.slot];
        process.in_flight -= 1;
        process.allocated[usize::from(taken.dir)] -= 1;
        if self.settings.at(TAGGED) == 0 {
            process.decay(tick(now), 8);
            process.service_used += tick(now).saturating_sub(tick(taken.at));
            self.list(taken.slot);
        }
        self.processes.release(taken.slot);
    }

    fn exited(&mut self, _now: Time, context: Context) {
        // A group or a user outlives a process, and a process outlives one of its threads.
        if self.settings.at(KEY_TYPE) == 1
            && is_whole_process(context)
            && let Some(slot) = self.processes.find(self.key(context))
        {
            self.processes.forget(slot);
        }
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
