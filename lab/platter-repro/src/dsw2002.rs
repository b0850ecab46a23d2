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
use kernels::{MACHINE, Mix, kernels, load};

pub(super) use kernels::parameters;

/// The row of the table of experiments.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "dsw2002",
    summary: "Improving Linux Block I/O: decision support on eight processors, Tables 1, 2 and 4 to 7",
    elevators: super::no_elevators,
    run,
};

/// Prefetches of each agent, and the fewest after which the start no longer shows.
const CALLS: u64 = 768;
const FEWEST: u64 = 192;

/// The outcomes of both mixes: of each seed, the kernels in order.
struct Results {
    suite: Vec<(Cell, Found)>,
    query: Vec<(Cell, Found)>,
}

impl Results {
    /// Of each seed, the first one's first.
    fn of(&self, mix: Mix, kernel: &str) -> Vec<&(Cell, Found)> {
        let rows = match mix {
            Mix::Suite => &self.suite,
            Mix::Query => &self.query,
        };
        rows.iter().filter(|(cell, _)| cell.kernel.name == kernel).collect()
    }
}

fn cells(mix: Mix, options: &Options) -> Vec<Cell> {
    let load = load(mix, (CALLS / options.scale).max(FEWEST));
    let seeds = std::iter::once(options.seed).chain(other_seeds(options.seed));
    seeds
        .flat_map(|seed| {
            kernels(mix).into_iter().map(move |kernel| Cell { machine: MACHINE, kernel, load, seed })
        })
        .collect()
}

fn run(options: &Options, hooks: Hooks<'_>) -> Result<Report, ReproError> {
    let suite = cells(Mix::Suite, options);
    let count = suite.len();
    let cells: Vec<Cell> = suite.into_iter().chain(cells(Mix::Query, options)).collect();
    let found = run_all(options, hooks, &cells, readers::run)?;
    let mut suite: Vec<(Cell, Found)> = cells.into_iter().zip(found).collect();
    let query = suite.split_off(count);
    let results = Results { suite, query };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dm2002::HOLDS;
    use crate::host::readers::Load;
    use platter_block::time::Span;
    use std::sync::atomic::AtomicBool;

    fn cell(name: &str, calls: u64) -> Cell {
        of_mix(Mix::Suite, name, calls)
    }

    fn of_mix(mix: Mix, name: &str, calls: u64) -> Cell {
        let kernel = kernels(mix).into_iter().find(|kernel| kernel.name == name).unwrap();
        Cell { machine: MACHINE, kernel, load: load(mix, calls), seed: 1 }
    }

    fn found(cell: &Cell) -> Found {
        readers::run(cell, &AtomicBool::new(false)).unwrap()
    }

    fn of(found: &Found, stage: &str) -> (u64, Span) {
        let at = readers::STAGES.iter().position(|name| *name == stage).unwrap();
        (found.callers[at].acquisitions, found.usage.stages[at])
    }

    #[test]
    fn a_process_that_starts_all_devices_splits_requests_of_others() {
        let all = of_mix(Mix::Query, "SB", 16);
        let alone = Cell { load: Load { processes: 1, ..all.load }, ..all };
        let pieces = 16 * kernels::PIECES;
        assert_eq!(of(&found(&alone), "send").0, pieces);
        assert!(of(&found(&all), "send").0 > kernels::AGENTS as u64 * pieces * 5 / 4);
    }

    #[test]
    fn a_command_has_four_further_acquisitions_of_the_lock_of_all_queues() {
        for (mix, hold) in [(Mix::Suite, HOLDS.queue), (Mix::Query, kernels::METERED)] {
            let found = found(&of_mix(mix, "SB", 8));
            let ((others, time), (commands, _)) = (of(&found, "other"), of(&found, "send"));
            assert_eq!((others, time.0), (4 * commands, 4 * commands * HOLDS.other.0));
            let queued = of(&found, "queue");
            assert_eq!(queued.1.0, queued.0 * hold.0);
        }
    }

    /// What a disk takes beside its adapter is in every wait of a process that is alone.
    #[test]
    fn a_query_waits_for_its_disk() {
        let query = of_mix(Mix::Query, "SBI", 8);
        let alone = Cell { load: Load { processes: 1, ..query.load }, ..query };
        let without = Cell { load: Load { disk: Span::ZERO, ..alone.load }, ..alone };
        let [with, without] = [alone, without].map(|cell| found(&cell).elapsed.0);
        assert_eq!(with - without, 8 * kernels::PIECES * kernels::QUERY_DISK.0);
    }

    /// Once for a prefetch, which is several system calls where each buffer is one.
    #[test]
    fn agents_compute_after_each_prefetch_and_differently() {
        for name in ["SBIR", "SBIRV"] {
            let cell = cell(name, 64);
            let (_, time) = of(&found(&cell), "user");
            let mean = cell.load.compute.0 * 64 * kernels::AGENTS as u64;
            let ratio = time.0 as f64 / mean as f64;
            assert!((0.95..1.05).contains(&ratio), "{name}: {ratio}");
        }
        let one = Cell { load: Load { processes: 1, ..load(Mix::Suite, 8) }, ..cell("SBIRV", 8) };
        let seeds = [1, 2].map(|seed| of(&found(&Cell { seed, ..one }), "user").1);
        assert_ne!(seeds[0], seeds[1]);
    }

    #[test]
    fn shares_of_functions_and_the_rest_are_all_of_the_time() {
        let cell = cell("Baseline", 8);
        let row = (cell, found(&cell));
        let share = |name: &str| profile::share(&row, name).unwrap();
        let bottom: f64 = ["do_softirq", "tasklet_hi_action", "scsi_release_buffers", "bounce_end_io_read"]
            .iter()
            .map(|name| share(name))
            .sum();
        assert!(bottom > share("bounce_end_io_read") && share("do_softirq") >= share("scsi_release_buffers"));
        assert_eq!(profile::share(&row, "no_function"), None);
        let order = |functions: &[(&'static str, f64)]| profile::order(&row, functions);
        assert_eq!(order(&[("bounce_end_io_read", 2.0), ("brw_kiovec", 1.0)]), Some((1, 1)));
        assert_eq!(order(&[("brw_kiovec", 2.0), ("bounce_end_io_read", 1.0)]), Some((1, 0)));
        assert_eq!(order(&[("brw_kiovec", 2.0), ("bounce_end_io_read", 2.0)]), Some((0, 0)));
    }
}
