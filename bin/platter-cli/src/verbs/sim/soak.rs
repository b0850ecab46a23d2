//! `platter sim soak`: tests random devices under random faults until a check fails.

use crate::cli::progress::Progress;
use crate::cli::{CliError, Context};
use clap::Args;
use platter::spec::parse_time;
use platter_disk::drivers::FileDriver;
use platter_kit::soak::bugs;
use platter_kit::soak::real::{self, RealOptions, RealReport};
use platter_kit::soak::{self, Bug, Feature, FeatureError, Features};
use serde_json::{Value, json};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Arguments of `platter sim soak`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  platter sim soak --runs 10000
  platter sim soak --time 600s --seed 1000000
  platter sim soak --bug list
  platter sim soak --bug no-fua
  platter sim soak --real /var/tmp --time 600s

For a run that finds something, its seed and the command that repeats it are printed, and the exit
status is 1. The result does not depend on --threads. docs/simulation.md lists the checks.

With --real the devices are real: threads use files in a directory, or a block device, which is
OVERWRITTEN, through drivers into which a script injects failures. Its seed alone does not repeat
such a round.

JSON: an object with `seed`, `runs`, `bug`, `without`, `interrupted`, `found` (null, or an object with
`seed`, `kind`, `times`, `what`, `replay` and `plan`), `findings` (one such object for each kind),
`cover` (an object of counts) and `coverage` (`possible`, `met`, `empty`, `impossible`); with --real
`rounds`, `ios` and other counts, `skipped` (a list) and `found` (null or text). Of `--bug list` a list
of objects with `name`, `summary` and `runs`; of `--without list` a list of objects with `name` and
`summary`.")]
pub(crate) struct Soak {
    /// Seed of the first run; each following run has the next seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Number of runs; the first finding ends the soak [default: 1000, with --time no limit]
    #[arg(long, value_name = "N")]
    runs: Option<u64>,
    /// Continue after a finding, and count findings by kind
    #[arg(long)]
    all: bool,
    /// Show the plan of the run that found something, and do not look for a smaller one
    #[arg(long)]
    no_shrink: bool,
    /// Threads [default: one for each processor]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Start no run after this time
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    time: Option<Duration>,
    /// Leave these features out of all runs, separated by commas; `list` shows all
    #[arg(long, value_name = "FEATURES", value_parser = parse_features)]
    without: Option<Leave>,
    /// Enable this built-in bug, to check that the soak finds it; `list` shows all
    #[arg(long, value_name = "NAME", value_parser = parse_bug)]
    bug: Option<Choice>,
    /// Soak real drivers, on files in this directory or on this block device, which is overwritten
    #[arg(long, value_name = "PATH", conflicts_with_all = ["bug", "all", "no_shrink"])]
    real: Option<PathBuf>,
    /// With --real: only this driver; may be repeated [default: all]
    #[arg(long, value_name = "NAME", value_parser = parse_driver, requires = "real")]
    driver: Vec<FileDriver>,
}

fn parse_driver(name: &str) -> Result<FileDriver, String> {
    let known = FileDriver::ALL.iter().find(|driver| driver.name() == name);
    known.copied().ok_or_else(|| "unknown driver; expected one of: uring, aio, threads".to_owned())
}

#[derive(Clone, Copy, Debug)]
enum Choice {
    List,
    One(&'static Bug),
}

#[derive(Clone, Copy, Debug)]
enum Leave {
    List,
    Out(Features),
}

fn parse_features(text: &str) -> Result<Leave, String> {
    match text {
        "list" => Ok(Leave::List),
        text => text.parse().map(Leave::Out).map_err(|error: FeatureError| error.to_string()),
    }
}

fn parse_bug(name: &str) -> Result<Choice, String> {
    if name == "list" {
        return Ok(Choice::List);
    }
    let known = || bugs::TABLE.iter().map(|bug| bug.name).collect::<Vec<_>>().join(", ");
    match bugs::by_name(name) {
        None => Err(format!("unknown bug; expected one of: {}", known())),
        Some(bug) => Ok(Choice::One(bug)),
    }
}

impl Soak {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let bug = match self.bug {
            Some(Choice::List) => return list(context),
            Some(Choice::One(bug)) => Some(bug),
            None => None,
        };
        let without = match self.without {
            Some(Leave::List) => return list_features(context),
            Some(Leave::Out(features)) => features,
            None => Features::default(),
        };
        if let Some(place) = &self.real {
            return self.run_real(context, place, without);
        }
        let runs = self.runs.unwrap_or(if self.time.is_some() { u64::MAX } else { 1000 });
        let threads = self.threads.or_else(|| std::thread::available_parallelism().ok());
        let threads = threads.map_or(1, NonZeroUsize::get);
        let options = soak::Options {
            seed: self.seed,
            runs,
            threads,
            bug,
            time: self.time,
            without,
            all: self.all,
            shrink: !self.no_shrink,
        };
        let mut progress = Progress::new(context.progress);
        let mut show = |done: u64| {
            if progress.is_due() {
                let of = if runs == u64::MAX { String::new() } else { format!(" of {runs}") };
                progress.show(&format!("{done}{of} runs"));
            }
        };
        let report = soak::run(&options, context.stop_flag(), &mut show);
        progress.clear();
        context.show(&soak::json(&report), &soak::text(&report))?;
        match report.found.first() {
            Some(found) => Err(CliError::failed(format!("seed {}: {}", found.seed, found.what))),
            None if context.is_interrupted() => {
                Err(context.interruption("interrupted: not all runs were done"))
            }
            None => Ok(()),
        }
    }
}

