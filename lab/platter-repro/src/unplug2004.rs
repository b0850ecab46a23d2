//! "Linux Block IO - present and future", Axboe, Tokyo 2004: plugging scalability. Many disks and processors, and one list of plugged
//! queues under one lock, or a plug for each device.
//!
//! A figure holds within 15 %, on either side. That was fixed before the model was run.

mod claims;
mod machines;
mod real;
mod system;

use super::cells::run_all;
use super::seeds::other_seeds;
use super::{Experiment, Hooks, Options, Report, ReproError};
use machines::{MACHINES, SIZE};
use platter_bench::report::units::fixed;
use platter_bench::report::{Column, Table};
use real::Counts;
use std::sync::atomic::AtomicBool;
use system::{Cell, Found, Plugs, STAGES};

pub(super) use machines::parameters;

/// The row of the table of experiments.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "unplug2004",
    summary: "plugging scalability: 32 processors with 1,000 disks and 64 with 112, one list of plugged queues or none",
    elevators: super::no_elevators,
    run,
};

/// I/Os that are measured, unless scaled.
const IOS: u64 = 400_000;
const FEWEST: u64 = 10_000;
/// Reads of each null device.
const READS: u64 = 16;

/// What is run.
#[derive(Clone, Copy)]
enum What {
    Model(Cell),
    Here(Plugs),
}

/// Its outcome.
enum Outcome {
    Model(Found),
    Here(Counts),
}

/// All outcomes, those of the first seed first.
struct Results(Vec<(What, Outcome)>);

impl Results {
    /// Of each seed: a machine.
    fn of(&self, machine: &str, plugs: Plugs) -> Vec<&Found> {
        let found = |(what, outcome): &'_ (What, Outcome)| match what {
            What::Model(cell) => {
                cell.machine.name == machine && cell.plugs == plugs && matches!(outcome, Outcome::Model(_))
            }
            What::Here(_) => false,
        };
        let all = self.0.iter().filter(|row| found(row));
        all.filter_map(|(_, outcome)| match outcome {
            Outcome::Model(found) => Some(found),
            Outcome::Here(_) => None,
        })
        .collect()
    }

    /// On this machine.
    fn here(&self, plugs: Plugs) -> Option<Counts> {
        self.0.iter().find_map(|(what, outcome)| match (what, outcome) {
            (What::Here(of), Outcome::Here(counts)) if *of == plugs => Some(*counts),
            _ => None,
        })
    }
}

const BOTH: [Plugs; 2] = [Plugs::Listed, Plugs::PerDevice];

fn all(options: &Options) -> Vec<What> {
    let ios = (IOS / options.scale).max(FEWEST);
    let mut all = Vec::new();
    for seed in std::iter::once(options.seed).chain(other_seeds(options.seed)) {
        for machine in MACHINES {
            all.extend(BOTH.map(|plugs| What::Model(Cell { machine, plugs, ios, seed })));
        }
    }
    if options.here {
        all.extend(BOTH.map(What::Here));
    }
    all
}

fn carry_out(what: &What, cancel: &AtomicBool) -> Result<Outcome, ReproError> {
    match what {
        What::Model(cell) => Ok(Outcome::Model(system::run(cell, cancel)?)),
        What::Here(plugs) => {
            let threads = std::thread::available_parallelism().map_or(1, usize::from).min(real::DEVICES);
            Ok(Outcome::Here(real::count(*plugs, threads, READS, cancel)?))
        }
    }
}

fn run(options: &Options, hooks: Hooks<'_>) -> Result<Report, ReproError> {
    let all = all(options);
    let outcomes = run_all(options, hooks, &all, carry_out)?;
    let results = Results(all.into_iter().zip(outcomes).collect());
    Ok(Report {
        name: EXPERIMENT.name,
        summary: EXPERIMENT.summary,
        method: method(),
        tables: vec![
            ("Where the processors' time goes (percent)".to_owned(), profile(&results)),
            ("The list of plugged queues".to_owned(), list(&results)),
        ],
        charts: Vec::new(),
        claims: claims::all(&results),
        scale: options.scale,
    })
}

