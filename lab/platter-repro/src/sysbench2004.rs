//! "Random file I/O regressions in 2.6": SysBench's fileio test as A. Kopytov, N. Piggin and A. Morton ran it
//! in May 2004, on linux-kernel.
//!
//! All threads of the test share one open file for each file. If the readahead state belongs to the file, two
//! overlapping reads look like jumps to it, and after a few it is off permanently: from then on a read of 16
//! KiB is four of a page, each waited for. The model has this from the policies themselves; [`show::method`]
//! lists its other assumptions.

mod cells;
mod claims;
mod crew;
mod journal;
mod layout;
mod machine;
mod show;
mod words;

use super::cells::run_all;
use super::{Experiment, Hooks, Options, Report, ReproError};
use cells::{CELLS, Found, SEEDS};
use machine::{Kernel, Machine};
use platter_bench::fileio::Plan;

/// The row of the table.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "sysbench2004",
    summary: "random file I/O regressions in 2.6: SysBench's fileio test of May 2004",
    elevators: || CELLS.iter().map(|(_, kernel)| kernel.elevator).collect(),
    run,
};

/// Requests of the test.
const REQUESTS: u64 = 10_000;
/// Up to this scale all requests are run: that takes seconds.
const WHOLE: u64 = 4;

fn run(options: &Options, hooks: Hooks<'_>) -> Result<Report, ReproError> {
    let requests = REQUESTS * WHOLE / options.scale.max(WHOLE);
    let seeds = || (0..SEEDS).map(|next| options.seed.wrapping_add(next));
    let cells: Vec<(&Kernel, u64)> =
        CELLS.iter().flat_map(|(_, kernel)| seeds().map(move |seed| (kernel, seed))).collect();
    let outcomes = run_all(options, hooks, &cells, |&(kernel, seed), cancel| {
        let plan =
            Plan { total_size: kernel.files, events: requests, fsync_end: false, seed, ..Plan::default() };
        crew::run(&Machine::new(kernel, seed, &options.elevators)?, &plan, kernel, cancel)
    })?;
    let found = Found::new(outcomes);
    Ok(Report {
        name: EXPERIMENT.name,
        summary: EXPERIMENT.summary,
        method: show::method(requests),
        tables: show::tables(&found),
        charts: Vec::new(),
        claims: claims::all(&found),
        scale: options.scale,
    })
}