/// Threads and I/Os of each in a round on real drivers.
const REAL_THREADS: usize = 4;
const REAL_IOS: u64 = 100;

impl Soak {
    fn run_real(&self, context: &Context, place: &Path, without: Features) -> Result<(), CliError> {
        let drivers = match self.driver.is_empty() {
            true => FileDriver::ALL.to_vec(),
            false => self.driver.clone(),
        };
        let options = RealOptions {
            place: place.to_owned(),
            drivers,
            seed: self.seed,
            rounds: self.runs.unwrap_or(if self.time.is_some() { u64::MAX } else { 20 }),
            time: self.time,
            threads: self.threads.map_or(REAL_THREADS, NonZeroUsize::get),
            ios: REAL_IOS,
            without,
        };
        let mut progress = Progress::new(context.progress);
        let mut show = |done: u64| {
            if progress.is_due() {
                progress.show(&format!("{done} rounds"));
            }
        };
        let report = real::run(&options, context.stop_flag(), &mut show);
        progress.clear();
        let report = report.map_err(CliError::failed)?;
        context.show(&real_json(&report), &real_text(&report))?;
        match report.found {
            Some(found) => Err(CliError::failed(found)),
            None if context.is_interrupted() => {
                Err(context.interruption("interrupted: not all rounds were done"))
            }
            None => Ok(()),
        }
    }
}

fn real_text(report: &RealReport) -> String {
    let row = |(name, count): &(&str, u64)| format!("  {name:<28}{count:>12}\n");
    let mut out: String = report.rows().iter().map(row).collect();
    report.skipped.iter().for_each(|why| out.push_str(&format!("skipped {why}\n")));
    match &report.found {
        Some(found) => out.push_str(&format!("FOUND, {found}\n")),
        None => out.push_str("nothing found\n"),
    }
    out
}

fn real_json(report: &RealReport) -> Value {
    let mut out: serde_json::Map<String, Value> =
        report.rows().iter().map(|(name, count)| (name.replace(' ', "_"), json!(count))).collect();
    out.insert("skipped".to_owned(), json!(report.skipped));
    out.insert("interrupted".to_owned(), json!(report.interrupted));
    out.insert("found".to_owned(), json!(report.found));
    Value::Object(out)
}

fn list_features(context: &Context) -> Result<(), CliError> {
    if context.json {
        let row = |feature: &Feature| json!({ "name": feature.name(), "summary": feature.summary() });
        return context.print_json(&Feature::ALL.iter().map(row).collect::<Value>());
    }
    let line = |feature: &Feature| format!("{}: {}\n", context.heading(feature.name()), feature.summary());
    context.print(&Feature::ALL.iter().map(line).collect::<String>())
}

fn list(context: &Context) -> Result<(), CliError> {
    if context.json {
        let row = |bug: &Bug| json!({ "name": bug.name, "summary": bug.summary, "runs": bug.runs });
        return context.print_json(&bugs::TABLE.iter().map(row).collect::<Value>());
    }
    let line = |bug: &Bug| {
        let name = context.heading(bug.name);
        format!("{name}: {} (found within {} runs from seed 1)\n", bug.summary, bug.runs)
    };
    context.print(&bugs::TABLE.iter().map(line).collect::<String>())
}
