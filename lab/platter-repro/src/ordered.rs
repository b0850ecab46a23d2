//! Hard barriers by draining the queue, as ordered tags and not at all: the choice between IDE and SCSI of which Axboe
//! speaks ("Linux Block I/O: Present and Future", 2004) and the modes of Linux 2.6.16, on models of SCSI disks.
//!
//! No figures were published. The rules were fixed before the model was run.

mod claims;
mod load;
mod show;

use super::cells::run_all;
use super::seeds::other_seeds;
use super::{Experiment, Hooks, Options, Report, ReproError};
use load::{Cell, Found};
pub(super) use load::{Order, Place};
use std::sync::atomic::AtomicBool;

/// The row of the table of experiments.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "ordered",
    summary: "barriers by draining the queue and as ordered tags, on SCSI disks (Axboe 2004, Linux 2.6.16)",
    elevators: super::no_elevators,
    run,
};

/// Writes of each simulation.
const WRITES: u64 = 16_384;
/// Fewest writes with a meaningful mean.
const FEWEST: u64 = 512;

/// The outcome of each cell.
struct Results(Vec<(Cell, Found)>);

impl Results {
    fn of(&self, cell: &Cell) -> Option<&Found> {
        self.0.iter().find(|(known, _)| known == cell).map(|(_, found)| found)
    }
}

/// Writes a second to the first disk without its write cache, each eighth a barrier.
pub(super) fn barrier_rate(
    place: Place,
    order: Order,
    scale: u64,
    seed: u64,
    cancel: &AtomicBool,
) -> Result<f64, ReproError> {
    let cell = Cell { disk: load::DISKS[0], cache: false, place, every: 8, order };
    let writes = (WRITES / scale.max(1)).max(FEWEST);
    Ok(load::run(&cell, (writes, seed), cancel)?.rate)
}

fn run(options: &Options, hooks: Hooks<'_>) -> Result<Report, ReproError> {
    let writes = (WRITES / options.scale.max(1)).max(FEWEST);
    let seeds: Vec<u64> = std::iter::once(options.seed).chain(other_seeds(options.seed)).collect();
    let cells: Vec<(Cell, u64)> =
        seeds.iter().flat_map(|&seed| load::cells().into_iter().map(move |cell| (cell, seed))).collect();
    let found =
        run_all(options, hooks, &cells, |(cell, seed), cancel| load::run(cell, (writes, *seed), cancel))?;
    let mut found = cells.into_iter().map(|(cell, _)| cell).zip(found);
    let mut of_a_seed = || Results(found.by_ref().take(load::cells().len()).collect());
    let results = of_a_seed();
    let others: Vec<Results> = other_seeds(options.seed).map(|_| of_a_seed()).collect();
    Ok(Report {
        name: EXPERIMENT.name,
        summary: EXPERIMENT.summary,
        method: show::method(writes),
        tables: show::tables(&results),
        charts: Vec::new(),
        claims: claims::all(&results, &others),
        scale: options.scale,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(threads: usize) -> Report {
        let never = AtomicBool::new(false);
        run(
            &Options { scale: 64, threads, ..Options::default() },
            Hooks { cancel: &never, progress: &mut |_| () },
        )
        .unwrap()
    }

    #[test]
    fn every_claim_has_its_figure_and_what_fails_has_a_reason_whatever_the_threads() {
        let (one, two) = (report(1), report(2));
        assert_eq!(one.to_json().to_string(), two.to_json().to_string());
        for claim in &one.claims {
            assert!(claim.ours.is_some_and(|ratio| ratio.is_finite() && ratio > 0.0), "{}", claim.id);
            assert_eq!(claim.holds() != Some(true), claim.reason.is_some(), "{claim:?}");
        }
    }

    #[test]
    fn barriers_are_sent_as_they_should_be() {
        let never = AtomicBool::new(false);
        for cell in load::cells().into_iter().filter(|cell| cell.disk == load::DISKS[0]) {
            let found = load::run(&cell, (FEWEST, 1), &never).unwrap();
            let barriers = if cell.order == Order::None { 0 } else { FEWEST / cell.every };
            let tagged = if cell.order == Order::Tag { barriers } else { 0 };
            assert_eq!((found.barriers, found.tagged, found.redone), (barriers, tagged, 0), "{cell:?}");
        }
    }
}
