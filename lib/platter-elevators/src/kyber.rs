//! `kyber`: bounds how many requests of each kind are in the device, depending on their latencies.
//!
//! It neither sorts nor provides fairness. Requests fall into four domains (reads, writes, discards, other
//! requests), each with a number of tokens: the most requests that it may have in the device. Domains take turns
//! in batches, first in first out. Latencies of the first three domains are measured; ten times a second the
//! numbers of tokens are adapted: if a domain misses its target in the device, the domains that meet theirs give
//! up tokens.
//!
//! Source: `kyber` of Linux 4.12 and later, as of 6.1, for one hardware queue. Its timer fires in the first call
//! after the hundred milliseconds: without calls there is nothing to adjust. The share of requests that
//! asynchronous writes may hold refers to `nr_requests`, the pool of their direction.

use alloc::boxed::Box;
use alloc::vec::Vec;
use platter_block::bio::{Context, Op};
use platter_block::elevator::{
    Dir, Elevator, ElevatorType, Fifos, ListId, MayQueue, RequestId, RequestInfo, Settings,
};
use platter_block::params::{Param, ParamError, Unit};
use platter_block::time::{Span, Time};

mod latency;
use latency::{GOOD, Latencies, Stage};

/// Rows of [`PARAMS`].
const READ_LAT_NSEC: usize = 0;
const WRITE_LAT_NSEC: usize = 1;

/// The longest target: a thousand seconds.
const MAX_TARGET: i64 = 1_000_000_000_000;

static PARAMS: [Param; 2] = [
    Param::number(
        "read_lat_nsec",
        Unit::Nanos,
        2_000_000,
        (0, MAX_TARGET),
        "how long a read should take in the device",
    ),
    Param::number(
        "write_lat_nsec",
        Unit::Nanos,
        10_000_000,
        (0, MAX_TARGET),
        "how long a write should take in the device",
    ),
];

pub(crate) const TYPE: ElevatorType = ElevatorType {
    name: "kyber",
    summary: "bounds the requests in the device so that reads and writes meet their target latencies",
    params: &PARAMS,
    make: || Box::new(Kyber::default()),
};

/// Target latency of discards.
const DISCARD_TARGET: Span = Span::from_secs(5);

const DOMAINS: usize = 4;
/// The number of domains whose latencies are measured: all but the last.
const TIMED: usize = 3;
const READ: usize = 0;
const WRITE: usize = 1;
const DISCARD: usize = 2;
const OTHER: usize = 3;

/// Most tokens of each domain, which is also the initial number.
const TOKENS: [u32; DOMAINS] = [256, 128, 64, 16];
/// Requests per turn of each domain.
const BATCH: [u32; DOMAINS] = [16, 8, 1, 1];
/// Share of a direction's requests that asynchronous ones may hold.
const ASYNC_PERCENT: u64 = 75;
/// How often tokens are adjusted.
const PERIOD: Span = Span::from_millis(100);

#[inline]
const fn domain_of(op: Op) -> usize {
    match op {
        Op::Read => READ,
        Op::Write => WRITE,
        Op::Discard => DISCARD,
        Op::Flush | Op::WriteZeroes | Op::Command => OTHER,
    }
}

/// The record of a request until it completes, by slot.
#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    generation: u32,
    is_async: bool,
    arrived: Time,
    started: Time,
}

/// The Kyber elevator.
#[derive(Clone, Debug)]
pub struct Kyber {
    settings: Settings<2>,
    /// A list for each domain.
    fifos: Fifos<()>,
    kept: Vec<Kept>,
    /// Tokens of each domain.
    depth: [u32; DOMAINS],
    in_flight: [u32; DOMAINS],
    /// The domain that has its turn.
    current: usize,
    /// Requests dispatched in this turn.
    batching: u32,
    latencies: [Latencies; TIMED],
    /// When tokens are adjusted next; set by the first completion after the last adjustment.
    adjust_at: Option<Time>,
    nr_requests: u32,
    /// Writes that are queued or in the device, and the asynchronous ones among them.
    writes: u64,
    asyncs: u64,
}

impl Default for Kyber {
    fn default() -> Self {
        Kyber {
            settings: Settings::new(TYPE.name, &PARAMS),
            fifos: Fifos::new(DOMAINS),
            kept: Vec::new(),
            depth: TOKENS,
            in_flight: [0; DOMAINS],
            current: READ,
            batching: 0,
            latencies: [Latencies::default(); TIMED],
            adjust_at: None,
            nr_requests: 128,
            writes: 0,
            asyncs: 0,
        }
    }
}

impl Kyber {
    /// The tokens of reads, writes, discards and other requests.
    pub fn depths(&self) -> [u32; 4] {
        self.depth
    }

    fn target(&self, domain: usize) -> Span {
        match domain {
            READ => Span(self.settings.unsigned(READ_LAT_NSEC)),
            WRITE => Span(self.settings.unsigned(WRITE_LAT_NSEC)),
            _ => DISCARD_TARGET,
        }
    }

