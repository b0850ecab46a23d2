//! The measurements, as medians over the rounds.

use super::Options;
use crate::device_stats::DeviceStats;
use crate::ladder::Rung;
use crate::ladder::crew::Measured;
use crate::report::units;
use crate::stats::Sample;

/// Everything that was measured, on all kinds of disks.
#[derive(Clone, Debug)]
pub struct Report {
    /// How large the run was.
    pub options: Options,
    /// The machine: name and fact.
    pub machine: Vec<(&'static str, String)>,
    /// Of the recording: scale of the data, bytes of the database, bytes of a page.
    pub database: (f64, u64, u32),
    /// Of the recording: name of each query, its reads.
    pub queries: Vec<(String, u64)>,
    /// Calls that the recording's reads make.
    pub calls: u64,
    /// By kind of disk, in the order of measuring.
    pub media: Vec<Medium>,
    /// It was stopped early: the last rounds are missing.
    pub interrupted: bool,
}

/// The measurements on one kind of disk.
#[derive(Clone, Debug)]
pub struct Medium {
    /// `file`, `ram`, or the name of the given device.
    pub on: String,
    /// A description of the disks.
    pub about: String,
    /// How they are driven: name and fact.
    pub facts: Vec<(&'static str, String)>,
    /// Rungs that were measured at least once, from the lowest up.
    pub cells: Vec<Cell>,
}

/// One run of a rung.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) measured: Measured,
    pub(super) computed_ns: u64,
    pub(super) pages: u64,
}

/// One rung.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The rung.
    pub rung: &'static Rung,
    /// At least one.
    pub(super) runs: Vec<Run>,
    pub(super) page_bytes: u32,
    pub(super) processors: usize,
}

impl Cell {
    fn sample(&self, of: impl Fn(&Run) -> f64) -> Sample {
        let values: Vec<f64> = self.runs.iter().map(of).collect();
        // A cell has at least one run, and all of its figures are finite.
        Sample::new(&values).or_else(|_| Sample::new(&[0.0])).expect("one zero is a sample")
    }

    fn sum(&self, of: impl Fn(&Run) -> u64) -> u64 {
        self.runs.iter().map(of).sum()
    }

    fn per_call(&self, of: impl Fn(&Run) -> u64) -> f64 {
        self.sum(of) as f64 / self.calls().max(1) as f64
    }

    /// Rounds that were measured.
    pub fn rounds(&self) -> usize {
        self.runs.len()
    }

    /// Calls of all agents, in all rounds.
    pub fn calls(&self) -> u64 {
        self.sum(|run| run.measured.reads)
    }

    /// Pages that the agents read, in all rounds.
    pub fn pages(&self) -> u64 {
        self.sum(|run| run.pages)
    }

    /// Throughput of all agents together, by round: the metric of this machine.
    pub fn mib_per_s(&self) -> Sample {
        let bytes = u64::from(self.page_bytes);
        self.sample(|run| units::mib_per_s(run.pages * bytes, run.measured.wall_ns))
    }

    /// Calls of all agents a second, by round.
    pub fn calls_per_s(&self) -> Sample {
        self.sample(|run| run.measured.reads as f64 * 1e9 / run.measured.wall_ns as f64)
    }

    /// Idle time of the whole machine, by round; `None` if the system does not report it.
    pub fn cpu_idle_pct(&self) -> Option<Sample> {
        let values: Option<Vec<f64>> = self.runs.iter().map(|run| run.measured.idle_pct).collect();
        Sample::new(&values?).ok()
    }

    /// Part of the processors' time that went into the queries, by round: what the paper's table has under user time.
    pub fn cpu_query_pct(&self) -> Sample {
        self.sample(|run| {
            run.computed_ns as f64 / (run.measured.wall_ns as f64 * self.processors as f64) * 100.0
        })
    }

    /// Processor time of this process for a call beside that of the query, user and system, by round.
    pub fn io_cpu_ns_per_call(&self) -> Sample {
        self.sample(|run| {
            run.measured.cpu_ns.saturating_sub(run.computed_ns) as f64 / run.measured.reads.max(1) as f64
        })
    }

    /// Bios for a call.
    pub fn bios_per_call(&self) -> f64 {
        self.per_call(|run| run.measured.counters.bios)
    }

    /// Requests given to the driver for a call.
    pub fn dispatches_per_call(&self) -> f64 {
        self.per_call(|run| run.measured.counters.dispatches)
    }

    /// Times that an agent blocked for a call.
    pub fn waits_per_call(&self) -> f64 {
        self.per_call(|run| run.measured.waits)
    }

    /// Bytes copied through bounce buffers, in all rounds.
    pub fn bytes_bounced(&self) -> u64 {
        self.sum(|run| run.measured.counters.bytes_bounced)
    }

    /// Locks of queues taken for a call.
    pub fn locks_per_call(&self) -> f64 {
        self.per_call(|run| run.measured.counters.lock_acquisitions)
    }

    /// Part of the agents' time that they waited for locks of queues, in percent, by round.
    pub fn lock_wait_pct(&self) -> Sample {
        self.sample(|run| {
            let m = &run.measured;
            m.counters.lock_wait_ns as f64 / (m.threads as f64 * m.wall_ns as f64) * 100.0
        })
    }

    /// Errors and latencies of the disks, in all rounds.
    pub fn device(&self) -> DeviceStats {
        let mut all = DeviceStats::default();
        self.runs.iter().for_each(|run| all.merge(&run.measured.device));
        all
    }
}

impl Medium {
    /// Errors of the disks, in all cells.
    pub fn errors_line(&self) -> String {
        let mut all = DeviceStats::default();
        self.cells.iter().for_each(|cell| all.merge(&cell.device()));
        all.errors_line()
    }
}

impl Report {
    /// Whether anything was measured.
    pub fn is_empty(&self) -> bool {
        self.media.iter().all(|medium| medium.cells.is_empty())
    }
}
