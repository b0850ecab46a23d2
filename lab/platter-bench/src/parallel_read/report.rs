//! The results of a run.

use super::options::{Mode, Options};
use crate::device_stats::DeviceStats;
use crate::stats::Sample;

/// One round of a mode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Round {
    /// From the common start to the end of the last thread.
    pub seconds: f64,
    /// Bytes that were read of all devices.
    pub bytes: u64,
    /// Percent of all processors' time in which they had nothing to do; `None` where the system does not say, or
    /// when the round was too short.
    pub cpu_idle_pct: Option<f64>,
    /// Processor time of this process.
    pub process_cpu_s: f64,
    /// From the end of the first thread to the end of the last.
    pub finish_spread_s: f64,
}

impl Round {
    /// MiB per second of all devices together.
    pub fn mib_per_s(&self) -> f64 {
        self.bytes as f64 / f64::from(1 << 20) / self.seconds.max(1e-9)
    }
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

/// The results of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The devices.
    pub on: Vec<String>,
    /// Bytes to read of each device; `None`: all.
    pub size: Option<u64>,
    /// Number of rounds requested.
    pub repeat: u32,
    /// Whether rounds are missing.
    pub interrupted: bool,
    /// The measurements, by mode.
    pub results: Vec<Runs>,
}
