//! `platter repro`: published experiments, reproduced on models.

use crate::cli::output::Page;
use crate::cli::progress::Progress;
use crate::cli::{CliError, Context, split_list};
use clap::Args;
use platter::registry::{self, OpenError};
use platter_repro::{Elevators, Experiment, Hooks, MAX_SCALE, Options, Report, Reports, ReproError, TABLE};
use std::path::PathBuf;

/// The name that stands for all experiments.
const ALL: &str = "all";

/// Default divisor of published sizes.
const SCALE: u64 = 4;

/// Arguments of `platter repro`.
#[derive(Args, Debug)]
#[command(after_help = after_help())]
pub(crate) struct Repro {
    /// The experiment, or `all` for one report of all of them
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
    /// Give elevators these values of parameters, after those of their kernel: 'deadline(fifo_batch=4), cfq(quantum=8)'
    #[arg(long, value_name = "NAME(PARAM=VALUE…)")]
    elevator: Vec<String>,
    /// Give all elevators their parameters of this kernel: 2.6.5, 2.6.10-ts [default: of the kernel that was measured]
    #[arg(long, value_name = "KERNEL")]
    preset: Option<String>,
    /// Do not measure on this machine (`here`): then the same seed gives the same report everywhere
    #[arg(long)]
    no_here: bool,
    /// Also write the report to this file, as HTML
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

fn parse_name(name: &str) -> Result<&'static str, String> {
    if name == ALL {
        return Ok(ALL);
    }
    let known = || TABLE.iter().map(|row| row.name).chain([ALL]).collect::<Vec<_>>().join(", ");
    let row = platter_repro::by_name(name);
    row.map(|row| row.name).ok_or_else(|| format!("unknown experiment; expected one of: {}", known()))
}

/// The experiments, from their table.
fn after_help() -> String {
    let mut help = String::from(
        "Experiments; docs/schedulers.md, docs/chunked.md, docs/repro-readahead.md, docs/ordered-tags.md and docs/truth.md\n\
         explain the claims:\n",
    );
    for row in TABLE {
        help += &format!("  {:12} {}\n", row.name, row.summary);
    }
    help + "\nExamples:\n  platter repro schedulers\n  platter repro schedulers --json --scale 64\n  \
            platter repro schedulers --full --report schedulers.html\n  \
            platter repro staelin2002 --report staelin2002.html\n  \
            platter repro sysbench2004\n  platter repro readahead --json\n  platter repro ordered\n  \
            platter repro all --report all.html\n  \
            platter repro schedulers --elevator 'anticipatory(antic_expire=0)'\n  \
            platter repro schedulers --preset 2.6.16\n\n\
            With --elevator or --preset the figures are not those of a published kernel, and none counts as a prediction.\n\
            A claim that does not hold in the model is reported; it does not change the exit status."
}

impl Repro {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let page = Page::open(self.report.as_deref(), [])?;
        let Some(experiment) = platter_repro::by_name(self.name) else {
            let reports = self.reproduce_all(context)?;
            context.show(&reports.to_json(), &reports.to_text(context.terminal))?;
            return page.write(|| reports.to_html());
        };
        let report = self.reproduce(context, experiment)?;
        context.show(&report.to_json(), &report.to_text(context.terminal))?;
        page.write(|| report.to_html())
    }

    fn options(&self, context: &Context) -> Result<Options, CliError> {
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        let mut elevators = Elevators::default();
        if let Some(kernel) = &self.preset {
            elevators = elevators.of_kernel(kernel).map_err(|error| failed(context, error))?;
        }
        for list in &self.elevator {
            for text in split_list(list)? {
                let (name, params) = registry::elevator_values(text).map_err(OpenError::Spec)?;
                if params.is_empty() {
                    return Err(CliError::usage(format!(
                        "--elevator {text}: give a value of a parameter, as in 'deadline(fifo_batch=4)'; `platter list elevators` has them"
                    )));
                }
                elevators = elevators.with(name, params);
            }
        }
        Ok(Options {
            scale: if self.full { 1 } else { self.scale },
            threads: self.threads.unwrap_or_else(processors),
            seed: self.seed,
            elevators,
            here: !self.no_here,
        })
    }

    fn reproduce(&self, context: &Context, experiment: &Experiment) -> Result<Report, CliError> {
        let mut progress = Progress::new(context.progress);
        let mut show = |state: platter_repro::Progress| {
            if progress.is_due() {
                progress.show(&format!("{} of {} simulations", state.done, state.total));
            }
        };
        let hooks = Hooks { cancel: context.stop_flag(), progress: &mut show };
        experiment.run(&self.options(context)?, hooks).map_err(|error| failed(context, error))
    }

    fn reproduce_all(&self, context: &Context) -> Result<Reports, CliError> {
        let mut progress = Progress::new(context.progress);
        let mut show = |experiment: &Experiment, state: platter_repro::Progress| {
            if progress.is_due() {
                let number = TABLE.iter().take_while(|row| row.name != experiment.name).count() + 1;
                progress.show(&format!(
                    "{} ({number} of {}): {} of {} simulations",
                    experiment.name,
                    TABLE.len(),
                    state.done,
                    state.total
                ));
            }
        };
        platter_repro::all(&self.options(context)?, context.stop_flag(), &mut show)
            .map_err(|error| failed(context, error))
    }
}

fn failed(context: &Context, error: ReproError) -> CliError {
    match error {
        ReproError::Interrupted => context.interruption(error.to_string()),
        ReproError::NoKernel { .. } | ReproError::NoSuchElevator { .. } | ReproError::Refused { .. } => {
            CliError::usage(error.to_string())
        }
        error => CliError::failed(error.to_string()),
    }
}
