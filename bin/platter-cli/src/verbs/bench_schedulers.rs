//! `platter bench schedulers`: every elevator against mixes of processes.

mod on;

use crate::cli::output::Page;
use crate::cli::progress::Progress;
use crate::cli::{CliError, Context, Exit, Force, split_list};
use clap::Args;
use platter::registry::{self, Access, OpenError};
use platter::spec::parse_time;
use platter_bench::processes::ProcessError;
use platter_bench::schedulers::{self, MIXES, Mix, Options, Report, SchedulerError};
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_elevators::TABLE;
use platter_elevators::presets::{self, Preset};
use platter_sim::World;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The default: the disk of the kernels whose elevators these are.
const DISK: &str = "sim(ide2004)";

/// Arguments of `platter bench schedulers`.
#[derive(Args, Debug)]
#[command(after_help = after_help())]
pub(crate) struct Schedulers {
    /// The device, as a spec without an elevator: /dev/sdb, 'sim(ide2004)', 'raid0(a.img, b.img)'
    #[arg(long, value_name = "SPEC", default_value = DISK)]
    on: String,
    #[command(flatten)]
    force: Force,
    /// Only these elevators, with other parameters if some are given: 'deadline(fifo_batch=4), noop' [default: all]
    #[arg(long, value_name = "NAME", num_args = 1..)]
    elevators: Vec<String>,
    /// The elevators of this kernel, with its parameters: 2.6.5, 2.6.10-ts [default: those of all, with their own defaults]
    #[arg(long, value_name = "KERNEL", value_parser = parse_preset)]
    preset: Option<&'static str>,
    /// Only these mixes; those that write open the device for writing
    /// [default: all, on devices that are not simulated those that do not write]
    #[arg(long, value_name = "NAME", num_args = 1.., value_delimiter = ',', value_parser = parse_mix)]
    mixes: Vec<&'static str>,
    /// Maximum duration of a cell, by the clock of the device [default: 20s, on devices that are not simulated 2s]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    time: Option<Duration>,
    /// Seed of all random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Concurrent cells on a simulated device; results do not depend on their number [default: one for each processor]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Also write the table to this file, as HTML
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

fn parse_preset(kernel: &str) -> Result<&'static str, String> {
    if let Some(preset) = presets::of_kernel(kernel).next() {
        return Ok(preset.kernel);
    }
    let mut known: Vec<&str> = presets::PRESETS.iter().map(|preset| preset.kernel).collect();
    known.dedup();
    Err(format!("unknown kernel; expected one of: {}", known.join(", ")))
}

fn parse_mix(name: &str) -> Result<&'static str, String> {
    let known = || MIXES.iter().map(|mix| mix.name).collect::<Vec<_>>().join(", ");
    let mix = schedulers::by_name(name);
    mix.map(|mix| mix.name).ok_or_else(|| format!("unknown mix; expected one of: {}", known()))
}

/// The mixes, from their table.
fn after_help() -> String {
    let mut help = String::from("Mixes; docs/schedulers.md explains the tables:\n");
    for mix in MIXES {
        let writes = if mix.writes { " (writes)" } else { "" };
        help += &format!("  {:17} {}{writes}\n", mix.name, mix.summary);
    }
    help + "\nExamples:\n  platter bench schedulers --time 2s\n  \
            platter bench schedulers --elevators deadline,noop --mixes readers --time 5s --json\n  \
            platter bench schedulers --preset 2.6.5\n  \
            platter bench schedulers --elevators 'deadline(fifo_batch=1), deadline(fifo_batch=64)'\n  \
            platter bench schedulers --on /dev/sdb --report schedulers.html\n  \
            platter bench schedulers --on 'file(disk.img, create=1G)' --mixes reader-writer\n\n\
            On a simulated device the same seed gives the same table. On other devices the cells run one after the \
            other in real time, and mixes that write refuse a device that holds a file system or is in use."
}

