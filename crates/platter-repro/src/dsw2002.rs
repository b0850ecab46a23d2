//! "Improving Linux Block I/O for Enterprise Workloads": Wong and others, OLS 2002. The decision-support workload (DSW) of Tables
//! 1, 2 and 4 to 7, on a model of the machine with eight processors and six adapters.
//!
//! A figure holds within 15 %, on either side. That, the size of a prefetch and an agent for each processor were fixed before the
//! model was run.

mod claims;
mod kernels;
mod profile;
mod rows;
mod show;

use super::cells::run_all;
use super::host::readers::{self, Cell, Found};
use super::seeds::other_seeds;
use super::{Experiment, Hooks, Options, Report, ReproError};
use kernels::{MACHINE, kernels, load};

pub(super) use kernels::parameters;

/// The row of the table of experiments.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "dsw2002",
    summary: "Improving Linux Block I/O: decision support on eight processors, Tables 1, 2 and 4 to 7",
    run,
};

/// Prefetches of each agent, and the fewest after which the start no longer shows.
const CALLS: u64 = 2048;
const FEWEST: u64 = 192;

/// The outcomes: of each seed, the kernels in the order of Table 2.
struct Results(Vec<(Cell, Found)>);

impl Results {
    /// Of each seed, the first one's first.
    fn of(&self, kernel: &str) -> Vec<&(Cell, Found)> {
        self.0.iter().filter(|(cell, _)| cell.kernel.name == kernel).collect()
    }
}

fn cells(options: &Options) -> Vec<Cell> {
    let load = load((CALLS / options.scale).max(FEWEST));
    let seeds = std::iter::once(options.seed).chain(other_seeds(options.seed));
    seeds
        .flat_map(|seed| {
            kernels().into_iter().map(move |kernel| Cell { machine: MACHINE, kernel, load, seed })
        })
        .collect()
}

fn run(options: &Options, hooks: Hooks<'_>) -> Result<Report, ReproError> {
    let cells = cells(options);
    let found = run_all(options, hooks, &cells, readers::run)?;
    let results = Results(cells.into_iter().zip(found).collect());
    Ok(Report {
        name: EXPERIMENT.name,
        summary: EXPERIMENT.summary,
        method: show::method(),
        tables: show::tables(&results),
        charts: Vec::new(),
        claims: claims::all(&results),
        scale: options.scale,
    })
}
