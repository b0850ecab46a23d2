//! Parameters of time-sliced CFQ, and values derived from them.

use crate::cfq::{BACK_SEEK, Nearest, millis, requests};
use platter_block::elevator::Settings;
use platter_block::params::{Param, ParamError, Unit};
use platter_block::time::Span;

const KERNEL: usize = 0;
const SLICE_SYNC: usize = 1;
const SLICE_ASYNC: usize = 2;
const SLICE_ASYNC_RQ: usize = 3;
const SLICE_IDLE: usize = 4;
const QUANTUM: usize = 5;
const QUEUED: usize = 6;
const FIFO_EXPIRE_SYNC: usize = 7;
const FIFO_EXPIRE_ASYNC: usize = 8;
const BACK_SEEK_MAX: usize = 9;
const BACK_SEEK_PENALTY: usize = 10;
const MAX_DEPTH: usize = 11;
const IDLE_GRACE: usize = 12;
const SERVICE_TREE: usize = 13;
const LOW_LATENCY: usize = 14;
const TARGET_LATENCY: usize = 15;
const SEEKY_IDLE: usize = 16;

const fn switch(name: &'static str, help: &'static str) -> Param {
    Param::number(name, Unit::Switch, 0, (0, 1), help)
}

pub(super) static PARAMS: [Param; 17] = [
    Param::word(
        "kernel",
        &["2.6.16", "2.6.17", "2.6.20", "2.6.22"],
        2,
        "sets slice_idle, queued, max_depth, service_tree and seeky_idle to that kernel's values; 2.6.16: 2.6.13 and later",
    ),
    millis("slice_sync", 100, "time slice of a synchronous queue of level 4"),
    millis("slice_async", 40, "time slice of an asynchronous queue of level 4"),
    requests("slice_async_rq", 2, 1, "an asynchronous queue of level 7 may send twice this in a slice"),
    millis("slice_idle", 8, "longest wait for the next request of a synchronous queue; 0: never wait"),
    requests("quantum", 4, 1, "requests that a queue sends in one round"),
    requests("queued", 0, 0, "synchronous requests of a direction that each process may always have"),
    millis(
        "fifo_expire_sync",
        125,
        "a synchronous request that waited longer may begin a slice of its queue",
    ),
    millis("fifo_expire_async", 250, "the same for an asynchronous one"),
    BACK_SEEK[0],
    BACK_SEEK[1],
    requests(
        "max_depth",
        0,
        0,
        "most requests in the driver while a synchronous queue has its slice; 0: no limit",
    ),
    millis(
        "idle_grace",
        100,
        "how long the disk must be without requests of other classes before the idle class is served",
    ),
    switch(
        "service_tree",
        "rules of 2.6.22: a tree by virtual time, slices from the first completion, more preemption",
    ),
    switch("low_latency", "shorten slices so that all synchronous queues have theirs within target_latency"),
    millis("target_latency", 300, "for low_latency"),
    millis(
        "seeky_idle",
        2,
        "longest wait for a process that seeks, by at least three of its requests; 0: slice_idle",
    ),
];

/// Values that `kernel` sets: `slice_idle`, `queued`, `max_depth`, `service_tree`, `seeky_idle`.
const KERNELS: [[i64; 5]; 4] = [[10, 8, 2, 0, 0], [14, 8, 0, 0, 2], [8, 0, 0, 0, 2], [8, 0, 0, 1, 2]];

/// The current values.
#[derive(Clone, Debug)]
pub(super) struct Tunables(Settings<17>);

impl Tunables {
    pub(super) fn new(owner: &'static str) -> Tunables {
        Tunables(Settings::new(owner, &PARAMS))
    }

    pub(super) fn get(&self, name: &str) -> Option<i64> {
        self.0.get(name)
    }

    pub(super) fn set(&mut self, name: &str, value: i64) -> Result<(), ParamError> {
        self.0.set(name, value)?;
        if name == PARAMS[KERNEL].name
            && let Some(values) = usize::try_from(value).ok().and_then(|kernel| KERNELS.get(kernel))
        {
            let rows = [SLICE_IDLE, QUEUED, MAX_DEPTH, SERVICE_TREE, SEEKY_IDLE];
            rows.iter().zip(values).for_each(|(&row, &value)| self.0.put(row, value));
        }
        Ok(())
    }

    #[inline]
    fn millis(&self, row: usize) -> Span {
        Span::from_millis(self.0.unsigned(row))
    }

    /// The time slice of a level: the base, plus or minus a fifth of it for each step from level 4.
    #[inline]
    pub(super) fn slice(&self, sync: bool, level: u8) -> Span {
        let base = self.millis(if sync { SLICE_SYNC } else { SLICE_ASYNC });
        // Never negative: 4 + 5 steps above zero.
        Span(base.0 / 5 * u64::from(9 - level.min(7)))
    }

    /// The length of a slice when `queues` synchronous queues want one.
    pub(super) fn slice_among(&self, sync: bool, level: u8, queues: u64) -> Span {
        let full = self.slice(sync, level);
        let base = self.slice(true, 4).0.max(1);
        let (all, target) = (base.saturating_mul(queues), self.millis(TARGET_LATENCY).0);
        if !sync || self.0.at(LOW_LATENCY) == 0 || all <= target {
            return full;
        }
        let part = |of: u64, all: u64| (u128::from(full.0) * u128::from(of) / u128::from(all)) as u64;
        let least = full.0.min(part(self.slice_idle().0.saturating_mul(2), base));
        Span(part(target, all).max(least))
    }

    /// Most requests that an asynchronous queue may send in a slice.
    #[inline]
    pub(super) fn max_rq(&self, level: u8) -> u64 {
        2 * self.0.unsigned(SLICE_ASYNC_RQ) * u64::from(8 - level.min(7))
    }

    #[inline]
    pub(super) fn slice_idle(&self) -> Span {
        self.millis(SLICE_IDLE)
    }

    /// Longest wait for a process that seeks, if another than for one that does not.
    #[inline]
    pub(super) fn seeky_idle(&self) -> Option<Span> {
        Some(self.millis(SEEKY_IDLE)).filter(|&limit| limit > Span::ZERO)
    }

    #[inline]
    pub(super) fn quantum(&self) -> u64 {
        self.0.unsigned(QUANTUM)
    }

    #[inline]
    pub(super) fn queued(&self) -> u64 {
        self.0.unsigned(QUEUED)
    }

    #[inline]
    pub(super) fn fifo_expire(&self, sync: bool) -> Span {
        self.millis(if sync { FIFO_EXPIRE_SYNC } else { FIFO_EXPIRE_ASYNC })
    }

    #[inline]
    pub(super) fn rule(&self) -> Nearest {
        Nearest::new(self.0.unsigned(BACK_SEEK_MAX), self.0.unsigned(BACK_SEEK_PENALTY))
    }

    /// Most requests in the driver while a synchronous queue is active, if there is a limit.
    #[inline]
    pub(super) fn max_depth(&self) -> Option<u64> {
        Some(self.0.unsigned(MAX_DEPTH)).filter(|&depth| depth > 0)
    }

    #[inline]
    pub(super) fn idle_grace(&self) -> Span {
        self.millis(IDLE_GRACE)
    }

    #[inline]
    pub(super) fn service_tree(&self) -> bool {
        self.0.at(SERVICE_TREE) != 0
    }
}
