//! The schedulers of Linux 2.4 and 2.6 against each other, as Morton (February 2003) and Axboe (October and December
//! 2004) measured them, on a model of an IDE disk of that time.

mod claims;
mod published;
mod scenes;
mod tables;

use super::cells::run_all;
use super::disk::{is_2_4, open_changed};
use super::seeds::other_seeds;
use super::{Elevators, Experiment, Hooks, Options, Progress, Report, ReproError};
use platter_bench::processes::{Outcome, RunLimits, run};
use scenes::{SCENES, Scene};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

/// The row of the table of experiments.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "schedulers",
    summary: "the schedulers of Linux 2.4 and 2.6 as Morton (2003) and Axboe (2004) compared them",
    elevators: || SCENES.iter().flat_map(|scene| scene.elevators).map(|(_, elevator)| *elevator).collect(),
    run: reproduce,
};

/// A scene and an elevator.
type Key = (&'static str, &'static str);

/// The outcome of each scene with each elevator.
struct Results {
    outcomes: BTreeMap<Key, Outcome>,
    /// What was asked for.
    used: RefCell<Vec<Key>>,
}

impl Results {
    fn new(outcomes: impl Iterator<Item = (Key, Outcome)>) -> Results {
        Results { outcomes: outcomes.collect(), used: RefCell::default() }
    }

    fn of(&self, scene: &str, elevator: &str) -> Option<&Outcome> {
        let (key, outcome) = self.outcomes.iter().find(|((s, e), _)| *s == scene && *e == elevator)?;
        self.used.borrow_mut().push(*key);
        Some(outcome)
    }

    /// A figure, and the outcomes that it asked for.
    fn note<R>(&self, figure: impl FnOnce(&Results) -> R) -> (R, Vec<Key>) {
        self.used.take();
        let figure = figure(self);
        (figure, self.used.take())
    }
}

/// A simulation.
struct Cell {
    scene: &'static Scene,
    elevator: scenes::Tested,
    seed: u64,
}

impl Cell {
    fn key(&self) -> Key {
        (self.scene.id, self.elevator.1)
    }

    fn run(&self, scale: u64, elevators: &Elevators, cancel: &AtomicBool) -> Result<Outcome, ReproError> {
        let device = open_changed(self.scene.disk, self.elevator, self.seed, elevators)?;
        let (processes, time) = self.scene.make((scale, self.seed), device.size())?;
        let outcome = run(
            &device,
            processes,
            &RunLimits {
                time: Some(time),
                cancel,
                sync_writes: false,
                flusher_starts: is_2_4(self.elevator.0),
            },
        )?;
        if outcome.cancelled { Err(ReproError::Interrupted) } else { Ok(outcome) }
    }
}

/// All simulations with a seed.
fn cells(seed: u64) -> impl Iterator<Item = Cell> {
    SCENES.iter().flat_map(move |scene| {
        scene.elevators.iter().map(move |elevator| Cell { scene, elevator: *elevator, seed })
    })
}

fn reproduce(options: &Options, hooks: Hooks<'_>) -> Result<Report, ReproError> {
    let Hooks { cancel, progress } = hooks;
    let all: Vec<Cell> = cells(options.seed).collect();
    let work = |cell: &Cell, cancel: &AtomicBool| cell.run(options.scale, &options.elevators, cancel);
    let outcomes = run_all(options, Hooks { cancel, progress: &mut *progress }, &all, work)?;
    let results = Results::new(all.iter().map(Cell::key).zip(outcomes));
    let near = claims::near(&results);
    let again: Vec<Cell> =
        other_seeds(options.seed).flat_map(cells).filter(|cell| near.contains(&cell.key())).collect();
    let before = all.len();
    let mut after = |state: Progress| {
        progress(Progress { done: before + state.done, total: before + state.total });
    };
    let outcomes = run_all(options, Hooks { cancel, progress: &mut after }, &again, work)?;
    let mut outcomes = again.iter().zip(outcomes).map(|(cell, outcome)| (cell.key(), outcome));
    let others: Vec<Results> =
        other_seeds(options.seed).map(|_| Results::new(outcomes.by_ref().take(near.len()))).collect();
    Ok(Report {
        name: EXPERIMENT.name,
        summary: EXPERIMENT.summary,
        method: method(options.scale),
        tables: tables::all(&results),
        charts: Vec::new(),
        claims: claims::all(&results, &others),
        scale: options.scale,
    })
}

fn method(scale: u64) -> Vec<String> {
    let sizes = match scale {
        1 => "Sizes and times are the published ones".to_owned(),
        scale => format!("Sizes and times are 1/{scale} of the published ones (--full for those)"),
    };
    vec![
        format!(
            "{sizes}; where a size was not published it is that of the kernel trees and disks of the time. Times are \
             virtual. The disk is ide2004 of the catalogue, one command at a time, for the test of plugging man3367mp \
             with 16 tags. There is no file system and no memory that runs short: processes, their readahead and their \
             dirty pages are those of docs/schedulers.md."
        ),
        "2.4 is the elevator linus, 2.5.61 deadline, Morton's CFQ (older than any release) cfq-v1, Axboe's with time \
         slices cfq; each has the parameters and rules of the kernel that was measured, with the slice, idle time and \
         depth of Axboe's patch. Direct writes are asynchronous to elevators, as they were until 2004. 2.4 has requests of 248 sectors \
         and 64 of them for each direction; bios that wait for one wait until 32 are free. Its plug has neither a count nor a timer, \
         and its elevator merges where its one scan ends. Figures of a machine of 2003 are compared as ratios. A figure of 2 or more, or of 1/2 or less, holds within a \
         factor of 2, any other within 30 %, and bounds that were narrower before stay."
            .to_owned(),
    ]
}
