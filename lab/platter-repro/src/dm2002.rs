//! "Improving Linux Block I/O for Enterprise Workloads": Wong and others, OLS 2002. The disk I/O microbenchmark (DM) of Table 3
//! and the calls of Table 8, on a model of the machine with eight processors.
//!
//! A figure holds within 15 %, on either side. That was fixed before the model was run.

mod claims;
mod here;
mod kernels;
mod show;

use super::cells::run_all;
use super::host::kernel::{Kernel, unit_bytes};
use super::host::readers::{self, Cell, Found, Load};
use super::seeds::other_seeds;
use super::{Experiment, Hooks, Options, Report, ReproError};
use kernels::kernels;

pub(super) use kernels::{COMMAND_2_4, COMMAND_2_5, HOLDS, MACHINE, UNIT_2_4, UNIT_2_5, rung};
use platter_bench::ladder::Unit;
use platter_block::time::Span;
pub(super) use show::parameters;

/// The row of the table of experiments.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "dm2002",
    summary: "Improving Linux Block I/O: 32 disks on eight processors, Tables 3 and 8",
    elevators: super::no_elevators,
    run,
};

/// Calls of each process in the paper.
const CALLS: u64 = 4096;
/// Fewest calls after which the start no longer shows.
const FEWEST: u64 = 64;
/// Bytes of a call, and the buffers of one with `readv`.
const BYTES: u64 = 64 << 10;
const BUFFERS: u64 = 16;
/// Table 8: 128 reads of 128 KiB.
const TRACED: Load = Load {
    bytes: 128 << 10,
    pieces: 1,
    calls: 128,
    processes: 1,
    cached: None,
    compute: Span::ZERO,
    disk: Span::ZERO,
};

/// A cell and its outcome.
struct Row {
    cell: Cell,
    found: Found,
}

/// The outcomes, those of the first seed first.
struct Results(Vec<Row>);

impl Results {
    /// Of each seed, the first one's first: a kernel with `read` or with `readv`.
    fn of(&self, kernel: &str, readv: bool) -> Vec<&Found> {
        let matches = |cell: &Cell| {
            cell.kernel.name == kernel
                && cell.load.processes == MACHINE.disks
                && (cell.load.pieces > 1) == readv
        };
        self.0.iter().filter(|row| matches(&row.cell)).map(|row| &row.found).collect()
    }

    /// Of Table 8: with units of a sector or of a page.
    fn traced(&self, unit: Unit) -> Option<&Found> {
        let matches = |cell: &Cell| cell.load == TRACED && cell.kernel.unit == unit_bytes(unit);
        self.0.iter().find(|row| matches(&row.cell)).map(|row| &row.found)
    }
}

fn cells(options: &Options) -> Vec<Cell> {
    // The figures are those of a steady state, which does not need the paper's length.
    let calls = if options.scale <= 1 { CALLS } else { (CALLS / 8 / options.scale).max(FEWEST) };
    let mut all = Vec::new();
    for seed in std::iter::once(options.seed).chain(other_seeds(options.seed)) {
        for kernel in kernels() {
            for pieces in [1, BUFFERS] {
                let load = Load {
                    bytes: BYTES,
                    pieces,
                    calls,
                    processes: MACHINE.disks,
                    cached: None,
                    compute: Span::ZERO,
                    disk: Span::ZERO,
                };
                all.push(Cell { machine: MACHINE, kernel, load, seed });
            }
        }
    }
    let baseline = kernels().into_iter().find(|kernel| kernel.name == "Baseline");
    for unit in [Unit::Sector, Unit::Page] {
        all.extend(baseline.map(|kernel| Cell {
            machine: MACHINE,
            kernel: Kernel { unit: unit_bytes(unit), ..kernel },
            load: TRACED,
            seed: options.seed,
        }));
    }
    all
}

fn run(options: &Options, hooks: Hooks<'_>) -> Result<Report, ReproError> {
    let cells = cells(options);
    let cancel = hooks.cancel;
    let found = run_all(options, hooks, &cells, readers::run)?;
    // After the simulations, which would take the processors.
    let here = if options.here { Some(here::measure(cancel)?) } else { None };
    let results = Results(cells.into_iter().zip(found).map(|(cell, found)| Row { cell, found }).collect());
    Ok(Report {
        name: EXPERIMENT.name,
        summary: EXPERIMENT.summary,
        method: show::method(),
        tables: show::tables(&results),
        charts: Vec::new(),
        claims: claims::all(&results, here.as_ref()),
        scale: options.scale,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use serde_json::Value;
    use std::sync::OnceLock;
    use std::sync::atomic::AtomicBool;

    fn report(threads: usize, here: bool) -> Report {
        let never = AtomicBool::new(false);
        let options = Options { scale: 64, threads, here, ..Options::default() };
        run(&options, Hooks { cancel: &never, progress: &mut |_| () }).unwrap()
    }

    /// The report made on one thread, once for all tests.
    fn one() -> &'static Report {
        static REPORT: OnceLock<Report> = OnceLock::new();
        REPORT.get_or_init(|| report(1, false))
    }

    #[test]
    fn inputs_come_out_counts_are_exact_and_verdicts_are_known() {
        let one = one();
        for claim in &one.claims {
            let ratio = claim.ratio().unwrap();
            match claim.kind {
                Kind::Input => assert!((0.98..1.02).contains(&ratio), "{claim:?}"),
                Kind::Mechanism => assert_eq!(claim.ours, claim.published, "{claim:?}"),
                _ => {}
            }
            assert_eq!(claim.holds() != Some(true), claim.reason.is_some(), "{claim:?}");
        }
        let fails = |claim: &&crate::Claim| claim.kind == Kind::Prediction && claim.holds() == Some(false);
        let failing: Vec<&str> = one.claims.iter().filter(fails).map(|claim| claim.id).collect();
        assert_eq!(
            failing,
            [
                "sb-read-rate",
                "sb-read-idle",
                "sbir-readv-rate",
                "sbir-readv-idle",
                "2517-readv-idle",
                "sys_read",
                "sys_read-rawvary",
            ]
        );
    }

    /// Times of this machine are only shown; the bios are counted. The model does not depend on threads.
    #[test]
    fn this_machine_is_measured_if_asked_for() {
        let (one, report) = (one(), report(2, true));
        assert!(one.claims.iter().all(|claim| claim.here.is_none()));
        let mut without = report.to_json();
        without["claims"].as_array_mut().unwrap().iter_mut().for_each(|claim| claim["here"] = Value::Null);
        assert_eq!(one.to_json().to_string(), without.to_string());
        let here = |id: &str| report.claims.iter().find(|claim| claim.id == id).unwrap().here;
        assert!(
            report.claims.iter().filter(|claim| claim.unit == "MB/s").all(|claim| claim.here > Some(0.0))
        );
        assert_eq!((here("submit_bh"), here("submit_bh-rawvary")), (Some(32_768.0), Some(4096.0)));
        let change = here("sbi-rate-change").unwrap() / 100.0 + 1.0;
        let rates = here("sbi-read-rate").unwrap() / here("sb-read-rate").unwrap();
        assert!((change - rates).abs() < 1e-9);
    }

    #[test]
    fn an_interruption_ends_it() {
        let cancel = AtomicBool::new(true);
        let options = Options { scale: 1, ..Options::default() };
        let result = run(&options, Hooks { cancel: &cancel, progress: &mut |_| () });
        assert!(matches!(result, Err(ReproError::Interrupted)));
    }
}
