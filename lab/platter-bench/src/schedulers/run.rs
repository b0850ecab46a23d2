//! Runs the cells and adds up the results of the processes.

use super::mixes::{Mix, Site};
use crate::device_stats::DeviceStats;
use crate::processes::{self, Outcome, ProcessError, Record, RunLimits};
use crate::report::json::span_seconds;
use crate::report::units;
use crate::stats::LatencyHistogram;
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_sim::World;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

/// Opens the device of a cell: in a world, with an elevator.
pub type Opener<'a> =
    dyn Fn(&Arc<World>, &str) -> Result<Device, Box<dyn std::error::Error + Send + Sync>> + Sync + 'a;

/// Options of a run.
#[derive(Clone)]
pub struct Options {
    /// Names of elevators.
    pub elevators: Vec<String>,
    /// Mixes.
    pub mixes: Vec<&'static Mix>,
    /// Longest time of a cell, by the clock of its device.
    pub time: Span,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Cells at once, on simulated devices.
    pub threads: usize,
}

/// Progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Cells that are done.
    pub done: usize,
    /// Cells in all.
    pub total: usize,
}

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchedulerError {
    /// A device cannot be opened.
    #[error(transparent)]
    Open(Box<dyn std::error::Error + Send + Sync>),
    /// The processes could not run.
    #[error(transparent)]
    Processes(#[from] ProcessError),
}

/// The results of a process in a cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProcessRow {
    /// Its name.
    pub name: String,
    /// Seconds until it ended; `None` if it did not.
    pub finish_s: Option<f64>,
    /// MiB per second while it ran.
    pub mib_per_s: f64,
}

/// The results of an elevator with a mix.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// The elevator.
    pub elevator: String,
    /// The mix.
    pub mix: &'static str,
    /// Seconds until the processes in the foreground ended, or the time was over.
    pub took_s: f64,
    /// MiB per second of all processes.
    pub mib_per_s: f64,
    /// Latencies of all I/Os without those of the page cache: half are not above it.
    pub lat_p50_ns: u64,
    /// 99 % are not above it.
    pub lat_p99_ns: u64,
    /// The longest.
    pub lat_max_ns: u64,
    /// Jain's index of the processes' MiB per second.
    pub jain: f64,
    /// The processes.
    pub processes: Vec<ProcessRow>,
    /// Errors and latencies of the device.
    #[serde(flatten)]
    pub device: DeviceStats,
}

/// The table. The keys of its JSON are listed in `docs/command.md`.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "benchmark", rename = "schedulers")]
pub struct Report {
    /// The device, as it was named.
    pub on: String,
    /// Whether times are virtual.
    pub simulated: bool,
    /// Longest time of a cell.
    #[serde(rename = "time_s", serialize_with = "span_seconds")]
    pub time: Span,
    /// The seed.
    pub seed: u64,
    /// The cells that were finished: elevators in their order, each with all mixes.
    #[serde(rename = "rows")]
    pub cells: Vec<Cell>,
    /// Whether it was interrupted.
    pub interrupted: bool,
}

/// Jain's index of fairness: 1 when all have the same, 1/n when one of n has everything. 1 for nothing at all.
///
/// R. Jain, D. Chiu, W. Hawe, "A Quantitative Measure of Fairness and Discrimination for Resource Allocation in
/// Shared Computer Systems", 1984.
pub fn jain(shares: &[f64]) -> f64 {
    let (sum, squares) = shares.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    if squares == 0.0 { 1.0 } else { sum * sum / (squares * shares.len() as f64) }
}

struct Runner<'a> {
    options: &'a Options,
    open: &'a Opener<'a>,
    cancel: &'a AtomicBool,
    next: AtomicUsize,
}

