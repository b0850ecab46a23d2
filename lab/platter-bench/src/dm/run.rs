//! The rounds: warm-up, then every rung in turn, in an order that rotates.

use super::cell;
use super::options::READ_BYTES;
use super::{Call, Cell, Disks, DmError, Medium, Options, Report, machine};
use crate::ladder::crew::{Measured, Until};
use crate::ladder::rounds::Rounds;
use crate::ladder::{Runs, TABLE};
use crate::report::units;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

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
    let total = media.len() * rounds(options, began).total();
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
        let facts = describe(disks)?;
        let options = self.options;
        let cells =
            |&call: &Call| options.rungs.iter().map(move |rung| Cell { rung, call, runs: Runs::default() });
        let mut cells: Vec<Cell> = options.calls.iter().flat_map(cells).collect();
        let rest = self.deadline.saturating_duration_since(Instant::now()) / left as u32;
        let rounds = rounds(options, Instant::now() + rest);
        let measured = rounds.run(|cell, first, until| self.measure(disks, &cells[cell], first, until))?;
        self.state.done += measured.left_out;
        cells.iter_mut().zip(measured.runs).for_each(|(cell, runs)| cell.runs = Runs(runs));
        cells.retain(|cell| cell.rounds() > 0);
        Ok(Medium { on: disks.on.clone(), about: disks.about.clone(), facts, cells })
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
}

/// The rounds that the options ask for, which should be over at `end`.
fn rounds(options: &Options, end: Instant) -> Rounds {
    let (calls, rungs) = (options.calls.len(), options.rungs.len());
    Rounds { calls, rungs, repeat: options.repeat, reads: options.reads, same: false, end }
}

/// Facts about the disks; they must be real and hold at least one read each.
pub(crate) fn describe(disks: &Disks) -> Result<Vec<(&'static str, String)>, DmError> {
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
