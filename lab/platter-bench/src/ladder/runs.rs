//! The runs of a rung and what they cost, and the disks that they are measured on: what reports of the ladder share.

use super::crew::Measured;
use crate::device_stats::DeviceStats;
use crate::report::json::{joined, pairs};
use crate::stats::Sample;
use serde::{Serialize, Serializer};
use serde_json::json;
use std::ops::Deref;

/// The measurements on one kind of disk.
#[derive(Clone, Debug, Serialize)]
pub struct Medium<C> {
    /// `file`, `ram`, or the name of the given device.
    pub on: String,
    /// A description of the disks.
    pub about: String,
    /// How they are driven: name and fact.
    #[serde(serialize_with = "pairs")]
    pub facts: Vec<(&'static str, String)>,
    /// Rungs that were measured at least once, from the lowest up; with several calls, by call.
    #[serde(skip)]
    pub cells: Vec<C>,
}

impl<C: Deref<Target = Runs>> Medium<C> {
    /// Errors of the disks, in all cells.
    pub fn errors_line(&self) -> String {
        let mut all = DeviceStats::default();
        self.cells.iter().for_each(|cell| all.merge(&cell.device()));
        all.errors_line()
    }
}

/// The runs of a rung, one in each round; at least one where something is reported.
#[derive(Clone, Debug, Default)]
pub struct Runs(pub(crate) Vec<Measured>);

/// One value of each run.
pub(crate) fn sample(values: impl Iterator<Item = f64>) -> Sample {
    // A cell has at least one run, and all of its figures are finite.
    Sample::new(&values.collect::<Vec<_>>()).or_else(|_| Sample::new(&[0.0])).expect("one zero is a sample")
}

impl Runs {
    pub(crate) fn sample(&self, of: impl Fn(&Measured) -> f64) -> Sample {
        sample(self.0.iter().map(of))
    }

    fn sum(&self, of: impl Fn(&Measured) -> u64) -> u64 {
        self.0.iter().map(of).sum()
    }

    fn per_call(&self, of: impl Fn(&Measured) -> u64) -> f64 {
        self.sum(of) as f64 / self.calls().max(1) as f64
    }

    /// Rounds that were measured.
    pub fn rounds(&self) -> usize {
        self.0.len()
    }

    /// Calls of all workers, in all rounds.
    pub fn calls(&self) -> u64 {
        self.sum(|run| run.reads)
    }

    /// Idle time of the whole machine, by round; `None` if the system does not report it.
    pub fn cpu_idle_pct(&self) -> Option<Sample> {
        let values: Option<Vec<f64>> = self.0.iter().map(|run| run.idle_pct).collect();
        Sample::new(&values?).ok()
    }

    /// Bios for a call.
    pub fn bios_per_call(&self) -> f64 {
        self.per_call(|run| run.counters.bios)
    }

    /// Times that a worker blocked for a call.
    pub fn waits_per_call(&self) -> f64 {
        self.per_call(|run| run.waits)
    }

    /// Bytes copied through bounce buffers, in all rounds.
    pub fn bytes_bounced(&self) -> u64 {
        self.sum(|run| run.counters.bytes_bounced)
    }

    /// Locks of queues taken for a call.
    pub fn locks_per_call(&self) -> f64 {
        self.per_call(|run| run.counters.lock_acquisitions)
    }

    /// Part of the workers' time that they waited for locks of queues, in percent, by round.
    pub fn lock_wait_pct(&self) -> Sample {
        self.sample(|run| {
            run.counters.lock_wait_ns as f64 / (run.threads as f64 * run.wall_ns as f64) * 100.0
        })
    }

    /// Errors and latencies of the disks, in all rounds.
    pub fn device(&self) -> DeviceStats {
        let mut all = DeviceStats::default();
        self.0.iter().for_each(|run| all.merge(&run.device));
        all
    }
}

impl Serialize for Runs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let costs = json!({
            "cpu_idle_pct": self.cpu_idle_pct().as_ref().map(Sample::median),
            "bios_per_call": self.bios_per_call(),
            // Requests given to the driver.
            "dispatches_per_call": self.per_call(|run| run.counters.dispatches),
            "waits_per_call": self.waits_per_call(),
            "bytes_bounced": self.bytes_bounced(),
            "locks_per_call": self.locks_per_call(),
            "lock_wait_pct": self.lock_wait_pct().median(),
            "rounds": self.rounds(),
        });
        joined(costs, &self.device()).serialize(serializer)
    }
}
