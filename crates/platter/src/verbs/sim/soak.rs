//! `platter sim soak`: random devices and random misfortune until something is not as it must be.

use crate::cli::progress::Progress;
use crate::cli::{CliError, Context};
use clap::Args;
use platter::spec::parse_time;
use platter_bench::soak::bugs::{self, Reach};
use platter_bench::soak::{self, Bug, Feature, FeatureError, Features};
use serde_json::{Value, json};
use std::num::NonZeroUsize;
use std::time::Duration;

/// Arguments of `platter sim soak`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  platter sim soak --runs 10000
  platter sim soak --time 10m --seed 1000000
  platter sim soak --bug list
  platter sim soak --bug no-fua

A run that finds something is named with its seed and the command that repeats it, and the exit
status is 1. The result does not depend on --threads. docs/simulation.md says what is checked.

JSON: an object with `seed`, `runs`, `bug`, `without`, `interrupted`, `found` (a list of objects with
`seed`, `kind`, `times`, `what`, `replay` and `plan`) and `cover`, an object of counts; of `--bug list`
a list of objects with `name`,
`summary`, `runs` (null where the soak does not find it) and `available`.")]
pub(crate) struct Soak {
    /// Seed of the first run; each next one has the next seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Runs, unless one of them finds something [default: 1000, with --time no limit]
    #[arg(long, value_name = "N")]
    runs: Option<u64>,
    /// Go on after a finding, and count findings by their kind
    #[arg(long)]
    all: bool,
    /// Threads [default: one for each processor]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Start no run after this time
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    time: Option<Duration>,
    /// Leave these features out of all runs, separated by commas; `list` shows all
    #[arg(long, value_name = "FEATURES", value_parser = parse_features)]
    without: Option<Leave>,
    /// Build this bug in, or put this old defect back, to see it found; `list` shows all
    #[arg(long, value_name = "NAME", value_parser = parse_bug)]
    bug: Option<Choice>,
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
    let known = || bugs::all().map(|bug| bug.name).collect::<Vec<_>>().join(", ");
    match bugs::by_name(name) {
        None => Err(format!("there is no such bug; there are {}", known())),
        Some(bug) if !bug.is_available() => Err(format!(
            "`{name}` is an old defect, which this build cannot put back; build the command with \
             `cargo build --features defects`"
        )),
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
        let runs = self.runs.unwrap_or(if self.time.is_some() { u64::MAX } else { 1000 });
        let threads = self.threads.or_else(|| std::thread::available_parallelism().ok());
        let threads = threads.map_or(1, NonZeroUsize::get);
        let options = soak::Options { seed: self.seed, runs, threads, bug, time: self.time, without, all: self.all };
        let mut progress = Progress::new(context.progress);
        let mut show = |done: u64| {
            if progress.is_due() {
                let of = if runs == u64::MAX { String::new() } else { format!(" of {runs}") };
                progress.show(&format!("{done}{of} runs"));
            }
        };
        let report = soak::run(&options, context.interrupted, &mut show);
        progress.clear();
        match context.json {
            true => context.print_json(&soak::json(&report))?,
            false => context.print(&soak::text(&report))?,
        }
        match report.found.first() {
            Some(found) => Err(CliError::failed(format!("seed {}: {}", found.seed, found.what))),
            None if context.is_interrupted() => {
                Err(context.interruption("interrupted: not all runs were done"))
            }
            None => Ok(()),
        }
    }
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
        let row = |bug: &Bug| {
            let runs = if let Reach::Within(runs) = bug.reach { Some(runs) } else { None };
            let (name, summary) = (bug.name, bug.summary);
            json!({ "name": name, "summary": summary, "runs": runs, "available": bug.is_available() })
        };
        return context.print_json(&bugs::all().map(row).collect::<Value>());
    }
    let line = |bug: &Bug| {
        let reach = match bug.reach {
            Reach::Within(runs) => format!("found within {runs} runs from seed 1"),
            Reach::Targeted { test, .. } => format!("not found by the soak, but by {test}"),
            Reach::Unknown => "not tried".to_owned(),
        };
        let missing = if bug.is_available() { "" } else { "; needs a build with --features defects" };
        format!("{}: {} ({reach}{missing})\n", context.heading(bug.name), bug.summary)
    };
    context.print(&bugs::all().map(line).collect::<String>())
}
