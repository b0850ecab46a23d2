//! "Improving Linux Block I/O for Enterprise Workloads": Wong and others, OLS 2002. The decision-support workload (DSW), Tables 1, 2
//! and 4 to 7, on a model of the machine with six adapters.
//!
//! The queries are not published. The load is a stated mix: agents that read extents, mostly with `readv`, and compute on
//! them. A figure holds within 15 %, on either side. That and the mix were fixed before the model was run.

mod claims;
mod kernels;
mod order;
mod show;
mod tables;

use super::cells::run_all;
use super::host::kernel::Kernel;
use super::host::readers::{self, Cell, Found, Load};
use super::seeds::other_seeds;
use super::{Experiment, Hooks, Options, Report, ReproError};
use kernels::{AGENTS, BYTES, LOADED, MACHINE, PIECES, kernels};

pub(super) use show::parameters;

/// The row of the table of experiments.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "dsw2002",
    summary: "Improving Linux Block I/O: decision support on eight processors, Tables 1, 2 and 4 to 7",
    run,
};

/// Extents that each agent reads at full size.
const EXTENTS: u64 = 2048;
/// Fewest extents after which the start no longer shows.
const FEWEST: u64 = 64;

/// The outcomes of a kernel, that of the first seed first.
struct Row {
    kernel: Kernel,
    seeds: Vec<Found>,
}

/// The outcomes by kernel.
struct Results(Vec<Row>);

impl Results {
    fn of(&self, kernel: &str) -> Option<&Row> {
        self.0.iter().find(|row| row.kernel.name == kernel)
    }
}

fn run(options: &Options, hooks: Hooks<'_>) -> Result<Report, ReproError> {
    let calls = (EXTENTS / options.scale).max(FEWEST);
    let load =
        Load { bytes: BYTES, pieces: PIECES, calls, processes: AGENTS, cached: None, agents: Some(LOADED) };
    let seeds: Vec<u64> = std::iter::once(options.seed).chain(other_seeds(options.seed)).collect();
    let cell = |kernel, seed| Cell { machine: MACHINE, kernel, load, seed };
    let cells: Vec<Cell> =
        kernels().into_iter().flat_map(|kernel| seeds.iter().map(move |&seed| cell(kernel, seed))).collect();
    let mut found = run_all(options, hooks, &cells, readers::run)?.into_iter();
    let rows =
        kernels().into_iter().map(|kernel| Row { kernel, seeds: found.by_ref().take(seeds.len()).collect() });
    let results = Results(rows.collect());
    Ok(Report {
        name: EXPERIMENT.name,
        summary: EXPERIMENT.summary,
        method: show::method(),
        tables: show::tables(&results),
        charts: Vec::new(),
        claims: claims::all(&results).into_iter().chain(order::all(&results)).collect(),
        scale: options.scale,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use std::sync::atomic::AtomicBool;

    fn report(threads: usize) -> Report {
        let never = AtomicBool::new(false);
        let options = Options { scale: 64, threads, seed: 1 };
        run(&options, Hooks { cancel: &never, progress: &mut |_| () }).unwrap()
    }

    #[test]
    fn inputs_come_out_and_results_do_not_depend_on_threads() {
        let (one, two) = (report(1), report(2));
        assert_eq!(one.to_json().to_string(), two.to_json().to_string());
        for claim in &one.claims {
            if claim.kind == Kind::Input {
                let ratio = claim.ratio().unwrap();
                assert!((0.95..1.05).contains(&ratio), "{claim:?}");
            }
            assert_eq!(claim.holds() != Some(true), claim.reason.is_some(), "{claim:?}");
        }
        assert_eq!(one.claims.len(), 73);
        let holds = |claim: &&crate::Claim| claim.kind == Kind::Prediction && claim.holds() == Some(true);
        let holding: Vec<&str> = one.claims.iter().filter(holds).map(|claim| claim.id).collect();
        assert_eq!(
            holding,
            [
                "sbirv-user",
                "sbirv-idle",
                "all-increase",
                "t5-generic-unplug-device-count",
                "t6-io-request-lock-count",
                "t6-do-ipsintr-cpu",
                "t6-scsi-dispatch-cmd-hold",
                "t6-scsi-make-request-count",
            ]
        );
    }
}
