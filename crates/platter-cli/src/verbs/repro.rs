//! `platter repro`: published experiments, reproduced on models.

use crate::cli::progress::Progress;
use crate::cli::{CliError, Context};
use clap::Args;
use platter_repro::{Experiment, Hooks, MAX_SCALE, Options, Report, ReproError, TABLE};
use std::path::{Path, PathBuf};

/// Default divisor of published sizes.
const SCALE: u64 = 4;

/// Arguments of `platter repro`.
#[derive(Args, Debug)]
#[command(after_help = after_help())]
pub(crate) struct Repro {
    /// The experiment
    #[arg(value_name = "NAME", value_parser = parse_name)]
    name: &'static str,
    /// Use the published sizes and times
    #[arg(long, conflicts_with = "scale")]
    full: bool,
    /// Divide the published sizes and times by this
    #[arg(long, value_name = "N", default_value_t = SCALE, value_parser = clap::value_parser!(u64).range(1..=MAX_SCALE))]
    scale: u64,
    /// Concurrent simulations; results do not depend on their number [default: one for each processor]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Seed of the models; figures near a bound are computed with the seeds that follow it too
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Also write the report to this file, as HTML
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

fn parse_name(name: &str) -> Result<&'static str, String> {
    let known = || TABLE.iter().map(|row| row.name).collect::<Vec<_>>().join(", ");
    let row = platter_repro::by_name(name);
    row.map(|row| row.name).ok_or_else(|| format!("unknown experiment; expected one of: {}", known()))
}

/// The experiments, from their table.
fn after_help() -> String {
    let mut help = String::from(
        "Experiments; docs/schedulers.md, docs/chunked.md, docs/repro-readahead.md and docs/ordered-tags.md explain the\n\
         claims:\n",
    );
    for row in TABLE {
        help += &format!("  {:12} {}\n", row.name, row.summary);
    }
    help + "\nExamples:\n  platter repro schedulers\n  platter repro schedulers --json --scale 64\n  \
            platter repro schedulers --full --report schedulers.html\n  \
            platter repro staelin2002 --report staelin2002.html\n  \
            platter repro sysbench2004\n  platter repro readahead --json\n  platter repro ordered\n\n\
            A claim that does not hold in the model is reported; it does not change the exit status."
}

impl Repro {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        // The parser has checked the name.
        let Some(experiment) = platter_repro::by_name(self.name) else { return Ok(()) };
        // Fail now rather than after the run if the page cannot be written.
        if let Some(path) = &self.report {
            let open = std::fs::OpenOptions::new().append(true).create(true).open(path);
            open.map_err(|error| cannot_write(path, &error))?;
        }
        let report = self.reproduce(context, experiment)?;
        if let Some(path) = &self.report {
            std::fs::write(path, report.to_html()).map_err(|error| cannot_write(path, &error))?;
        }
        match context.json {
            true => context.print_json(&report.to_json()),
            false => context.print(&report.to_text(context.terminal)),
        }
    }

    fn reproduce(&self, context: &Context, experiment: &Experiment) -> Result<Report, CliError> {
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        let options = Options {
            scale: if self.full { 1 } else { self.scale },
            threads: self.threads.unwrap_or_else(processors),
            seed: self.seed,
        };
        let mut progress = Progress::new(context.progress);
        let mut show = |state: platter_repro::Progress| {
            if progress.is_due() {
                progress.show(&format!("{} of {} simulations", state.done, state.total));
            }
        };
        let hooks = Hooks { cancel: context.interrupted, progress: &mut show };
        (experiment.run)(&options, hooks).map_err(|error| match error {
            ReproError::Interrupted => context.interruption(error.to_string()),
            error => CliError::failed(error.to_string()),
        })
    }
}

fn cannot_write(path: &Path, error: &std::io::Error) -> CliError {
    CliError::failed(format!("cannot write the report {}: {error}; give another path", path.display()))
}
