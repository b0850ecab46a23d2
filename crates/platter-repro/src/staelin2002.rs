//! "Disk I/O in Linux": C. Staelin, HPL-2002-352, 2002. Three disks on one machine, by themselves and as striped arrays
//! of Linux 2.4, of Windows XP and of a layer in user space.
//!
//! Rules were set before anything was measured: "roughly" and "nearly" are a tenth, "generally" three quarters of the
//! sizes of requests, "far more" twice, "substantial" a tenth.

mod claims;
mod found;
mod machine;
mod show;

use super::{Experiment, Hooks, Options, Progress, Report, ReproError};
use found::Found;
use machine::DISKS;
use platter_bench::chunked::{self, Cell, Harness, Plan, Point, RunOptions};
use platter_block::time::Span;

/// The row of the table.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "staelin2002",
    summary: "Disk I/O in Linux: chunks at random places, from disks and striped arrays of 2002",
    run,
};

/// Samples of each process.
const SAMPLES: u64 = 101;
/// Fewest samples with meaningful quartiles.
const FEWEST: u64 = 7;
/// Requests while which disks are watched.
const WATCHED: usize = 12;
/// Their size.
const WATCHED_REQUEST: u64 = 16 << 20;

/// The points of the paper's figures, and stripes against small chunks, of which the paper only has the conclusion.
fn plan() -> Plan {
    let mut plan = Plan::paper(DISKS);
    plan.stripe_requests.insert(0, 256 << 10);
    plan
}

fn run(options: &Options, hooks: Hooks<'_>) -> Result<Report, ReproError> {
    let plan = plan();
    let mut cells = plan.cells().map_err(failed)?;
    for &request in &plan.requests {
        cells.extend(show::variants(&plan, request).map(|(_, cell)| cell));
    }
    let watched: Vec<Cell> =
        plan.personalities.iter().map(|&each| plan.cell(each, DISKS, WATCHED_REQUEST)).collect();
    let samples = (SAMPLES / options.scale.max(1)).max(FEWEST) as usize;
    let harness = Harness { samples, enough: Span::from_millis(5), seed: 2002 };
    let total = cells.len() + watched.len();
    let Hooks { cancel, progress } = hooks;
    let mut measure = |cells: &[Cell], harness, watch, before: usize| {
        let options = RunOptions { harness, threads: options.threads, watch };
        let mut told =
            |state: &chunked::Progress<'_>| progress(Progress { done: before + state.done, total });
        let run = chunked::run(cells, &options, &machine::disks, cancel, &mut told).map_err(failed)?;
        if run.interrupted { Err(ReproError::Interrupted) } else { Ok(run.points) }
    };
    let points: Vec<Point> = measure(&cells, harness, false, 0)?;
    // The whole run is shown, at a limited resolution.
    let few = Harness { samples: WATCHED, enough: Span::ZERO, ..harness };
    let watched = measure(&watched, few, true, cells.len())?;
    let found = Found::new(&plan, &points);
    Ok(Report {
        name: EXPERIMENT.name,
        summary: EXPERIMENT.summary,
        method: show::method(samples),
        tables: show::tables(&found, &watched),
        charts: show::charts(&plan, &points, &watched),
        claims: claims::claims(&found),
        scale: options.scale,
    })
}

fn failed(error: chunked::ChunkedError) -> ReproError {
    ReproError::Chunked(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn every_claim_has_its_figure_and_what_fails_has_a_reason() {
        let options = Options { scale: 64, threads: 2 };
        let never = AtomicBool::new(false);
        let mut last = None;
        let mut progress = |progress: Progress| last = Some(progress);
        let report = run(&options, Hooks { cancel: &never, progress: &mut progress }).unwrap();
        let last = last.unwrap();
        assert_eq!(last.done, last.total);
        let ids: HashSet<_> = report.claims.iter().map(|claim| claim.id).collect();
        assert_eq!((ids.len(), report.claims.len()), (15, 15));
        for claim in &report.claims {
            let value = claim.modelled.unwrap_or_else(|| panic!("{} was not measured", claim.id));
            assert!(value.is_finite() && value > 0.0 || claim.unit == "of sizes", "{}: {value}", claim.id);
            let given = claim.reason.is_some();
            assert_eq!(claim.holds() != Some(true), given, "{}", claim.id);
        }
        // Claims that only depend on the disks and the buses hold with few samples too.
        for id in ["disk-peak", "three-disks", "csraid-ahead", "async-ahead", "windows-small"] {
            let claim = report.claims.iter().find(|claim| claim.id == id).unwrap();
            assert_eq!(claim.holds(), Some(true), "{claim:?}");
        }
        let page = report.to_html();
        for number in 1..=8 {
            assert!(page.contains(&format!("Figure {number}:")), "{number}");
        }
        for name in plan().personalities {
            assert!(page.contains(&format!("Disks over time: {}", name.name())));
        }
    }

    #[test]
    fn an_interruption_ends_it() {
        let options = Options { scale: 1, threads: 1 };
        let cancel = AtomicBool::new(true);
        let result = run(&options, Hooks { cancel: &cancel, progress: &mut |_| {} });
        assert!(matches!(result, Err(ReproError::Interrupted)));
    }
}
