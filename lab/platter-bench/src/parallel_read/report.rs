//! The results of a run.

use super::options::{Mode, Options};
use crate::device_stats::DeviceStats;
use crate::report::json::joined;
use crate::stats::Sample;
use serde::{Serialize, Serializer};
use serde_json::json;

/// One round of a mode.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Round {
    /// From the common start to the end of the last thread.
    pub seconds: f64,
    /// Bytes that were read of all devices.
    pub bytes: u64,
    /// MiB per second of all devices together.
    pub mib_per_s: f64,
    /// Percent of all processors' time in which they had nothing to do; `None` where the system does not say, or
    /// when the round was too short.
    pub cpu_idle_pct: Option<f64>,
    /// Processor time of this process.
    pub process_cpu_s: f64,
    /// From the end of the first thread to the end of the last.
    pub finish_spread_s: f64,
}

/// A mode and its rounds, of which there is at least one.
#[derive(Clone, Debug, PartialEq)]
pub struct Runs {
    /// The mode.
    pub mode: Mode,
    /// Bytes of a read.
    pub block: u64,
    /// The rounds, in the order in which they were measured.
    pub rounds: Vec<Round>,
    /// Errors and latencies of the devices, in all rounds.
    pub device: DeviceStats,
}

impl Runs {
    pub(super) fn new(mode: Mode, options: &Options) -> Runs {
        Runs { mode, block: options.block_of(mode), rounds: Vec::new(), device: DeviceStats::default() }
    }

    /// One quantity over the rounds; `None` if no round has it.
    pub fn sample(&self, of: impl Fn(&Round) -> Option<f64>) -> Option<Sample> {
        let values: Vec<f64> = self.rounds.iter().filter_map(of).collect();
        Sample::new(&values).ok()
    }
}

impl Serialize for Runs {
    /// Medians of the rounds, and the rounds.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let median = |of: fn(&Round) -> Option<f64>| self.sample(of).map(|sample| sample.median());
        let rate = self.sample(|round| Some(round.mib_per_s));
        let runs = json!({
            "mode": self.mode.name(),
            "block_bytes": self.block,
            "mib_per_s": rate.as_ref().map(Sample::median),
            "mib_per_s_min": rate.as_ref().map(Sample::min),
            "mib_per_s_max": rate.as_ref().map(Sample::max),
            "seconds": median(|round| Some(round.seconds)),
            "cpu_idle_pct": median(|round| round.cpu_idle_pct),
            "process_cpu_s": median(|round| Some(round.process_cpu_s)),
            "finish_spread_s": median(|round| Some(round.finish_spread_s)),
            "rounds": self.rounds,
        });
        joined(runs, &self.device).serialize(serializer)
    }
}

/// The results of a run. The keys of its JSON are listed in `docs/fileio.md`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "benchmark", rename = "parallel-read")]
pub struct Report {
    /// The devices.
    pub on: Vec<String>,
    /// Bytes to read of each device; `None`: all.
    #[serde(rename = "size_bytes")]
    pub size: Option<u64>,
    /// Number of rounds requested.
    pub repeat: u32,
    /// Whether rounds are missing.
    pub interrupted: bool,
    /// The measurements, by mode.
    #[serde(rename = "runs")]
    pub results: Vec<Runs>,
}