/// Runs every elevator on every mix.
///
/// # Errors
/// The first cell that failed.
pub fn run(
    on: &str,
    options: &Options,
    open: &Opener<'_>,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, SchedulerError> {
    let total = options.elevators.len() * options.mixes.len();
    let first = options.elevators.first().map_or("noop", String::as_str);
    let simulated = {
        let device = open(&World::new(options.seed), first).map_err(SchedulerError::Open)?;
        device.clock().simulated().is_some()
    };
    let threads = if simulated { options.threads.clamp(1, total.max(1)) } else { 1 };
    let runner = Runner { options, open, cancel, next: AtomicUsize::new(0) };
    let (send, finished) = mpsc::channel();
    let mut cells: Vec<Option<Cell>> = vec![None; total];
    let mut failure = None;
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (runner, send) = (&runner, send.clone());
            scope.spawn(move || runner.work(&send));
        }
        drop(send);
        for (before, (index, result)) in finished.into_iter().enumerate() {
            match result {
                Ok(cell) => cells[index] = cell,
                Err(error) => {
                    // No further cell is begun.
                    runner.next.store(usize::MAX / 2, Ordering::Relaxed);
                    failure.get_or_insert(error);
                }
            }
            progress(Progress { done: before + 1, total });
        }
    });
    if let Some(error) = failure {
        return Err(error);
    }
    let interrupted = cells.iter().any(Option::is_none);
    Ok(Report {
        on: on.to_owned(),
        simulated,
        time: options.time,
        seed: options.seed,
        cells: cells.into_iter().flatten().collect(),
        interrupted,
    })
}

type Finished = (usize, Result<Option<Cell>, SchedulerError>);

impl Runner<'_> {
    /// Runs cells until none is left.
    fn work(&self, finished: &mpsc::Sender<Finished>) {
        let Options { elevators, mixes, .. } = self.options;
        while !self.cancel.load(Ordering::Relaxed) {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(elevator) = elevators.get(index / mixes.len().max(1)) else { return };
            let result = self.cell(elevator, mixes[index % mixes.len()]);
            if finished.send((index, result)).is_err() {
                return;
            }
        }
    }

    /// One cell; `None` if it was cancelled.
    fn cell(&self, elevator: &str, mix: &'static Mix) -> Result<Option<Cell>, SchedulerError> {
        let world = World::new(self.options.seed);
        let device = (self.open)(&world, elevator).map_err(SchedulerError::Open)?;
        let site = Site { size: device.size(), seed: self.options.seed };
        let limits = RunLimits {
            time: Some(self.options.time),
            cancel: self.cancel,
            sync_writes: true,
            flusher_starts: false,
        };
        let outcome = mix.processes(&site).and_then(|all| processes::run(&device, all, &limits));
        let outcome = outcome.map_err(SchedulerError::Processes)?;
        Ok((!outcome.cancelled).then(|| add_up(elevator, mix, &outcome, DeviceStats::of(&device))))
    }
}

fn add_up(elevator: &str, mix: &'static Mix, outcome: &Outcome, device: DeviceStats) -> Cell {
    let mut latency = LatencyHistogram::new();
    outcome.records.iter().for_each(|record| latency.merge(&record.latency));
    let rates: Vec<f64> = outcome.records.iter().map(Record::mib_per_s).collect();
    let bytes = outcome.records.iter().map(|record| record.bytes).sum();
    let process = |record: &Record| ProcessRow {
        name: record.name.clone(),
        finish_s: record.took.map(|took| took.0 as f64 / 1e9),
        mib_per_s: record.mib_per_s(),
    };
    Cell {
        elevator: elevator.to_owned(),
        mix: mix.name,
        took_s: outcome.took.0 as f64 / 1e9,
        mib_per_s: units::mib_per_s(bytes, outcome.took.0),
        lat_p50_ns: latency.percentile(50.0).unwrap_or(0),
        lat_p99_ns: latency.percentile(99.0).unwrap_or(0),
        lat_max_ns: latency.max().unwrap_or(0),
        jain: jain(&rates),
        processes: outcome.records.iter().map(process).collect(),
        device,
    }
}

#[cfg(test)]
mod tests {
    use super::jain;

    #[test]
    fn fairness_is_between_one_and_one_of_many() {
        assert_eq!(jain(&[5.0, 5.0, 5.0]), 1.0);
        assert_eq!(jain(&[7.0, 0.0, 0.0, 0.0]), 0.25);
        assert_eq!((jain(&[]), jain(&[0.0, 0.0])), (1.0, 1.0));
        assert!((jain(&[1.0, 3.0]) - 0.8).abs() < 1e-12);
    }
}
