//! The measurements, as medians over the rounds.

use super::options::READ_BYTES;
use super::paper::DESCRIPTOR_SPACE;
use super::{Call, Options};
use crate::device_stats::DeviceStats;
use crate::ladder;
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
    /// Cells that were measured at least once, by call, then from the lowest rung up.
    pub cells: Vec<Cell>,
}

/// One rung with one call.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The rung.
    pub rung: &'static ladder::Rung,
    /// The call.
    pub call: Call,
    /// At least one.
    pub(super) runs: Vec<Measured>,
}

impl Cell {
    fn sample(&self, of: impl Fn(&Measured) -> f64) -> Sample {
        let values: Vec<f64> = self.runs.iter().map(of).collect();
        // A cell has at least one run, and all of its figures are finite.
        Sample::new(&values).or_else(|_| Sample::new(&[0.0])).expect("one zero is a sample")
    }

    fn sum(&self, of: impl Fn(&Measured) -> u64) -> u64 {
        self.runs.iter().map(of).sum()
    }

    fn per_read(&self, of: impl Fn(&Measured) -> u64) -> f64 {
        self.sum(of) as f64 / self.reads().max(1) as f64
    }

    /// Rounds that were measured.
    pub fn rounds(&self) -> usize {
        self.runs.len()
    }

    /// Reads of 64 KiB, in all rounds.
    pub fn reads(&self) -> u64 {
        self.sum(|run| run.reads)
    }

    /// Throughput of all workers together, by round.
    pub fn mib_per_s(&self) -> Sample {
        self.sample(|run| units::mib_per_s(run.reads * READ_BYTES as u64, run.wall_ns))
    }

    /// Idle time of the whole machine, by round; `None` if the system does not report it.
    pub fn cpu_idle_pct(&self) -> Option<Sample> {
        let values: Option<Vec<f64>> = self.runs.iter().map(|run| run.idle_pct).collect();
        Sample::new(&values?).ok()
    }

    /// Processor time of this process for a read of 64 KiB, user and system, by round.
    pub fn cpu_ns_per_read(&self) -> Sample {
        self.sample(|run| run.cpu_ns as f64 / run.reads.max(1) as f64)
    }

    /// Bios for a read of 64 KiB.
    pub fn bios_per_call(&self) -> f64 {
        self.per_read(|run| run.counters.bios)
    }

    /// Requests given to the driver for a read of 64 KiB.
    pub fn dispatches_per_call(&self) -> f64 {
        self.per_read(|run| run.counters.dispatches)
    }

    /// Times that the worker blocked for a read of 64 KiB.
    pub fn waits_per_call(&self) -> f64 {
        self.per_read(|run| run.waits)
    }

    /// Bytes read, in all rounds.
    pub fn bytes_read(&self) -> u64 {
        self.reads() * READ_BYTES as u64
    }

    /// Bytes copied through bounce buffers, in all rounds.
    pub fn bytes_bounced(&self) -> u64 {
        self.sum(|run| run.counters.bytes_bounced)
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
        self.runs.iter().for_each(|run| all.merge(&run.device));
        all
    }

    /// Locks of queues taken for a read of 64 KiB.
    pub fn locks_per_call(&self) -> f64 {
        self.per_read(|run| run.counters.lock_acquisitions)
    }

    /// Bytes of the descriptor of an open disk.
    pub fn descriptor_bytes(&self) -> usize {
        self.runs.first().map_or(0, |run| run.descriptor_bytes)
    }
}

impl Medium {
    /// The cell of a rung with a call, if it was measured.
    pub fn cell(&self, call: Call, rung: &str) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.call == call && cell.rung.name == rung)
    }

    /// Errors of the disks, in all cells.
    pub fn errors_line(&self) -> String {
        let mut all = DeviceStats::default();
        self.cells.iter().for_each(|cell| all.merge(&cell.device()));
        all.errors_line()
    }

    /// The cells with a call, from the lowest rung up.
    pub fn cells_with(&self, call: Call) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(move |cell| cell.call == call)
    }
}

impl Report {
    /// Whether anything was measured.
    pub fn is_empty(&self) -> bool {
        self.media.iter().all(|medium| medium.cells.is_empty())
    }
}

/// The descriptors of an open disk: name, size in bytes, and how many open disks fit in the paper's 128 MiB.
pub(super) fn descriptors() -> [(&'static str, usize, u64); 4] {
    let row = |name, bytes: usize| (name, bytes, DESCRIPTOR_SPACE / bytes as u64);
    [
        row("kiobuf of 2.4.17", ladder::KIOBUF_BYTES),
        row("the paper's kiobuf", ladder::LIGHT_KIOBUF_BYTES),
        row("bio, one buffer", ladder::bio_bytes(1)),
        row("bio, 16 buffers", ladder::bio_bytes(16)),
    ]
}

/// By how much a figure differs from the one before, in percent.
pub(super) fn change_pct(before: f64, after: f64) -> Option<f64> {
    (before != 0.0).then(|| (after / before - 1.0) * 100.0)
}
