//! "Linux Block IO - present and future", Axboe, Tokyo 2004: plugging performance. Two kernel trees compared, in seconds, with two
//! elevators, with the plug and without.
//!
//! A figure holds within 1 %, on either side, as far as the published runs of a pair differ. A wider bound would let all hold: they are
//! within 3 % of each other.

mod claims;

use super::cells::run_all;
use super::disk::{DiskPlan, SCSI, open_changed};
use super::seeds::other_seeds;
use super::{Experiment, Hooks, Options, Report, ReproError};
use platter_bench::processes::{
    Placement, Process, ReadPlan, RunLimits, compare_trees, run as run_processes,
};
use platter_bench::report::units::fixed;
use platter_bench::report::{Column, Table};
use platter_block::time::Span;
use std::sync::atomic::AtomicBool;

/// The row of the table of experiments.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "plug2004",
    summary: "plugging performance: two kernel trees compared with the plug and without, eight runs",
    elevators: || ELEVATORS.to_vec(),
    run,
};

/// Files of each tree, and in each of its directories. Linux 2.6.5 has 15,000 and 2.6.8 600 more; those that only one has are not
/// read by diff.
const FILES: u64 = 15_000;
const PER_DIRECTORY: u64 = 20;
const WINDOW: u64 = 128 << 10;
/// Processor time of diff for each 4 KiB of a file. Set by the first run with deadline and the plug.
const THINK: Span = Span::from_micros(1062);

/// A run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    elevator: &'static str,
    plug: bool,
    seed: u64,
}

/// Seconds of each.
struct Results(Vec<(Cell, f64)>);

impl Results {
    /// Of each seed, the first one's first.
    fn of(&self, elevator: &str, plug: bool) -> Vec<f64> {
        let matches = |cell: &Cell| cell.elevator == elevator && cell.plug == plug;
        self.0.iter().filter(|(cell, _)| matches(cell)).map(|(_, seconds)| *seconds).collect()
    }
}

const ELEVATORS: [&str; 2] = ["deadline", "anticipatory"];

fn cells(seed: u64) -> Vec<Cell> {
    let seeds = || std::iter::once(seed).chain(other_seeds(seed));
    let of = |(elevator, plug): (&'static str, bool)| seeds().map(move |seed| Cell { elevator, plug, seed });
    ELEVATORS.into_iter().flat_map(|elevator| [(elevator, true), (elevator, false)]).flat_map(of).collect()
}

/// Files that are read. Figures near a bound need all of them, and they take little time.
fn files(scale: u64) -> u64 {
    FILES * 4 / scale.max(4)
}

/// Seconds at the published size.
fn measure(cell: &Cell, options: &Options, cancel: &AtomicBool) -> Result<f64, ReproError> {
    let Cell { elevator, plug, seed } = *cell;
    let device = open_changed(DiskPlan { plug, ..SCSI }, ("2.6.5", elevator), seed, &options.elevators)?;
    let mut place = Placement::new(device.size());
    let files = files(options.scale);
    let (first, second) = (place.tree(files, PER_DIRECTORY, seed)?, place.tree(files, PER_DIRECTORY, seed)?);
    let plan = ReadPlan { think: THINK, ..ReadPlan::buffered(WINDOW) };
    let process = Process::new("diff", 1, compare_trees(first, second, plan));
    let limits = RunLimits { time: None, cancel, sync_writes: false, flusher_starts: false };
    let outcome = run_processes(&device, vec![process], &limits)?;
    if outcome.cancelled {
        return Err(ReproError::Interrupted);
    }
    Ok(outcome.took.0 as f64 / 1e9 * FILES as f64 / files as f64)
}

fn run(options: &Options, hooks: Hooks<'_>) -> Result<Report, ReproError> {
    let cells = cells(options.seed);
    let seconds = run_all(options, hooks, &cells, |cell, cancel| measure(cell, options, cancel))?;
    let results = Results(cells.into_iter().zip(seconds).collect());
    Ok(Report {
        name: EXPERIMENT.name,
        summary: EXPERIMENT.summary,
        method: method(options.scale),
        tables: vec![("Seconds of each seed".to_owned(), table(&results))],
        charts: Vec::new(),
        claims: claims::all(&results),
        scale: options.scale,
    })
}

fn method(scale: u64) -> Vec<String> {
    let size = match scale {
        1 => String::new(),
        scale => {
            format!(" One file in {scale} is read, and the times are multiplied by {scale} (--full for all).")
        }
    };
    vec![format!(
        "diff reads two trees of {FILES} files, pair by pair, from man3367mp of the catalogue with 16 tags, with the elevators of \
         Linux 2.6.5.{size} Trees and their places on the disk are random. Two runs of a pair read the same trees, so the model gives \
         them one figure. The first run with deadline and the plug sets the processor time of diff, {} us for each 4 KiB; the other seven are predicted.",
        fixed(THINK.0 as f64 / 1e3, 0)
    )]
}

fn table(results: &Results) -> Table {
    let names = [Column::text("elevator"), Column::text("plug")];
    let seeds = results.of(ELEVATORS[0], true).len();
    let runs = (1..=seeds).map(|run| Column::number(format!("run {run}"), "s"));
    let mut table = Table::new(names.into_iter().chain(runs).collect::<Vec<_>>());
    for (elevator, plug) in ELEVATORS.into_iter().flat_map(|elevator| [(elevator, true), (elevator, false)]) {
        let seconds = results.of(elevator, plug).into_iter().map(|seconds| fixed(seconds, 1));
        let names = [elevator.to_owned(), if plug { "on" } else { "off" }.to_owned()];
        table.row(names.into_iter().chain(seconds).collect::<Vec<_>>());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn the_input_comes_out() {
        let never = AtomicBool::new(false);
        let options = Options { scale: 4, threads: 2, ..Options::default() };
        let report = run(&options, Hooks { cancel: &never, progress: &mut |_| () }).unwrap();
        let inputs: Vec<_> = report.claims.iter().filter(|claim| claim.kind == Kind::Input).collect();
        assert_eq!(inputs.len(), 1);
        assert!((0.998..1.002).contains(&inputs[0].ratio().unwrap()), "{:?}", inputs[0]);
    }
}
