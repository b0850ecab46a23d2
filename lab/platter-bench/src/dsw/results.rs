//! The measurements, as medians over the rounds.

use super::Options;
use crate::ladder::crew::Measured;
use crate::ladder::runs::sample;
use crate::ladder::{self, Rung, Runs};
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
pub type Medium = ladder::Medium<Cell>;

/// What the agents did in a run beside calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct Agents {
    pub(super) computed_ns: u64,
    pub(super) pages: u64,
}

/// One rung.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The rung.
    pub rung: &'static Rung,
    pub(super) runs: Runs,
    /// Of each run.
    pub(super) agents: Vec<Agents>,
    pub(super) page_bytes: u32,
    pub(super) processors: usize,
}

impl Deref for Cell {
    type Target = Runs;

    fn deref(&self) -> &Runs {
        &self.runs
    }
}

impl Cell {
    fn sample_both(&self, of: impl Fn(&Measured, &Agents) -> f64) -> Sample {
        sample(self.runs.0.iter().zip(&self.agents).map(|(run, agents)| of(run, agents)))
    }

    /// Pages that the agents read, in all rounds.
    pub fn pages(&self) -> u64 {
        self.agents.iter().map(|agents| agents.pages).sum()
    }

    /// Throughput of all agents together, by round: the metric of this machine.
    pub fn mib_per_s(&self) -> Sample {
        let bytes = u64::from(self.page_bytes);
        self.sample_both(|run, agents| units::mib_per_s(agents.pages * bytes, run.wall_ns))
    }

    /// Calls of all agents a second, by round.
    pub fn calls_per_s(&self) -> Sample {
        self.sample(|run| run.reads as f64 * 1e9 / run.wall_ns as f64)
    }

    /// Part of the processors' time that went into the queries, by round: what the paper's table has under user time.
    pub fn cpu_query_pct(&self) -> Sample {
        self.sample_both(|run, agents| {
            agents.computed_ns as f64 / (run.wall_ns as f64 * self.processors as f64) * 100.0
        })
    }

    /// Processor time of this process for a call beside that of the query, user and system, by round.
    pub fn io_cpu_ns_per_call(&self) -> Sample {
        self.sample_both(|run, agents| {
            run.cpu_ns.saturating_sub(agents.computed_ns) as f64 / run.reads.max(1) as f64
        })
    }
}

impl Report {
    /// Whether anything was measured.
    pub fn is_empty(&self) -> bool {
        self.media.iter().all(|medium| medium.cells.is_empty())
    }
}
