//! The report of a run.

use core::time::Duration;

use platter_block::counters::Snapshot;
use platter_block::fault::Error as DeviceError;
use platter_block::handle::HandleCounters;
use platter_disk::device::Device;
use serde::Serialize;

use super::counts::Counts;
use super::outcome::Outcome;
use super::series::Series;
use super::tally::{DIRECTIONS, Tally};
use super::usage::Usage;
use crate::about::{Part, about};
use crate::device_stats::DeviceStats;
use crate::report::json::pairs;
use crate::report::units;
use crate::stats::{Bucket, LatencyHistogram, LatencySummary};
use crate::workload::JobOptions;

/// How latencies were stamped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamps {
    /// The clock was read once per batch of completions.
    Batch,
    /// Starts are those that were intended (`rate_iops`), ends are stamped per batch.
    Intended,
    /// No latency was recorded; the clock was read now and then (`gtod_reduce`).
    Coarse,
}

impl Stamps {
    /// Its name in reports: `batch`, `intended` or `coarse`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::Intended => "intended",
            Self::Coarse => "coarse",
        }
    }
}

/// How long a simulation took in real time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Simulated {
    /// Real time of the measurement.
    pub real: Duration,
}

/// Results of one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct DirectionReport {
    /// `read`, `write` or `trim`.
    pub name: &'static str,
    /// I/Os completed.
    pub ios: u64,
    /// I/Os per second.
    pub iops: f64,
    /// MiB per second.
    pub mib_per_s: f64,
    /// Latencies, unless none were recorded.
    pub latency: Option<LatencySummary>,
    /// How many latencies fell into each bucket, the smallest first; empty buckets are left out.
    pub buckets: Vec<Bucket>,
}

/// A device of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeviceReport {
    /// Its name.
    pub name: String,
    /// Facts: driver, elevator, settings.
    #[serde(serialize_with = "pairs")]
    pub facts: Vec<(&'static str, String)>,
    /// Facts about it and the devices below for reports for people: those that are not defaults.
    #[serde(skip)]
    pub parts: Vec<Part>,
}

/// The results of a run. Times are measured from the end of the ramp time to the last completion.
#[derive(Debug, Clone)]
pub struct IoReport {
    /// The options of the run.
    pub job: JobOptions,
    /// The seed that offsets and contents were drawn from.
    pub seed: u64,
    /// Where it ran.
    pub devices: Vec<DeviceReport>,
    /// Whether it was cancelled before its end.
    pub partial: bool,
    /// How long it was measured, by the clock of the devices.
    pub wall: Duration,
    /// Set on simulated devices, whose clock is virtual: `wall`, rates and latencies are in virtual time.
    pub simulated: Option<Simulated>,
    /// I/Os completed without error, in all directions.
    pub ios: u64,
    /// I/Os of the ramp time, not among `ios`.
    pub ramp_ios: u64,
    /// With `rate_iops`: I/Os that were meant to start before the end and were not started, because no bio was free
    /// (`iodepth`). Their latencies, which would be long, are in no figure.
    pub missed_ios: Option<u64>,
    /// I/Os per second.
    pub iops: f64,
    /// MiB per second.
    pub mib_per_s: f64,
    /// Time of the whole loop over I/Os, all jobs together.
    pub ns_per_io: f64,
    /// Processor time of the whole process over I/Os.
    pub cpu_ns_per_io: f64,
    /// Resources that the process used.
    pub usage: Usage,
    /// How latencies were stamped.
    pub stamps: Stamps,
    /// Latencies of all directions, unless none were recorded.
    pub latency: Option<LatencySummary>,
    /// The directions in which something was done.
    pub directions: Vec<DirectionReport>,
    /// The run over time.
    pub series: Series,
    /// I/Os that failed.
    pub io_errors: u64,
    /// The first of them, with the job it ended.
    pub first_error: Option<DeviceError>,
    /// Blocks that were read and checked.
    pub verified: u64,
    /// Blocks whose contents were not those written.
    pub verify_errors: u64,
    /// The first mismatch.
    pub first_mismatch: Option<String>,
    /// Counters of the devices' queues over the whole run: ramp time, drain and reading back included.
    pub counters: Snapshot,
    /// Errors, and the latency of the devices, over the same time. Without latencies with `gtod_reduce`, for which
    /// the clock is not read.
    pub device: DeviceStats,
    /// Counters of the devices' caches over the same time, over all handles; `None` without a cache.
    pub cache: Option<HandleCounters>,
}

impl IoReport {
    /// Requests that were simulated per second of real time; `None` on real devices.
    pub fn sim_requests_per_wall_s(&self) -> Option<f64> {
        let real = self.simulated?.real.as_secs_f64();
        Some(if real > 0.0 { self.ios as f64 / real } else { 0.0 })
    }

