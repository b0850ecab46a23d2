//! Runs a load of an engine with and without dropped syncs, and says what the kit found.

use platter_kit::files::Files;
use platter_kit::{DroppedFlush, Failure, Flushes, Kit, Outcome, Summary};
use std::time::Instant;

/// What an engine is made to do, and how its contents are checked.
pub trait Load {
    /// What it has promised.
    type Promises: Default;

    /// A line for reports.
    fn title(&self) -> String;

    /// The disks that it needs.
    fn kit(&self, seed: u64) -> Kit<Files>;

    /// Creates a store and commits transactions.
    ///
    /// # Errors
    /// Those of the engine.
    fn run(&self, files: &Files, promises: &mut Self::Promises) -> Outcome;

    /// Opens the store, has the engine check it, and compares its contents.
    ///
    /// # Errors
    /// It does not open, is not sound, or its contents are not those of an allowed transaction.
    fn check(&self, files: &Files, promises: &Self::Promises) -> Outcome;
}

/// Cuts the power of a load with a kit.
///
/// # Errors
/// What the kit finds.
pub fn cut<L: Load>(load: &L, kit: &Kit<Files>) -> Result<Summary, Failure> {
    kit.run(|files, promises| load.run(files, promises), |files, promises| load.check(files, promises))
}

/// Drops each sync of a load in turn.
///
/// # Errors
/// The engine or the check fails without a cut.
pub fn drop_each<L: Load>(load: &L, kit: &Kit<Files>) -> Result<Vec<DroppedFlush>, Failure> {
    let run = |files: &Files, promises: &mut L::Promises| load.run(files, promises);
    kit.drop_each_flush(run, |files, promises| load.check(files, promises))
}

/// Prints what the kit finds when all syncs are dropped, when each is dropped in turn, and when none is: this one
/// for `runs` seeds, and losing [each write](Kit::each_write). Returns whether the syncs were found and nothing else was.
pub fn print<L: Load>(seed: u64, runs: u64, load: impl Fn(u64) -> L) -> bool {
    let first = load(seed);
    println!("{}", first.title());
    let kit = first.kit(seed);
    let all = cut(&first, &kit.clone().flushes(Flushes::DropAll));
    match &all {
        Ok(_) => println!("  without any sync: nothing found, which is wrong"),
        Err(failure) => println!("  without any sync: {}", indented(failure)),
    }
    let each = print_each(&first, &kit);
    let honest = print_honest(seed, runs, &load);
    all.is_err() && each && honest
}

fn print_each<L: Load>(load: &L, kit: &Kit<Files>) -> bool {
    let each = match drop_each(load, kit) {
        Ok(each) => each,
        Err(failure) => {
            println!("  {}", indented(&failure));
            return false;
        }
    };
    let found = each.iter().filter(|flush| flush.found.is_some()).count();
    let idle = each.iter().filter(|flush| flush.writes == 0).count();
    let cuts: u64 = each.iter().map(|flush| flush.cuts).sum();
    println!(
        "  without one of {} syncs: {found} found with {cuts} power cuts; {idle} have nothing to write",
        each.len()
    );
    for flush in each.iter().filter(|flush| flush.found.is_none() && flush.writes > 0) {
        let DroppedFlush { disk, nth, io, writes, .. } = flush;
        println!("    not missed: sync {nth} of disk {disk}, I/O {io}, after {writes} writes");
    }
    found > 0
}

fn print_honest<L: Load>(seed: u64, runs: u64, load: &impl Fn(u64) -> L) -> bool {
    let begin = Instant::now();
    let mut sum = Summary::default();
    for seed in seed..seed + runs {
        let load = load(seed);
        match cut(&load, &load.kit(seed).each_write()) {
            Ok(Summary { ios, cuts, recoveries, differing, .. }) => {
                (sum.ios, sum.cuts) = (sum.ios + ios, sum.cuts + cuts);
                sum.recoveries += recoveries;
                sum.differing += differing;
            }
            Err(failure) => {
                println!("  with all syncs, load of seed {seed}: {}", indented(&failure));
                return false;
            }
        }
    }
    println!(
        "  with all syncs: {} I/Os in {runs} runs, {} power cuts, {} of them again during recovery: nothing found \
         ({:.0} s)",
        sum.ios,
        sum.cuts,
        sum.recoveries,
        begin.elapsed().as_secs_f64()
    );
    if sum.differing > 0 {
        println!("  {} trials had other I/Os than the first run", sum.differing);
    }
    sum.differing == 0
}

fn indented(failure: &Failure) -> String {
    failure.to_string().replace('\n', "\n    ")
}

/// The arguments of the examples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The seed of the first run.
    pub seed: u64,
    /// Runs with all syncs, each with the next seed.
    pub runs: u64,
    /// Transactions of each run.
    pub transactions: u64,
    /// Only loads whose title contains this, in any case; empty: all.
    pub only: String,
}

impl Options {
    /// Those that an example has if nothing is said.
    pub fn usual(runs: u64, transactions: u64) -> Options {
        Options { seed: 1, runs, transactions, only: String::new() }
    }

    /// Whether a load is among those to run.
    pub fn selects<L: Load>(&self, load: &L) -> bool {
        load.title().to_lowercase().contains(&self.only.to_lowercase())
    }

    /// Reads `seed=1 runs=5 transactions=20 only=wal`, in any order; what is missing stays as it is.
    ///
    /// # Errors
    /// Another argument, as a text that names it.
    pub fn read(mut self, args: impl Iterator<Item = String>) -> Result<Options, String> {
        for arg in args {
            let (name, value) = arg.split_once('=').unwrap_or((&arg, ""));
            let number = value
                .parse()
                .map_err(|_| format!("`{arg}`: expected seed=N, runs=N, transactions=N or only=TEXT"));
            match name {
                "seed" => self.seed = number?,
                "runs" => self.runs = number?,
                "transactions" => self.transactions = number?,
                "only" => self.only = value.to_owned(),
                _ => return Err(format!("`{arg}`: expected seed=N, runs=N, transactions=N or only=TEXT")),
            }
        }
        Ok(self)
    }
}
