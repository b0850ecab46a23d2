//! "Disk I/O in Linux": C. Staelin, HPL-2002-352, 2002. Three disks on one machine, by themselves and as striped arrays
//! of Linux 2.4, of Windows XP and of a layer in user space.
//!
//! Rules were set before anything was measured: "roughly" and "nearly" are a tenth, "generally" three quarters of the
//! sizes of requests, "far more" twice, "substantial" a tenth.

mod claims;
mod found;
mod machine;
mod more;
mod row;
mod show;

use super::seeds::other_seeds;
use super::{Experiment, Hooks, Options, Progress, Report, ReproError};
use found::Found;
use machine::DISKS;
use platter_bench::chunked::{self, Cell, Harness, Personality, Plan, Point, RunOptions};
use platter_block::time::Span;

/// The row of the table.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "staelin2002",
    summary: "Disk I/O in Linux: chunks at random places, from disks and striped arrays of 2002",
    elevators: super::no_elevators,
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

/// Requests at once of the counterfactual: the paper's arrays had one process that issued its requests serially.
const SEVERAL: usize = 4;
/// Sizes of requests up to which requests at once use more disks.
const SMALL: u64 = 512 << 10;

/// The points of the paper's figures, with one request at once as in the paper, and stripes against small chunks, of which
/// the paper only has the conclusion. `csraid-async` would be `csraid-sync`.
fn plan() -> Plan {
    let mut plan = Plan { depth: 1, ..Plan::paper(DISKS) };
    plan.personalities.retain(|each| *each != Personality::CsraidAsync);
    plan.stripe_requests.insert(0, 256 << 10);
    plan
}

/// csraid with several requests at once.
fn several(plan: &Plan) -> Vec<Cell> {
    let of = |request| Cell { depth: SEVERAL, ..plan.cell(Personality::CsraidPosix, DISKS, request) };
    let sizes = plan.requests.iter().filter(|&&request| request <= SMALL).map(|&request| of(request));
    let stripes = [64 << 10, 1 << 20].map(|stripe| Cell { stripe, ..of(256 << 10) });
    sizes.chain(stripes).collect()
}

fn run(options: &Options, hooks: Hooks<'_>) -> Result<Report, ReproError> {
    let plan = plan();
    let mut cells = plan.cells().map_err(failed)?;
    for &request in &plan.requests {
        cells.extend(show::variants(&plan, request).map(|(_, cell)| cell));
    }
    cells.extend(several(&plan));
    cells.extend(more::cells(&plan));
    let watched: Vec<Cell> =
        plan.personalities.iter().map(|&each| plan.cell(each, DISKS, WATCHED_REQUEST)).collect();
    let samples = (SAMPLES / options.scale.max(1)).max(FEWEST) as usize;
    // The seed of the first figures, for the first seed.
    let harness =
        |seed: u64| Harness { samples, enough: Span::from_millis(5), seed: seed.wrapping_add(2001) };
    let Hooks { cancel, progress } = hooks;
    let mut done = 0;
    let mut measure = |cells: &[Cell], harness, watch, after: usize| {
        let options = RunOptions { harness, threads: options.threads, watch };
        let total = done + cells.len() + after;
        let mut told = |state: &chunked::Progress<'_>| progress(Progress { done: done + state.done, total });
        let run = chunked::run(cells, &options, &machine::disks, cancel, &mut told).map_err(failed)?;
        done += cells.len();
        if run.interrupted { Err(ReproError::Interrupted) } else { Ok(run.points) }
    };
    let points: Vec<Point> = measure(&cells, harness(options.seed), false, watched.len())?;
    // The whole run is shown, at a limited resolution.
    let few = Harness { samples: WATCHED, enough: Span::ZERO, ..harness(options.seed) };
    let watched = measure(&watched, few, true, 0)?;
    let found = Found::new(&plan, &points, &watched);
    let near = claims::near(&found);
    let near: Vec<Cell> = cells.iter().copied().filter(|cell| near.contains(cell)).collect();
    let seeds: Vec<u64> = other_seeds(options.seed).collect();
    let mut others: Vec<Vec<Point>> = Vec::new();
    for (place, seed) in seeds.iter().enumerate() {
        others.push(measure(&near, harness(*seed), false, near.len() * (seeds.len() - 1 - place))?);
    }
    let others: Vec<Found<'_>> = others.iter().map(|points| Found::new(&plan, points, &[])).collect();
    Ok(Report {
        name: EXPERIMENT.name,
        summary: EXPERIMENT.summary,
        method: show::method(samples),
        tables: show::tables(&found, &watched),
        charts: show::charts(&plan, &points, &watched),
        claims: claims::all(&found, &others),
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
        let options = Options { scale: 64, threads: 2, ..Options::default() };
        let never = AtomicBool::new(false);
        let mut last = None;
        let mut progress = |progress: Progress| last = Some(progress);
        let report = run(&options, Hooks { cancel: &never, progress: &mut progress }).unwrap();
        let last = last.unwrap();
        assert_eq!(last.done, last.total);
        let ids: HashSet<_> = report.claims.iter().map(|claim| claim.id).collect();
        assert_eq!((ids.len(), report.claims.len()), (23, 23));
        for claim in &report.claims {
            if claim.id.starts_with("windows-") {
                let reason = claim.reason.as_deref().unwrap();
                assert!(
                    claim.ours.is_none() && reason.starts_with("Windows is not modelled"),
                    "{}",
                    claim.id
                );
                continue;
            }
            let value = claim.ours.unwrap_or_else(|| panic!("{} was not measured", claim.id));
            assert!(value.is_finite() && value > 0.0 || claim.unit == "of sizes", "{}: {value}", claim.id);
            let given = claim.reason.is_some();
            assert_eq!(claim.holds() != Some(true), given, "{}", claim.id);
        }
        // Claims that only depend on the disks and the buses hold with few samples too.
        for id in [
            "disk-peak",
            "three-disks",
            "csraid-ahead",
            "several-ahead",
            "jbod-grows",
            "csraid-jbod",
            "large-sequential",
        ] {
            let claim = report.claims.iter().find(|claim| claim.id == id).unwrap();
            assert_eq!(claim.holds(), Some(true), "{claim:?}");
        }
        let page = report.to_html();
        for number in 1..=8 {
            assert!(page.contains(&format!("Figure {number}:")), "{number}");
        }
        // Each stated point is in the legend of its figure.
        for says in ["a disk, 40 MB/s", "three disks, nearly 120 MB/s", "three disks, 3/4 of the peak"] {
            assert!(page.contains(&format!("paper: {says}")), "{says}");
        }
        for name in plan().personalities {
            assert!(page.contains(&format!("Disks over time: {}", name.name())));
        }
    }

    #[test]
    fn an_interruption_ends_it() {
        let options = Options { scale: 1, ..Options::default() };
        let cancel = AtomicBool::new(true);
        let result = run(&options, Hooks { cancel: &cancel, progress: &mut |_| {} });
        assert!(matches!(result, Err(ReproError::Interrupted)));
    }
}
