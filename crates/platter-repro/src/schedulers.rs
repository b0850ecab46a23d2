//! The schedulers of Linux 2.4 and 2.6 against each other, as Morton (February 2003) and Axboe (October and December
//! 2004) measured them, on a model of an IDE disk of that time.

mod claims;
mod published;
mod scenes;
mod tables;

use super::cells::run_all;
use super::disk::open;
use super::{Experiment, Hooks, Options, Report, ReproError};
use platter_bench::processes::{Outcome, RunLimits, run};
use scenes::{SCENES, Scene};
use std::collections::BTreeMap;

/// The row of the table of experiments.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "schedulers",
    summary: "the schedulers of Linux 2.4 and 2.6 as Morton (2003) and Axboe (2004) compared them",
    run: reproduce,
};

/// The outcome of each scene with each elevator.
struct Results(BTreeMap<(&'static str, &'static str), Outcome>);

impl Results {
    fn of(&self, scene: &str, elevator: &str) -> Option<&Outcome> {
        self.0.iter().find(|((s, e), _)| *s == scene && *e == elevator).map(|(_, outcome)| outcome)
    }
}

fn reproduce(options: &Options, hooks: Hooks<'_>) -> Result<Report, ReproError> {
    let cells: Vec<(&Scene, scenes::Tested)> = SCENES
        .iter()
        .flat_map(|scene| scene.elevators.iter().map(move |elevator| (scene, *elevator)))
        .collect();
    let outcomes = run_all(options, hooks, &cells, |(scene, (kernel, elevator)), cancel| {
        let device = open(scene.disk, kernel, elevator)?;
        let (processes, time) = scene.make(options.scale, device.size())?;
        let outcome = run(&device, processes, &RunLimits { time: Some(time), cancel, sync_writes: false })?;
        if outcome.cancelled { Err(ReproError::Interrupted) } else { Ok(outcome) }
    })?;
    let keys = cells.iter().map(|(scene, (_, elevator))| (scene.id, *elevator));
    let results = Results(keys.zip(outcomes).collect());
    Ok(Report {
        name: EXPERIMENT.name,
        summary: EXPERIMENT.summary,
        method: method(options.scale),
        tables: tables::all(&results),
        charts: Vec::new(),
        claims: claims::all(&results),
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
         depth of Axboe's patch. Direct writes are asynchronous to elevators, as they were until 2004. The queue, its \
         plug, merging and request pool are those of 2.6 for 2.4 too. Figures of a machine of 2003 are compared as ratios; the rules were fixed before the model was \
         asked."
            .to_owned(),
    ]
}
