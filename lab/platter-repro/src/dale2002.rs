//! "Re: direct-to-BIO for O_DIRECT": Dale, linux-kernel, 10 July 2002. Eight Fibre Channel disks on one adapter and two
//! processors, read with three kernels in three ways; and the remarks of Morton's that he answers.
//!
//! A figure holds within 15 %, on either side. That, and what the kernels do, was fixed before the model was run.

mod claims;
mod kernels;
mod morton;

use super::cells::run_all;
use super::host::readers::{self, Cell, Found, Load};
use super::host::show;
use super::seeds::other_seeds;
use super::{Experiment, Hooks, Options, Report, ReproError};
use kernels::{MACHINE, READ, RUNS, Run};
use morton::Writes;

pub(super) use kernels::parameters;
use platter_bench::report::units::fixed;
use platter_block::time::Span;
use std::sync::atomic::AtomicBool;

/// The row of the table of experiments.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "dale2002",
    summary: "direct-to-BIO for O_DIRECT: eight Fibre Channel disks on two processors, nine runs",
    elevators: super::no_elevators,
    run,
};

/// Bytes that each run reads of each disk.
const BYTES: u64 = 10 << 30;

/// What is simulated.
#[derive(Clone, Copy)]
enum What {
    /// One of the runs.
    Run(&'static Run, u64),
    /// Reads of 128 KiB from one disk with the kiobuf or with bios, for their processor time.
    Small { bios: bool, seed: u64 },
    /// Writes to Morton's disk.
    Write(Writes),
}

/// Its outcome.
enum Outcome {
    Found(Box<Found>),
    /// MiB/s.
    Rate(f64),
}

/// All outcomes, those of the first seed first.
struct Results(Vec<(What, Outcome)>);

impl Results {
    /// Of each seed: a run.
    fn of(&self, id: &str) -> Vec<&Found> {
        let matches = |what: &What| matches!(what, What::Run(run, _) if run.id == id);
        self.found(matches)
    }

    fn small(&self, bios: bool) -> Vec<&Found> {
        self.found(|what| matches!(what, What::Small { bios: of, .. } if *of == bios))
    }

    fn found(&self, matches: impl Fn(&What) -> bool) -> Vec<&Found> {
        let outcomes = self.0.iter().filter(|(what, _)| matches(what));
        outcomes
            .filter_map(|(_, outcome)| match outcome {
                Outcome::Found(found) => Some(&**found),
                Outcome::Rate(_) => None,
            })
            .collect()
    }

