//! The rounds: warm-up, then every rung in turn, in an order that rotates.

use super::cell::{self, Measured, Until};
use super::options::READ_BYTES;
use super::{Cell, Disks, DmError, Medium, Options, Report, machine};
use crate::ladder::TABLE;
use crate::report::units;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Progress of a run.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Runs of cells that are done, warm-ups among them.
    pub done: usize,
    /// Runs of cells in all.
    pub total: usize,
    /// The current cell.
    pub now: String,
}

/// How long a cell is warmed up.
const WARM_UP: Duration = Duration::from_millis(50);
/// Duration of a run of a cell, within the budget; the ticks of idle time are too coarse for less.
const CELL: std::ops::RangeInclusive<Duration> = Duration::from_millis(30)..=Duration::from_millis(400);
/// Fewest reads of a worker in a run of a cell that is measured by time.
const FEWEST: u64 = 8;
/// Rounds that are run even when the time is up.
const FEWEST_ROUNDS: usize = 2;

struct Runner<'a> {
    options: &'a Options,
    interrupted: &'a AtomicBool,
    progress: &'a mut dyn FnMut(&Progress),
    state: Progress,
    deadline: Instant,
}

/// Measures all rungs on each kind of disk in turn. `began` is when the work for this run began, including
/// the creation of the disks: the budget counts from there.
///
/// When `interrupted` becomes true the run ends soon, and the report has the measurements up to then.
///
/// # Errors
/// Invalid options, a disk that is too small or fails, or an interruption before anything was measured.
pub fn run(
    media: &[Disks],
    options: &Options,
    began: Instant,
    interrupted: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Report, DmError> {
    options.check()?;
    let cells = options.rungs.len() * options.calls.len();
    let warm_ups = if options.reads.is_none() { 1 } else { 0 };
    let total = media.len() * cells * (options.repeat + warm_ups);
    let state = Progress { done: 0, total, now: String::new() };
    let deadline = began + options.budget;
    let mut runner = Runner { options, interrupted, progress, state, deadline };
    let mut report =
        Report { options: options.clone(), machine: machine::facts(), media: Vec::new(), interrupted: false };
    for (index, disks) in media.iter().enumerate() {
        let medium = runner.climb(disks, media.len() - index)?;
        report.media.push(medium);
        if interrupted.load(Ordering::Relaxed) {
            report.interrupted = true;
            break;
        }
    }
    if report.is_empty() && report.interrupted { Err(DmError::Interrupted) } else { Ok(report) }
}

impl Runner<'_> {
    /// All rounds on one kind of disk, which `left - 1` other kinds follow.
    fn climb(&mut self, disks: &Disks, left: usize) -> Result<Medium, DmError> {
        let mut medium = Medium {
            on: disks.on.clone(),
            about: disks.about.clone(),
            facts: describe(disks)?,
            cells: Vec::new(),
        };
        let (rungs, calls) = (&self.options.rungs, &self.options.calls);
        let mut cells: Vec<Cell> = calls
            .iter()
            .flat_map(|&call| rungs.iter().map(move |rung| Cell { rung, call, runs: Vec::new() }))
            .collect();
        let rest = self.deadline.saturating_duration_since(Instant::now()) / left as u32;
        let end = Instant::now() + rest;
        let Some(reads) = self.plan(disks, &cells, end)? else { return Ok(medium) };
        let (mut first, rounds_began) = (0, Instant::now());
        'rounds: for round in 0..self.options.repeat {
            // The machine may have become slower since the warm-up.
            let each = rounds_began.elapsed() / round.max(1) as u32;
            if self.options.reads.is_none()
                && round >= FEWEST_ROUNDS
                && Instant::now() + each > end + each / 2
            {
                self.state.done += (self.options.repeat - round) * cells.len();
                break;
            }
            for turn in 0..rungs.len() {
                for call in 0..calls.len() {
                    let index = call * rungs.len() + (turn + round) % rungs.len();
                    let until = Until::Reads(reads[index]);
                    let Some(measured) = self.measure(disks, &cells[index], first, until)? else {
                        break 'rounds;
                    };
                    cells[index].runs.push(measured);
                    first += reads[index];
                }
            }
        }
        medium.cells = cells.into_iter().filter(|cell| cell.rounds() > 0).collect();
        Ok(medium)
    }

    fn measure(
        &mut self,
        disks: &Disks,
        cell: &Cell,
        first: u64,
        until: Until,
    ) -> Result<Option<Measured>, DmError> {
        self.state.now = format!("{} on {}, {}", cell.call.name(), disks.on, cell.rung.name);
        (self.progress)(&self.state);
        let measured = cell::measure(disks, cell.rung, cell.call, first, until, self.interrupted);
        self.state.done += 1;
        measured
    }

    /// How many reads each worker does in each cell; `None` when interrupted.
    fn plan(&mut self, disks: &Disks, cells: &[Cell], end: Instant) -> Result<Option<Vec<u64>>, DmError> {
        if let Some(reads) = self.options.reads {
            return Ok(Some(vec![reads; cells.len()]));
        }
        let mut rates = Vec::with_capacity(cells.len());
        for cell in cells {
            match self.measure(disks, cell, 0, Until::Time(WARM_UP))? {
                Some(run) => rates.push(run.reads as f64 / run.threads as f64 / run.wall_ns as f64),
                None => return Ok(None),
            }
        }
        let rest = end.saturating_duration_since(Instant::now());
        let each = rest / (cells.len() * self.options.repeat) as u32;
        let each = each.clamp(*CELL.start(), *CELL.end()).as_nanos() as f64;
        Ok(Some(rates.iter().map(|rate| ((rate * each) as u64).max(FEWEST)).collect()))
    }
}

/// Facts about the disks; they must be real and hold at least one read each.
fn describe(disks: &Disks) -> Result<Vec<(&'static str, String)>, DmError> {
    let mut facts = Vec::new();
    for ladder in disks.open(&TABLE[TABLE.len() - 1])? {
        let device = ladder.device();
        if device.clock().simulated().is_some() {
            return Err(DmError::Unfit(format!(
                "{} is simulated: its time is virtual, and what a rung costs is processor time of this machine; give \
                 null(1T), ram(1G), a file or a block device",
                device.name()
            )));
        }
        if device.size() < READ_BYTES as u64 {
            let (name, size) = (device.name(), units::bytes(device.size()));
            let text =
                format!("{name} has {size}: a disk needs at least {}", units::bytes(READ_BYTES as u64));
            return Err(DmError::Unfit(text));
        }
        if facts.is_empty() {
            let known = ["driver", "driver fell back", "direct", "not direct", "file system"];
            facts = device.facts();
            facts.retain(|(name, _)| known.contains(name));
        }
    }
    Ok(facts)
}