    #[inline]
    fn kept(&mut self, id: RequestId) -> Option<&mut Kept> {
        self.kept.get_mut(id.index as usize).filter(|kept| kept.generation == id.generation)
    }

    /// The first request of the current domain, if the domain has a token for it.
    #[inline]
    fn take(&mut self, now: Time, force: bool) -> Option<RequestId> {
        let domain = self.current;
        if self.in_flight[domain] >= self.depth[domain] && !force {
            return None;
        }
        let (id, ()) = self.fifos.pop_front(ListId::new(domain as u32))?;
        self.in_flight[domain] += 1;
        self.batching += 1;
        if let Some(kept) = self.kept(id) {
            kept.started = now;
        }
        Some(id)
    }

    #[inline]
    fn tick(&mut self, now: Time) {
        if self.adjust_at.is_some_and(|at| now >= at) {
            self.adjust_at = None;
            self.adjust(now);
        }
    }

    /// Adapts the number of tokens of each domain to its latencies and to those of the others.
    #[cold]
    fn adjust(&mut self, now: Time) {
        let mut bad = false;
        for latencies in &mut self.latencies {
            bad |= latencies.percentile(now, Stage::Device, 90).is_some_and(|bucket| bucket >= GOOD);
        }
        let domains = self.latencies.iter_mut().zip(&mut self.depth).zip(TOKENS);
        for ((latencies, depth), most) in domains {
            let Some(p99) = latencies.total_p99(now, bad) else { continue };
            if bad || p99 >= GOOD {
                *depth = (*depth * (p99 as u32 + 1) / GOOD as u32).clamp(1, most);
            }
        }
    }

    /// A request is no longer queued or in the device.
    fn release(&mut self, id: RequestId, dir: Dir) {
        let is_async = self.kept(id).is_some_and(|kept| kept.is_async);
        self.asyncs = self.asyncs.saturating_sub(u64::from(is_async));
        self.writes = self.writes.saturating_sub(u64::from(dir == Dir::Write));
    }
}

impl Elevator for Kyber {
    fn name(&self) -> &'static str {
        TYPE.name
    }

    fn reserve(&mut self, requests: usize) {
        self.fifos.reserve(requests);
        if requests > self.kept.len() {
            self.kept.resize(requests, Kept::default());
        }
    }

    fn insert(&mut self, now: Time, id: RequestId, info: &RequestInfo) {
        if !self.fifos.push_back(ListId::new(domain_of(info.op) as u32), id, ()) {
            return;
        }
        let (place, is_async) = (id.index as usize, !info.sync);
        if place >= self.kept.len() {
            self.kept.resize(place + 1, Kept::default());
        }
        self.kept[place] = Kept { generation: id.generation, is_async, arrived: now, started: now };
        self.writes += u64::from(info.dir == Dir::Write);
        self.asyncs += u64::from(is_async);
    }

    fn absorbed(&mut self, survivor: RequestId, absorbed: RequestId, info: &RequestInfo) {
        if survivor == absorbed || self.fifos.remove(absorbed).is_none() {
            return;
        }
        self.release(absorbed, info.dir);
        // The survivor inherits the age of the older of the two.
        if let Some(arrived) = self.kept(absorbed).map(|kept| kept.arrived)
            && let Some(kept) = self.kept(survivor)
        {
            kept.arrived = kept.arrived.min(arrived);
        }
    }

    fn may_queue(&self, _context: Context, dir: Dir) -> MayQueue {
        // Requests reserved for synchronous writes are not subject to the pool's order of waiters.
        let spare = dir == Dir::Write && self.writes < u64::from(self.nr_requests);
        if spare { MayQueue::Must } else { MayQueue::May }
    }

    fn may_queue_async(&self, _context: Context, _dir: Dir) -> MayQueue {
        let limit = u64::from(self.nr_requests) * ASYNC_PERCENT / 100;
        if self.asyncs < limit.max(1) { MayQueue::May } else { MayQueue::No }
    }

    fn depth_updated(&mut self, nr_requests: u32) {
        self.nr_requests = nr_requests;
    }

    fn dispatch(&mut self, now: Time, force: bool) -> Option<RequestId> {
        self.tick(now);
        if self.batching < BATCH[self.current]
            && let Some(id) = self.take(now, force)
        {
            return Some(id);
        }
        if self.fifos.is_empty() {
            return None;
        }
        self.batching = 0;
        (0..DOMAINS).find_map(|_| {
            self.current = (self.current + 1) % DOMAINS;
            self.take(now, force)
        })
    }

    fn completed(&mut self, now: Time, id: RequestId, info: &RequestInfo) {
        let domain = domain_of(info.op);
        self.in_flight[domain] = self.in_flight[domain].saturating_sub(1);
        self.release(id, info.dir);
        if domain < TIMED
            && let Some(&mut Kept { arrived, started, .. }) = self.kept(id)
        {
            let target = self.target(domain);
            self.latencies[domain].add(target, now.since(arrived), now.since(started));
            self.adjust_at.get_or_insert(now + PERIOD);
        }
        self.tick(now);
    }

    fn len(&self) -> usize {
        self.fifos.len()
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