fn method() -> Vec<String> {
    vec![
        format!(
            "A thread for each disk reads blocks of {SIZE} KiB directly, one after the other, as in the benchmark of one of the two \
             systems (Barnes, linux-kernel, 10 March 2004). Each disk has a real request queue with the elevator deadline \
             and a plug. With one list a queue is put on it when it is plugged, and a thread that waits takes all queues of \
             the list and starts each, under one lock for the list."
        ),
        "Inputs: the rate with one list sets on the Intel system what it costs to hand a contended lock over, and on the SGI system, \
         whose threads wait for disks, the time of a disk; there the lock costs what lets the rate end at 80,000 \
         (Barnes, linux-kernel, 2 March 2004). Processor time of functions is that of 2.5.17 in dm2002, scaled from 700 MHz to \
         1.3 GHz. Chosen: blocks of 2 KiB (the slide's rates and bandwidths give 2.1 and 2.4 KiB), the clock, disks of 10,000 revolutions for \
         Intel: the mean time of random reads of man3367mp in the catalogue."
            .to_owned(),
        "Here: 1,000 queues of null devices, a thread for each processor of this machine; only counts.".to_owned(),
    ]
}

/// Machine, kind of plug, and the first seed's outcome.
fn rows(results: &Results) -> impl Iterator<Item = (&'static str, Plugs, &Found)> {
    let all = MACHINES.into_iter().flat_map(|machine| BOTH.map(|plugs| (machine.name, plugs)));
    all.filter_map(|(name, plugs)| Some((name, plugs, *results.of(name, plugs).first()?)))
}

fn kind(plugs: Plugs) -> &'static str {
    match plugs {
        Plugs::Listed => "one list",
        Plugs::PerDevice => "per device",
    }
}

fn profile(results: &Results) -> Table {
    let shares = STAGES.iter().chain(&["spin", "idle"]).map(|name| Column::number(*name, ""));
    let names = [Column::text("system"), Column::text("plugs")];
    let mut table = Table::new(names.into_iter().chain(shares).collect::<Vec<_>>());
    for (name, plugs, found) in rows(results) {
        let usage = &found.usage;
        let all = usage.stages.iter().chain([&usage.spin, &usage.idle]);
        let shares = all.map(|part| fixed(usage.percent(*part), 1));
        table.row([name, kind(plugs)].map(str::to_owned).into_iter().chain(shares).collect::<Vec<_>>());
    }
    table
}

fn list(results: &Results) -> Table {
    let mut table = Table::new([
        Column::text("system"),
        Column::text("plugs"),
        Column::number("acquisitions", "per I/O"),
        Column::number("contended", "%"),
        Column::number("wait", "us"),
        Column::number("started for others", "per I/O"),
    ]);
    for (name, plugs, found) in rows(results) {
        let (list, ios) = (&found.list, found.ios as f64);
        table.row([
            name.to_owned(),
            kind(plugs).to_owned(),
            fixed(list.acquisitions as f64 / ios, 2),
            fixed(100.0 * list.contended as f64 / list.acquisitions.max(1) as f64, 1),
            fixed(list.spun.0 as f64 / 1e3 / list.contended.max(1) as f64, 1),
            fixed(found.foreign as f64 / ios, 2),
        ]);
    }
    for plugs in BOTH {
        let Some(counts) = results.here(plugs) else { continue };
        let ios = counts.ios as f64;
        table.row([
            "this machine".to_owned(),
            kind(plugs).to_owned(),
            fixed(counts.acquisitions as f64 / ios, 2),
            fixed(100.0 * counts.contended as f64 / counts.acquisitions.max(1) as f64, 1),
            "-".to_owned(),
            fixed(counts.foreign as f64 / ios, 2),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    /// What is counted on this machine depends on its threads, the model does not.
    #[test]
    fn inputs_come_out_and_threads_change_nothing() {
        let never = AtomicBool::new(false);
        let report = |threads| {
            let options = Options { scale: 64, threads, here: true, ..Options::default() };
            run(&options, Hooks { cancel: &never, progress: &mut |_| () }).unwrap()
        };
        let (one, two) = (report(1), report(2));
        for (claim, other) in one.claims.iter().zip(&two.claims) {
            assert_eq!((claim.ours, claim.interval), (other.ours, other.interval));
            let ratio = claim.ratio().unwrap_or(1.0);
            match claim.kind {
                Kind::Input => assert!((0.98..1.02).contains(&ratio), "{claim:?}"),
                Kind::Mechanism => assert_eq!((claim.ours, claim.here), (Some(0.0), Some(0.0)), "{claim:?}"),
                _ => {}
            }
        }
    }
}
