//! "Linux Block IO - present and future", Axboe, Tokyo 2004: what the slides say in words, on the real queue and elevators. Their figures
//! have experiments of their own: `dm2002`, `plug2004`, `unplug2004`.
//!
//! The slides give no bounds; ours were fixed before anything was run.

mod claims;
mod counted;
mod shares;
mod switching;

use super::cells::run_all;
use super::seeds::other_seeds;
use super::{Experiment, Hooks, Options, Report, ReproError};
use counted::Counted;
use shares::Shares;
use std::sync::atomic::AtomicBool;
use switching::Switched;

/// The row of the table of experiments.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "axboe2004",
    summary: "Linux Block IO in words: sorting, fairness, plugging, bios and switching of elevators",
    run,
};

/// A simulation or a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    /// Exact counts, the same with every seed.
    Counted,
    /// Shares of two parties.
    Shares(shares::Scene, u64),
    /// Elevators switched under load.
    Switched(u64),
}

#[derive(Debug)]
enum Outcome {
    Counted(Counted),
    Shares(Shares),
    Switched(Switched),
}

/// The outcomes, those of the first seed first.
struct Results(Vec<(Cell, Outcome)>);

impl Results {
    fn counted(&self) -> Option<&Counted> {
        self.0.iter().find_map(|(_, outcome)| match outcome {
            Outcome::Counted(counted) => Some(counted),
            _ => None,
        })
    }

    /// Of each seed.
    fn shares(&self, scene: shares::Scene) -> Vec<Shares> {
        let of = |(cell, outcome): &(Cell, Outcome)| match (cell, outcome) {
            (Cell::Shares(known, _), Outcome::Shares(shares)) if *known == scene => Some(*shares),
            _ => None,
        };
        self.0.iter().filter_map(of).collect()
    }

    /// Of each seed.
    fn switched(&self) -> Vec<Switched> {
        let of = |(_, outcome): &(Cell, Outcome)| match outcome {
            Outcome::Switched(switched) => Some(*switched),
            _ => None,
        };
        self.0.iter().filter_map(of).collect()
    }
}

fn run(options: &Options, hooks: Hooks<'_>) -> Result<Report, ReproError> {
    let seeds = || std::iter::once(options.seed).chain(other_seeds(options.seed));
    let mut cells = vec![Cell::Counted];
    for scene in shares::scenes() {
        cells.extend(seeds().map(|seed| Cell::Shares(scene, seed)));
    }
    cells.extend(seeds().map(Cell::Switched));
    let scale = options.scale;
    let found = run_all(options, hooks, &cells, |cell, cancel: &AtomicBool| {
        Ok(match *cell {
            Cell::Counted => Outcome::Counted(counted::count()?),
            Cell::Shares(scene, seed) => Outcome::Shares(shares::run(scene, (scale, seed), cancel)?),
            Cell::Switched(seed) => Outcome::Switched(switching::run((scale, seed), cancel)?),
        })
    })?;
    let results = Results(cells.into_iter().zip(found).collect());
    Ok(Report {
        name: EXPERIMENT.name,
        summary: EXPERIMENT.summary,
        method: method(),
        tables: vec![
            ("Sorting a request into a queue".to_owned(), counted::table(&results)),
            (
                "Shares of a small party beside one with seven times as many I/Os".to_owned(),
                shares::table(&results),
            ),
        ],
        charts: Vec::new(),
        claims: claims::all(&results),
        scale: options.scale,
    })
}

fn method() -> Vec<String> {
    vec![
        "Sorting: requests at random places are given to the elevator of 2.4 without ageing, which counts the requests that it looks \
         at, and to the sorted map of deadline, which counts rounds of comparisons. Sizes of bios, their places in a stack and the \
         plug are counted in the queue."
            .to_owned(),
        "Shares: two processes, or two users, at an IDE disk of the time with one command at a time; one has 56 I/Os waiting, the \
         other 8. Reads and direct writes of 4 KiB at random places of files of their own. The table also has 7 and 1, where the small \
         party has nothing in the queue while its I/O is at the disk."
            .to_owned(),
        "Switching: random reads and writes at depth 32, while the elevator is changed to the next of Linux 2.6.10's after every \
         hundred completions."
            .to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(threads: usize) -> Report {
        let never = AtomicBool::new(false);
        let options = Options { scale: 64, threads, seed: 1 };
        run(&options, Hooks { cancel: &never, progress: &mut |_| () }).unwrap()
    }

    #[test]
    fn verdicts_are_known_and_do_not_depend_on_threads() {
        let (one, two) = (report(1), report(2));
        assert_eq!(one.to_json().to_string(), two.to_json().to_string());
        for claim in &one.claims {
            assert!(claim.ours.is_some(), "{claim:?}");
            assert_eq!(claim.holds() != Some(true), claim.reason.is_some(), "{claim:?}");
        }
        let fails = |claim: &&crate::Claim| claim.holds() == Some(false);
        let failing: Vec<&str> = one.claims.iter().filter(fails).map(|claim| claim.id).collect();
        assert_eq!(failing, [""; 0]);
    }
}
