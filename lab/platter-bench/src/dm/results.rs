//! The measurements, as medians over the rounds.

use super::options::READ_BYTES;
use super::paper::DESCRIPTOR_SPACE;
use super::{Call, Options};
use crate::ladder::{self, Runs};
use crate::report::units;
use crate::stats::Sample;
use std::ops::Deref;

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
pub type Medium = ladder::Medium<Cell>;

/// One rung with one call.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The rung.
    pub rung: &'static ladder::Rung,
    /// The call.
    pub call: Call,
    pub(super) runs: Runs,
}

impl Deref for Cell {
    type Target = Runs;

    fn deref(&self) -> &Runs {
        &self.runs
    }
}

impl Cell {
    /// Throughput of all workers together, by round.
    pub fn mib_per_s(&self) -> Sample {
        self.sample(|run| units::mib_per_s(run.reads * READ_BYTES as u64, run.wall_ns))
    }

    /// Processor time of this process for a read of 64 KiB, user and system, by round.
    pub fn cpu_ns_per_read(&self) -> Sample {
        self.sample(|run| run.cpu_ns as f64 / run.reads.max(1) as f64)
    }

    /// Bytes of the descriptor of an open disk.
    pub fn descriptor_bytes(&self) -> usize {
        self.runs.0.first().map_or(0, |run| run.descriptor_bytes)
    }
}

impl Medium {
    /// The cell of a rung with a call, if it was measured.
    pub fn cell(&self, call: Call, rung: &str) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.call == call && cell.rung.name == rung)
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