    /// I/Os that failed and blocks that did not verify.
    pub fn errors(&self) -> u64 {
        self.io_errors + self.verify_errors
    }
}

pub(super) struct Measured {
    pub(super) outcomes: Vec<Outcome>,
    pub(super) simulated: Option<Simulated>,
    pub(super) counts: Counts,
}

const NAMES: [&str; DIRECTIONS] = ["read", "write", "trim"];

pub(super) fn build(job: &JobOptions, devices: &[Device], seed: u64, measured: Measured) -> IoReport {
    let Measured { mut outcomes, counts, simulated } = measured;
    let Counts { queues: counters, device, cache } = counts;
    let begin = outcomes.iter().map(|o| o.begin).min().unwrap_or_default();
    let wall_ns = outcomes.iter().map(|o| o.end.since(begin).0).max().unwrap_or(0);
    let usage = usage_of(&outcomes);
    let mut tally = Tally::new();
    outcomes.iter().for_each(|o| tally.merge(&o.tally));
    let ios = tally.all();
    let per_s = |n: u64| if wall_ns == 0 { 0.0 } else { n as f64 / (wall_ns as f64 / 1e9) };
    let per_io = |n: u64| if ios == 0 { 0.0 } else { n as f64 / ios as f64 };
    let directions = (0..DIRECTIONS).filter(|&d| tally.ios[d] > 0);
    let directions = directions.map(|d| DirectionReport {
        name: NAMES[d],
        ios: tally.ios[d],
        iops: per_s(tally.ios[d]),
        mib_per_s: units::mib_per_s(tally.ios[d].saturating_mul(job.bs), wall_ns),
        latency: LatencySummary::of(&tally.latency[d]),
        buckets: tally.latency[d].buckets().collect(),
    });
    let mut latency = LatencyHistogram::new();
    tally.latency.iter().for_each(|l| latency.merge(l));
    IoReport {
        job: job.clone(),
        seed,
        devices: devices.iter().map(describe).collect(),
        partial: outcomes.iter().any(|o| o.cancelled),
        wall: Duration::from_nanos(wall_ns),
        simulated,
        ios,
        ramp_ios: outcomes.iter().map(|o| o.ramp_ios).sum(),
        missed_ios: job.rate_iops.map(|_| outcomes.iter().map(|o| o.missed).sum()),
        iops: per_s(ios),
        mib_per_s: units::mib_per_s(ios.saturating_mul(job.bs), wall_ns),
        ns_per_io: per_io(wall_ns),
        cpu_ns_per_io: per_io(usage.cpu_ns()),
        usage,
        stamps: match (job.gtod_reduce, job.rate_iops) {
            (true, _) => Stamps::Coarse,
            (false, Some(_)) => Stamps::Intended,
            (false, None) => Stamps::Batch,
        },
        latency: LatencySummary::of(&latency),
        directions: directions.collect(),
        series: Series::of(outcomes.iter().map(|o| &o.tally.intervals), job.bs),
        io_errors: tally.errors,
        first_error: outcomes.iter_mut().find_map(|o| o.failure.take()),
        verified: tally.verified,
        verify_errors: tally.verify_errors,
        first_mismatch: outcomes.iter_mut().find_map(|o| o.mismatch.take()),
        counters,
        device: if job.gtod_reduce { device.without_latency() } else { device },
        cache,
    }
}

/// What the process used from the time at which the first job began to be measured to the end of the last.
fn usage_of(outcomes: &[Outcome]) -> Usage {
    let first = outcomes.iter().min_by_key(|o| o.begin).map(|o| o.used[0]).unwrap_or_default();
    let last = outcomes.iter().max_by_key(|o| o.end).map(|o| o.used[1]).unwrap_or_default();
    last.since(&first)
}

fn describe(device: &Device) -> DeviceReport {
    DeviceReport { name: device.name().to_string(), facts: device.facts(), parts: about(device) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_block::time::Time;

    fn outcome(begin: u64, end: u64, used_ns: [u64; 2]) -> Outcome {
        Outcome {
            tally: Tally::new(),
            ramp_ios: 0,
            missed: 0,
            begin: Time(begin),
            end: Time(end),
            used: used_ns.map(|user_ns| Usage { user_ns, ..Usage::default() }),
            failure: None,
            mismatch: None,
            cancelled: false,
        }
    }

    #[test]
    fn resources_are_those_from_the_first_begin_to_the_last_end() {
        let outcomes = [outcome(20, 90, [7, 50]), outcome(10, 70, [4, 30]), outcome(15, 80, [5, 40])];
        assert_eq!(usage_of(&outcomes).cpu_ns(), 46);
        assert_eq!(usage_of(&outcomes[1..2]).cpu_ns(), 26);
        assert_eq!(usage_of(&[]), Usage::default());
    }
}
