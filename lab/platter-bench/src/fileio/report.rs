//! The results of a run.

use super::plan::{Count, Plan};
use super::tally::{KINDS, Tally};
use crate::about::Part;
use crate::device_stats::DeviceStats;
use crate::io::Usage;
use crate::report::units;
use crate::stats::LatencyHistogram;
use platter_block::counters::Snapshot;
use platter_block::handle::HandleCounters;
use std::time::Duration;

/// Latencies in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Latency {
    /// The smallest.
    pub min_ns: u64,
    /// The mean.
    pub mean_ns: f64,
    /// Half are not above it.
    pub p50_ns: u64,
    /// 95 % are not above it.
    pub p95_ns: u64,
    /// 99 % are not above it.
    pub p99_ns: u64,
    /// The largest.
    pub max_ns: u64,
    /// All together.
    #[serde(skip)]
    pub sum_ns: f64,
}

impl Latency {
    /// `None` when nothing was recorded.
    fn of(latency: &LatencyHistogram) -> Option<Latency> {
        let percentile = |p| latency.percentile(p);
        Some(Latency {
            min_ns: latency.min()?,
            mean_ns: latency.mean()?,
            p50_ns: percentile(50.0)?,
            p95_ns: percentile(95.0)?,
            p99_ns: percentile(99.0)?,
            max_ns: latency.max()?,
            sum_ns: latency.mean()? * latency.count() as f64,
        })
    }
}

/// The device that the files were parts of, if it was not a directory.
#[derive(Clone, Debug)]
pub struct OnDevice {
    /// Facts: driver, elevator, settings.
    pub facts: Vec<(&'static str, String)>,
    /// Facts for reports for people: those that are not defaults.
    pub parts: Vec<Part>,
    /// Counters of its queues during the run.
    pub counters: Snapshot,
    /// Its errors and latencies during the run.
    pub stats: DeviceStats,
    /// Counters of its cache during the run, over all handles; `None` without a cache.
    pub cache: Option<HandleCounters>,
}

/// The results of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// The plan of the run.
    pub plan: Plan,
    /// Where: a directory, or the name of a device.
    pub on: String,
    /// Whether it was interrupted before its end.
    pub interrupted: bool,
    /// How long it took, in ns by the clock of the device: fsyncs at the end included.
    pub ns: u64,
    /// How long it took in real time, where `ns` is virtual.
    pub simulated: Option<Duration>,
    /// Reads that were done.
    pub reads: u64,
    /// Writes that were done.
    pub writes: u64,
    /// Files that were made durable, one by one, those at the end included.
    pub fsyncs: u64,
    /// Events, as the plan counts them.
    pub events: u64,
    /// Latency of events.
    pub latency: Option<Latency>,
    /// Latency of reads, of writes, and of fsyncs that are requests of their own.
    pub latency_by_kind: [Option<Latency>; KINDS],
    /// Resources that the process used.
    pub usage: Usage,
    /// The device.
    pub device: Option<OnDevice>,
}

/// The result of a runner.
pub(super) struct Measured {
    pub(super) ns: u64,
    pub(super) simulated: Option<Duration>,
    pub(super) tally: Tally,
    pub(super) usage: Usage,
    pub(super) interrupted: bool,
}

impl Report {
    pub(super) fn new(plan: &Plan, on: String, measured: Measured, device: Option<OnDevice>) -> Report {
        let Measured { ns, simulated, tally, usage, interrupted } = measured;
        let kinds = if plan.count == Count::All { KINDS } else { KINDS - 1 };
        let mut events = LatencyHistogram::new();
        tally.latency[..kinds].iter().for_each(|latency| events.merge(latency));
        let [reads, writes, syncs] = tally.counts;
        Report {
            plan: plan.clone(),
            on,
            interrupted,
            ns,
            simulated,
            reads,
            writes,
            fsyncs: syncs + tally.other_syncs,
            events: events.count(),
            latency: Latency::of(&events),
            latency_by_kind: std::array::from_fn(|kind| Latency::of(&tally.latency[kind])),
            usage,
            device,
        }
    }

    /// Seconds that it took.
    pub fn seconds(&self) -> f64 {
        self.ns as f64 / 1e9
    }

    fn per_s(&self, count: u64) -> f64 {
        if self.ns == 0 { 0.0 } else { count as f64 / self.seconds() }
    }

    /// Reads per second.
    pub fn reads_per_s(&self) -> f64 {
        self.per_s(self.reads)
    }

    /// Writes per second.
    pub fn writes_per_s(&self) -> f64 {
        self.per_s(self.writes)
    }

    /// Files made durable per second.
    pub fn fsyncs_per_s(&self) -> f64 {
        self.per_s(self.fsyncs)
    }

    /// MiB read per second.
    pub fn read_mib_per_s(&self) -> f64 {
        units::mib_per_s(self.reads.saturating_mul(self.plan.block), self.ns)
    }

    /// MiB written per second.
    pub fn written_mib_per_s(&self) -> f64 {
        units::mib_per_s(self.writes.saturating_mul(self.plan.block), self.ns)
    }

    /// Mean bytes of the reads and writes that the device carried out; `None` without one, or if there were none.
    pub fn mean_request_bytes(&self) -> Option<f64> {
        let counters = &self.device.as_ref()?.counters;
        // Requests that a full driver gave back were dispatched more than once.
        let data = counters.completions.saturating_sub(counters.flushes);
        (data > 0).then(|| (counters.bytes_read + counters.bytes_written) as f64 / data as f64)
    }
}