    /// Of each seed: MiB/s of Morton's writes.
    fn written(&self, bytes: u64, wait: u64) -> Vec<f64> {
        let matches =
            |what: &What| matches!(what, What::Write(writes) if writes.bytes == bytes && writes.wait == wait);
        let rate = |(what, outcome): &(What, Outcome)| match outcome {
            Outcome::Rate(rate) if matches(what) => Some(*rate),
            _ => None,
        };
        self.0.iter().filter_map(rate).collect()
    }
}

impl What {
    fn run(&self, scale: u64, cancel: &AtomicBool) -> Result<Outcome, ReproError> {
        let bytes = if scale <= 1 { BYTES } else { BYTES / (16 * scale) };
        let cell = |kernel, seed, load| Cell { machine: MACHINE, kernel, load, seed };
        let cell = match self {
            What::Write(writes) => return Ok(Outcome::Rate(morton::write(writes, scale, cancel)?)),
            What::Run(run, seed) => cell(run.kernel(), *seed, run.load(bytes)),
            What::Small { bios, seed } => {
                let kernel = if *bios { kernels::bios() } else { kernels::kiobufs() };
                let load = Load {
                    bytes: 128 << 10,
                    pieces: 1,
                    calls: 256,
                    processes: 1,
                    cached: None,
                    compute: Span::ZERO,
                    disk: Span::ZERO,
                };
                cell(kernel, *seed, load)
            }
        };
        Ok(Outcome::Found(Box::new(readers::run(&cell, cancel)?)))
    }
}

fn all(options: &Options) -> Vec<What> {
    let mut all = Vec::new();
    for seed in std::iter::once(options.seed).chain(other_seeds(options.seed)) {
        all.extend(RUNS.iter().map(|run| What::Run(run, seed)));
        all.extend([true, false].map(|bios| What::Small { bios, seed }));
        all.extend(morton::all(seed).map(What::Write));
    }
    all
}

fn run(options: &Options, hooks: Hooks<'_>) -> Result<Report, ReproError> {
    let all = all(options);
    let outcomes = run_all(options, hooks, &all, |what, cancel| what.run(options.scale, cancel))?;
    let results = Results(all.into_iter().zip(outcomes).collect());
    let rows = || RUNS.iter().filter_map(|run| Some((run.name(), *results.of(run.id).first()?)));
    Ok(Report {
        name: EXPERIMENT.name,
        summary: EXPERIMENT.summary,
        method: method(options.scale),
        tables: vec![
            ("Where the processors' time goes (percent)".to_owned(), show::profile(rows())),
            ("The lock of all queues".to_owned(), show::lock(rows())),
        ],
        charts: Vec::new(),
        claims: claims::all(&results),
        scale: options.scale,
    })
}

fn method(scale: u64) -> Vec<String> {
    let length = match scale {
        1 => "10 GiB of each disk are read, as published".to_owned(),
        scale => format!("1/{} of the published 10 GiB of each disk is read (--full for all)", 16 * scale),
    };
    vec![
        format!(
            "{length}. Two processors, one adapter, eight disks that stream ahead of it, a process for each. The link is Fibre \
             Channel at 2.125 GBd: 8b/10b, and 60 bytes around each 2,048 of a frame; that leaves 196.9 MiB/s."
        ),
        format!(
            "Inputs: the processor time of functions and the hand-over of a lock are those of dm2002, scaled by the clocks (700/733 MHz); that of a read of 512 \
             bytes through the page cache, {} us, is set by the rate of 2.4 with normal reads. Nothing else is set by \
             these runs.",
            fixed(READ.cost.0 as f64 / 1e3, 2)
        ),
        "2.4.19-pre8aa2 queues and sends under the lock of all queues; its requests have at most 255 sectors. Normal reads and \
         O_DIRECT have buffer heads of 1 KiB, the block size that sd.c gives a disk, and raw reads of 4 KiB (rawvary, in \
         these kernels since 2.4.18-pre7aa2). 2.5.25 queues and sends under the lock of the adapter; normal reads have a bio for each page, \
         O_DIRECT and raw reads of at most 64 KiB (BIO_MAX_SECTORS is 128). Kiobufs end at 512 KiB, \
         after which a call waits (KIO_MAX_ATOMIC_IO); direct-to-BIO has all of a call in flight. The page cache reads \
         128 KiB ahead. That blocks of normal reads in 2.5 are pages is from memory. The lockmeter and the profiler \
         that ran with 2.4, caches and memory are not modelled."
            .to_owned(),
        morton::method(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    fn report(threads: usize) -> Report {
        let never = AtomicBool::new(false);
        let options = Options { scale: 64, threads, ..Options::default() };
        run(&options, Hooks { cancel: &never, progress: &mut |_| () }).unwrap()
    }

    #[test]
    fn the_input_comes_out_and_threads_change_nothing() {
        let (one, two) = (report(1), report(2));
        assert_eq!(one.to_json().to_string(), two.to_json().to_string());
        let inputs: Vec<_> = one.claims.iter().filter(|claim| claim.kind == Kind::Input).collect();
        assert_eq!(inputs.len(), 1);
        assert!((0.98..1.02).contains(&inputs[0].ratio().unwrap()), "{:?}", inputs[0]);
    }

    /// What the kernels are, seen in what they do to a queue: 4 MiB are 4,096, 1,024 or 64 units, and a kiobuf ends at 512 KiB.
    #[test]
    fn the_units_of_each_kernel_are_counted() {
        let never = AtomicBool::new(false);
        for (id, units, calls) in
            [("2.4-direct", 4096, 8), ("2.4-raw", 1024, 8), ("2.5-direct", 64, 8), ("bio-direct", 64, 1)]
        {
            let run = RUNS.iter().find(|run| run.id == id).unwrap();
            let cell = Cell { machine: MACHINE, kernel: run.kernel(), load: run.load(4 << 20), seed: 1 };
            let found = readers::run(&cell, &never).unwrap();
            assert_eq!((found.calls.submit_bh, found.calls.raw_read), (8 * units, 8 * calls), "{id}");
        }
    }
}