impl Schedulers {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let real = !self.is_simulated()?;
        let options = self.options(real)?;
        let write = options.mixes.iter().any(|mix| mix.writes);
        let access = self.force.access(Access { write, ..Access::default() });
        let open = |world: &Arc<World>, elevator: &str| -> Result<Device, _> {
            let spec = on::with_elevator(&self.on, elevator)?;
            Context::unattended(|| {
                Ok(registry::open_in(world, &registry::parse(&spec).map_err(OpenError::Spec)?, access)?)
            })
        };
        let page = Page::open(self.report.as_deref(), [&self.on])?;
        let mut progress = Progress::new(context.progress);
        let mut show = |state: schedulers::Progress| {
            if progress.is_due() {
                progress.show(&format!("{} of {} cells", state.done, state.total));
            }
        };
        let report =
            schedulers::run(&self.on, &options, &open, context.stop_flag(), &mut show).map_err(failed)?;
        progress.clear();
        self.show(context, &report, &page)?;
        context.unless(report.interrupted, "interrupted: the table is partial")
    }

    fn options(&self, real: bool) -> Result<Options, CliError> {
        let wanted = |mix: &&Mix| match self.mixes.is_empty() {
            true => !(real && mix.writes),
            false => self.mixes.contains(&mix.name),
        };
        let time = self.time.unwrap_or(Duration::from_secs(if real { 2 } else { 20 }));
        let time = u64::try_from(time.as_nanos()).ok().filter(|ns| *ns > 0);
        let Some(time) = time else {
            return Err(CliError::usage(
                "--time must be above 0, at most 500 years; leave it out for the default",
            ));
        };
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Options {
            elevators: self.wanted()?,
            mixes: MIXES.iter().filter(wanted).collect(),
            time: Span(time),
            seed: self.seed,
            threads: self.threads.unwrap_or_else(processors),
        })
    }

    /// The elevators of the cells as in device specs.
    fn wanted(&self) -> Result<Vec<String>, CliError> {
        let named = self.elevators.iter().map(|list| split_list(list));
        let named = named.collect::<Result<Vec<_>, _>>()?.concat();
        if !named.is_empty() {
            return named.into_iter().map(|text| self.elevator(text)).collect();
        }
        Ok(match self.preset {
            Some(kernel) => presets::of_kernel(kernel).map(Preset::spec).collect(),
            None => TABLE.iter().map(|row| row.name.to_owned()).collect(),
        })
    }

    /// An elevator that was named, with its parameters in the kernel of the preset before those that were given.
    fn elevator(&self, text: &str) -> Result<String, CliError> {
        let (name, _) = registry::elevator_values(text).map_err(OpenError::Spec)?;
        let Some(kernel) = self.preset else { return Ok(text.to_owned()) };
        let preset = presets::find(kernel, name);
        let preset =
            preset.ok_or_else(|| CliError::usage(format!("Linux {kernel} has no preset of `{name}`")))?;
        let given = text.trim_end().strip_suffix(')').and_then(|text| text.split_once('('));
        let given = given.map_or("", |(_, params)| params.trim());
        Ok(match (preset.spec().strip_suffix(')'), given) {
            (_, "") => preset.spec(),
            (Some(open), given) => format!("{open}, {given})"),
            (None, _) => text.to_owned(),
        })
    }

    /// Whether all devices in the spec are simulated, which decides which mixes run without being named.
    fn is_simulated(&self) -> Result<bool, CliError> {
        let spec = registry::parse(&self.on).map_err(OpenError::Spec)?;
        if !registry::paths(&spec).map_err(OpenError::Spec)?.is_empty() {
            return Ok(false);
        }
        let device = registry::open_in(&World::new(self.seed), &spec, Access::default())?;
        Ok(device.clock().simulated().is_some())
    }

    fn show(&self, context: &Context, report: &Report, page: &Page<'_>) -> Result<(), CliError> {
        context.show(&report, &report.to_text(context.terminal))?;
        page.write(|| report.to_html())
    }
}

fn failed(error: SchedulerError) -> CliError {
    match error {
        SchedulerError::Open(error) => match error.downcast::<OpenError>() {
            Ok(error) => CliError::from(*error),
            Err(error) => CliError::new(Exit::CannotOpen, error.to_string()),
        },
        SchedulerError::Processes(error @ ProcessError::TooSmall { .. }) => {
            CliError::refused(error.to_string())
        }
        error => CliError::failed(error.to_string()),
    }
}
