//! Workers that read on a rung, and what it costs: the part that the benchmarks of the ladder share.

use super::Ladder;
use crate::device_stats::DeviceStats;
use crate::dm::machine::{Ticks, process_cpu_ns};
use platter_block::counters::Snapshot;
use platter_block::fault;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// When a worker is done.
#[derive(Clone, Copy)]
pub(crate) enum Until {
    /// After this many reads.
    Reads(u64),
    /// When the time is over, and after at least one read.
    Time(Duration),
}

impl Until {
    /// Whether a worker is done that began at `began` and has done `reads` reads.
    pub(crate) fn is_over(self, began: Instant, reads: u64) -> bool {
        match self {
            Until::Reads(count) => reads >= count,
            Until::Time(span) => reads > 0 && began.elapsed() >= span,
        }
    }
}

/// What one worker did.
pub(crate) struct Worked {
    pub(crate) reads: u64,
    pub(crate) end: Instant,
}

/// The result of one run of a crew.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) reads: u64,
    pub(crate) wall_ns: u64,
    pub(crate) cpu_ns: u64,
    pub(crate) idle_pct: Option<f64>,
    pub(crate) counters: Snapshot,
    pub(crate) device: DeviceStats,
    pub(crate) waits: u64,
    pub(crate) threads: usize,
    pub(crate) descriptor_bytes: usize,
}

/// Runs each worker in a thread of its own. A worker calls `wait` of the barrier when it is ready to begin.
///
/// # Errors
/// That of the first worker that failed.
pub(crate) fn measure<W>(ladders: &[Ladder], workers: Vec<W>) -> Result<Measured, fault::Error>
where
    W: FnOnce(&Barrier) -> Result<Worked, fault::Error> + Send,
{
    let count = || -> Vec<Snapshot> { ladders.iter().map(Ladder::counters).collect() };
    let stats = || DeviceStats::of_all(ladders.iter().map(Ladder::device));
    let waits = || -> u64 { ladders.iter().map(Ladder::waits).sum() };
    let (before, stats_before, waits_before) =
        (count(), DeviceStats::before(ladders.iter().map(Ladder::device)), waits());
    let (threads, start) = (workers.len(), Barrier::new(workers.len() + 1));
    let (results, began, cpu_before, ticks) = std::thread::scope(|scope| {
        let start = &start;
        let spawn = |worker: W| scope.spawn(move || worker(start));
        let running: Vec<_> = workers.into_iter().map(spawn).collect();
        let (ticks, cpu, began) = (Ticks::now(), process_cpu_ns(), Instant::now());
        start.wait();
        let results: Vec<_> = running.into_iter().map(|worker| worker.join()).collect();
        (results, began, cpu, ticks)
    });
    let cpu_ns = process_cpu_ns() - cpu_before;
    let idle_pct = ticks.and_then(|before| Ticks::now()?.idle_pct_since(before));
    let (mut reads, mut end) = (0, began);
    for result in results {
        let worker = result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        reads += worker.reads;
        end = end.max(worker.end);
    }
    Ok(Measured {
        reads,
        wall_ns: u64::try_from((end - began).as_nanos()).unwrap_or(u64::MAX).max(1),
        cpu_ns,
        idle_pct,
        counters: sum_since(&count(), &before),
        device: stats().since(&stats_before),
        waits: waits() - waits_before,
        threads,
        descriptor_bytes: 0,
    })
}

/// The sum of the counters of all devices.
fn sum_since(after: &[Snapshot], before: &[Snapshot]) -> Snapshot {
    let mut sum = Snapshot::default();
    for (after, before) in after.iter().zip(before) {
        let spent = after.since(before);
        sum.bios += spent.bios;
        sum.dispatches += spent.dispatches;
        sum.bytes_read += spent.bytes_read;
        sum.bytes_bounced += spent.bytes_bounced;
        sum.lock_acquisitions += spent.lock_acquisitions;
        sum.lock_wait_ns += spent.lock_wait_ns;
    }
    sum
}
