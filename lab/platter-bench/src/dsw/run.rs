//! The rounds, on each kind of disk in turn.

use super::agent::{self, Layout, Shared};
use super::call::Calls;
use super::results::Agents;
use super::{Cell, Disks, DswError, Medium, Options, Recording, Report};
use crate::dm::{describe, machine};
use crate::ladder::crew::{self, Measured, Until};
use crate::ladder::rounds::Rounds;
use crate::ladder::{Handle, Ladder, Rung, Runs};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// Progress of a run.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Runs of rungs that are done, warm-ups among them.
    pub done: usize,
    /// Runs of rungs in all.
    pub total: usize,
    /// The current rung, and on what.
    pub now: String,
}

struct Runner<'a> {
    calls: &'a Calls,
    options: &'a Options,
    interrupted: &'a AtomicBool,
    progress: &'a mut dyn FnMut(&Progress),
    state: Progress,
    deadline: Instant,
}

/// Replays a recording on all rungs, on each kind of disk in turn. `began` is when the work for this run began, including
/// the creation of the disks: the budget counts from there.
///
/// When `interrupted` becomes true the run ends soon, and the report has the measurements up to then.
///
/// # Errors
/// Invalid options, a disk that is too small or fails, or an interruption before anything was measured.
pub fn run(
    recording: &Recording,
    media: &[Disks],
    options: &Options,
    began: Instant,
    interrupted: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Report, DswError> {
    options.check()?;
    let calls = Calls::new(recording);
    let total = media.len() * rounds(options, began).total();
    let state = Progress { done: 0, total, now: String::new() };
    let deadline = began + options.budget;
    let mut runner = Runner { calls: &calls, options, interrupted, progress, state, deadline };
    let named = |query: &super::Query| (query.name.clone(), query.reads.len() as u64);
    let mut report = Report {
        options: options.clone(),
        machine: machine::facts(),
        database: (recording.scale(), recording.bytes(), recording.page_bytes()),
        queries: recording.queries().iter().map(named).collect(),
        calls: calls.count(),
        media: Vec::new(),
        interrupted: false,
    };
    for (index, disks) in media.iter().enumerate() {
        let medium = runner.climb(disks, media.len() - index)?;
        report.media.push(medium);
        if interrupted.load(Ordering::Relaxed) {
            report.interrupted = true;
            break;
        }
    }
    if report.is_empty() && report.interrupted { Err(DswError::Interrupted) } else { Ok(report) }
}

/// The rounds that the options ask for, which should be over at `end`.
fn rounds(options: &Options, end: Instant) -> Rounds {
    Rounds {
        calls: 1,
        rungs: options.rungs.len(),
        repeat: options.repeat,
        reads: options.calls,
        same: true,
        end,
    }
}

impl Runner<'_> {
    /// All rounds on one kind of disk, which `left - 1` other kinds follow.
    fn climb(&mut self, disks: &Disks, left: usize) -> Result<Medium, DswError> {
        let facts = describe(disks)?;
        let rungs = &self.options.rungs;
        let rest = self.deadline.saturating_duration_since(Instant::now()) / left as u32;
        // Beside what the crew measures, of the runs of each rung in their order.
        let mut beside: Vec<Vec<Agents>> = vec![Vec::new(); rungs.len()];
        let rounds = rounds(self.options, Instant::now() + rest);
        let measured = rounds.run(|cell, first, until| {
            let found = self.measure(disks, rungs[cell], first, until)?;
            // A warm-up is not among the runs.
            if let (Some((_, agents)), Until::Reads(_)) = (&found, until) {
                beside[cell].push(*agents);
            }
            Ok::<_, DswError>(found.map(|(measured, _)| measured))
        })?;
        self.state.done += measured.left_out;
        let page_bytes = self.calls.page_bytes as u32;
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let cells = measured.runs.into_iter().zip(beside).zip(rungs).map(|((runs, agents), rung)| Cell {
            rung,
            runs: Runs(runs),
            agents,
            page_bytes,
            processors,
        });
        let cells = cells.filter(|cell| cell.rounds() > 0).collect();
        Ok(Medium { on: disks.on.clone(), about: disks.about.clone(), facts, cells })
    }

    fn measure(
        &mut self,
        disks: &Disks,
        rung: &Rung,
        first: u64,
        until: Until,
    ) -> Result<Option<(Measured, Agents)>, DswError> {
        self.state.now = format!("{} on {}", rung.name, disks.on);
        (self.progress)(&self.state);
        let measured = self.replay(disks, rung, first, until);
        self.state.done += 1;
        let through = !self.interrupted.load(Ordering::Relaxed);
        Ok(through.then_some(measured?))
    }

    /// All agents replay their calls once.
    fn replay(
        &self,
        disks: &Disks,
        rung: &Rung,
        first: u64,
        until: Until,
    ) -> Result<(Measured, Agents), DswError> {
        let ladders = disks.open(rung)?;
        let layout = Layout::new(&ladders);
        let (computed_ns, pages) = (AtomicU64::new(0), AtomicU64::new(0));
        let shared = Shared {
            calls: self.calls,
            layout: &layout,
            compute: self.options.compute,
            interrupted: self.interrupted,
            computed_ns: &computed_ns,
            pages: &pages,
        };
        let shared = &shared;
        let mut workers = Vec::with_capacity(self.options.agents);
        for agent in 0..self.options.agents {
            let handles = ladders.iter().map(Ladder::handle).collect::<Result<Vec<Handle>, _>>()?;
            workers.push(move |start: &Barrier| agent::work(shared, handles, (agent, first), until, start));
        }
        let measured = crew::measure(&ladders, workers)?;
        Ok((measured, Agents { computed_ns: computed_ns.into_inner(), pages: pages.into_inner() }))
    }
}
