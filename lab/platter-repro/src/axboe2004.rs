//! "Linux Block IO - present and future", Axboe, Tokyo 2004: what the slides say in words about elevators, barriers,
//! plugging and bios. Its figures have experiments of their own (`dm2002`, `plug2004`, `unplug2004`).
//!
//! Each topic is a job, which gives figures by name; a claim is a figure with a rule, and so is a row of a table. The
//! rules were fixed before the first run. No figure is an input.

mod barriers;
mod bios;
mod claims;
mod engine;
mod order;
mod shares;
mod show;
mod steps;
mod switching;

use super::cells::run_all;
use super::seeds::other_seeds;
use super::{Experiment, Hooks, Options, Report, ReproError};
use platter_block::elevator::Elevator;
use platter_elevators::presets::{self, Preset};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

/// The row of the table of experiments.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "axboe2004",
    summary: "what Axboe's talk of 2004 says of elevators, fairness, barriers and bios, counted",
    elevators: super::no_elevators,
    run,
};

/// Figures by name.
type Figures = BTreeMap<&'static str, f64>;

/// What a job is told.
struct Stage<'a> {
    seed: u64,
    /// Times of simulated disks are divided by this.
    scale: u64,
    cancel: &'a AtomicBool,
}

/// A topic of the talk.
struct Job {
    run: fn(&Stage<'_>) -> Result<Figures, ReproError>,
    /// Whether the result depends on the seed.
    seeded: bool,
}

const JOBS: &[Job] = &[
    Job { run: steps::sorting, seeded: true },
    Job { run: steps::merging, seeded: true },
    Job { run: order::scans, seeded: true },
    Job { run: order::latency, seeded: false },
    Job { run: order::batches, seeded: true },
    Job { run: shares::fair, seeded: true },
    Job { run: shares::groups, seeded: true },
    Job { run: shares::priorities, seeded: true },
    Job { run: shares::anticipation, seeded: true },
    Job { run: barriers::kinds, seeded: true },
    Job { run: barriers::cost, seeded: true },
    Job { run: bios::layers, seeded: false },
    Job { run: bios::plug, seeded: false },
    Job { run: bios::allocation, seeded: false },
    Job { run: switching::switching, seeded: true },
];

/// The elevator of a kernel.
fn elevator(kernel: &'static str, elevator: &'static str) -> Result<Box<dyn Elevator>, ReproError> {
    presets::find(kernel, elevator).and_then(Preset::make).ok_or(ReproError::NoPreset { kernel, elevator })
}

fn run(options: &Options, hooks: Hooks<'_>) -> Result<Report, ReproError> {
    let seeds: Vec<u64> = std::iter::once(options.seed).chain(other_seeds(options.seed)).collect();
    let cells: Vec<(usize, u64, &Job)> = seeds
        .iter()
        .enumerate()
        .flat_map(|(run, &seed)| JOBS.iter().map(move |job| (run, seed, job)))
        .filter(|(run, _, job)| *run == 0 || job.seeded)
        .collect();
    let found = run_all(options, hooks, &cells, |(_, seed, job), cancel| {
        (job.run)(&Stage { seed: *seed, scale: options.scale, cancel })
    })?;
    let mut of_seeds: Vec<Figures> = vec![Figures::new(); seeds.len()];
    for ((run, _, job), figures) in cells.iter().zip(found) {
        let all = if job.seeded { *run..run + 1 } else { 0..seeds.len() };
        of_seeds[all].iter_mut().for_each(|of_seed| of_seed.extend(&figures));
    }
    Ok(Report {
        name: EXPERIMENT.name,
        summary: EXPERIMENT.summary,
        method: show::method(options.scale),
        tables: show::tables(&of_seeds[0]),
        charts: Vec::new(),
        claims: claims::all(&of_seeds),
        scale: options.scale,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::OnceLock;

    /// The report, made once for all tests.
    fn report() -> &'static Report {
        static REPORT: OnceLock<Report> = OnceLock::new();
        REPORT.get_or_init(|| {
            let never = AtomicBool::new(false);
            let hooks = Hooks { cancel: &never, progress: &mut |_| () };
            run(&Options { scale: 64, threads: 2, ..Options::default() }, hooks).unwrap()
        })
    }

    #[test]
    fn every_claim_has_its_figure() {
        let claims = &report().claims;
        let ids: BTreeSet<&str> = claims.iter().map(|claim| claim.id).collect();
        assert_eq!(ids.len(), claims.len());
        for claim in claims {
            assert!(claim.ours.is_some_and(f64::is_finite), "{claim:?}");
            assert_eq!(claim.holds() == Some(true), claim.reason.is_none(), "{claim:?}");
        }
    }

    #[test]
    fn tables_have_all_their_figures() {
        let text = report().to_text(false);
        let tables = text.split("\nClaims\n").next().unwrap();
        let empty: Vec<&str> =
            tables.lines().filter(|line| line.split_whitespace().any(|cell| cell == "-")).collect();
        assert!(empty.is_empty() && tables.contains("ordered tags"), "{empty:?}\n{tables}");
    }
}
