//! `platter trace replay`.

mod options;

use super::inputs::{self, Meter, Reading, malformed};
use super::outfile::refuse_input;
use crate::cli::output::{Page, cannot_write};
use crate::cli::progress::Progress;
use crate::cli::{CliError, Context, Force, On, output, spec_arg};
use crate::verbs::bench_io::describe;
use clap::Args;
use options::Options;
use platter::registry::Access;
use platter_bench::io::{self, Hooks, IoError};
use platter_bench::replay::{self, Reader, ReplayError, ReplayOptions, ReplayReport, Routes, Survey};
use platter_bench::report::json::joined;
use platter_disk::device::Device;
use platter_disk::trace_output::{Format, Tracer};
use platter_sim::World;
use platter_traces::Arrivals;
use serde_json::json;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// Arguments of `platter trace replay`.
#[derive(Args, Debug)]
#[command(after_help = after_help())]
pub(crate) struct Replay {
    /// The traces, `-` for stdin; several become one, in order of time
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    reading: Reading,
    /// The devices, as specs: /dev/sdb, ram(1G), 'sim(ideal)'; each gets the I/Os of a device of the trace, in the order in which
    /// these are seen
    #[arg(long = "on", value_name = "SPEC", num_args = 1.., value_parser = spec_arg(), required_unless_present = "redirect")]
    specs: Vec<String>,
    /// Replay the I/Os of this device of the trace (8,16 or its name) on this one; may be given several times
    #[arg(long, value_name = "DEV=SPEC", value_parser = spec_arg())]
    redirect: Vec<String>,
    /// Replay only this device of the trace, and those of --redirect; may be given several times
    #[arg(long, value_name = "DEV")]
    device: Vec<String>,
    #[command(flatten)]
    force: Force,
    #[command(flatten)]
    options: Options,
    /// Also write the report to this file, as one HTML page with charts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write what the devices' queues do to this file, as a trace in blktrace's format
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

fn after_help() -> String {
    format!(
        "I/Os start in the order of the trace, at its times; kinds, sizes and places stay: a write behind a flush is \
replayed as both. Traces in files are read once before anything is replayed, to see whether the devices are large enough. Simulated \
devices run in virtual time. Replays that write refuse a device that holds a file system or is in use; --writes read and --writes skip \
change nothing.

{}
Examples:
  platter trace replay sda.blktrace.* --on 'sim(cheetah9lp)'
  platter trace replay sda.dump --on 'file(disk.img, create=8G)' --speed 2 --html sda.html
  platter trace replay sda.dump --on /dev/sdb --writes read --mode dependency
  platter trace replay hm_0.csv --on 'null(1T)' --mode closed --depth 32 --json
  platter trace replay both.dump --redirect '8,0=ram(1G)' --redirect '8,16=ram(1G)'

JSON: an object; docs/command.md lists its keys. Exit status: 1 if a record is malformed or an I/O failed, 4 if the devices do \
not allow what the trace has. Ctrl-C ends the replay; the results until then are printed and marked as partial.",
        super::formats()
    )
}

impl Replay {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let options = self.options.options()?;
        let targets = self.targets()?;
        let of: Vec<Option<String>> = targets.iter().map(|target| target.0.clone()).collect();
        let mut routes = Routes::new(&of, &self.device);
        let survey = self.survey(context, &options, &mut routes)?;
        let merged = self.reading.open(&self.paths)?;
        let specs: Vec<String> = targets.into_iter().map(|target| target.1).collect();
        for path in [&self.html, &self.record].into_iter().flatten() {
            output::refuse_device(path, &specs)?;
            refuse_input(path, &self.paths)?;
        }
        // Without a survey the trace may have writes.
        let write = survey.as_ref().map_or(options.changes(), |survey| survey.changes(&options));
        let on = On { specs, force: self.force };
        let devices =
            on.open_in(&World::new(options.seed), Access { write, forget: true, ..Access::default() })?;
        if let Some(survey) = &survey {
            survey.check(&devices, &options).map_err(failed)?;
        }
        let mut arrivals = Arrivals::new(merged, self.reading.at()).map_err(malformed)?;
        let basis = arrivals.basis();
        let mut reader =
            Reader::new(&mut arrivals, &options, &devices, routes, survey.as_ref()).map_err(failed)?;
        let page = self.open_page(&on.specs)?;
        let tracer = self.record.as_deref().map(|path| record(path, &devices)).transpose()?;
        let replayed = replay_on(context, &mut reader, &options, &devices);
        let recorded = tracer.map_or(Ok(()), Tracer::finish);
        let report = replayed?;
        inputs::notes(context, reader.merged());
        if context.json {
            let more = json!({ "basis": basis.letters(), "input": inputs::notes_json(reader.merged()) });
            context.print_json(&joined(report.to_json(), &more))?;
        } else {
            context.print(&report.to_text(context.terminal))?;
        }
        if let (Some(path), Err(error)) = (&self.record, &recorded) {
            return Err(cannot_write(path, error));
        }
        let inputs: Vec<String> = self.paths.iter().map(|path| path.display().to_string()).collect();
        page.write(|| report.to_html(&inputs))?;
        verdict(context, &report)
    }

    /// The devices of the trace that are named, each with its spec, and the other specs.
    fn targets(&self) -> Result<Vec<(Option<String>, String)>, CliError> {
        let named = self.redirect.iter().map(|text| match text.split_once('=') {
            Some((device, spec)) if !device.is_empty() && !spec.is_empty() => {
                Ok((Some(device.to_owned()), spec.to_owned()))
            }
            _ => Err(CliError::usage(format!("--redirect {text}: expected DEV=SPEC, such as 8,16=ram(1G)"))),
        });
        named.chain(self.specs.iter().map(|spec| Ok((None, spec.clone())))).collect()
    }

    /// Reads the trace before anything is replayed, if it can be read twice.
    fn survey(
        &self,
        context: &Context,
        options: &ReplayOptions,
        routes: &mut Routes,
    ) -> Result<Option<Survey>, CliError> {
        let is_file = |path: &PathBuf| fs::metadata(path).is_ok_and(|found| found.is_file());
        if !self.paths.iter().all(is_file) {
            return Ok(None);
        }
        let mut merged = self.reading.open(&self.paths)?;
        let mut survey = Survey::new(self.redirect.len() + self.specs.len());
        let mut meter = Meter::new(context);
        let whole = survey
            .read(&mut merged, self.reading.at(), options, routes, || meter.count(context))
            .map_err(failed)?;
        drop(meter);
        if !whole {
            return Err(context.interruption("interrupted: nothing was replayed"));
        }
        match routes.missing().first() {
            Some(missing) if options.limit.is_none() => {
                Err(CliError::usage(format!("the trace has no I/Os of device {missing}")))
            }
            _ => Ok(Some(survey)),
        }
    }

    /// Opens the file of the page. An earlier page stays in it until this one is written.
    fn open_page(&self, specs: &[String]) -> Result<Page<'_>, CliError> {
        let page = Page::open(self.html.as_deref(), specs)?;
        match (&self.html, page.is(self.record.as_deref())) {
            (Some(path), true) => Err(CliError::usage(format!(
                "--html and --record are both {}; give two files",
                path.display()
            ))),
            _ => Ok(page),
        }
    }
}

fn record(path: &Path, devices: &[Device]) -> Result<Tracer, CliError> {
    let file = File::create(path).map_err(|error| cannot_write(path, &error))?;
    Ok(Tracer::start(devices, Format::Blktrace, Box::new(BufWriter::new(file))))
}

fn replay_on(
    context: &Context,
    reader: &mut Reader<'_, '_>,
    options: &ReplayOptions,
    devices: &[Device],
) -> Result<ReplayReport, CliError> {
    let mut line = Progress::new(context.progress);
    let mut show = |state: &io::Progress| {
        if line.is_due() {
            line.show(&describe(state));
        }
    };
    let hooks = Hooks {
        progress: context.progress.then_some(&mut show as &mut dyn FnMut(&io::Progress)),
        cancel: context.stop_flag(),
    };
    replay::run(reader, options, devices, hooks).map_err(failed)
}

/// Whether everything was replayed as requested.
fn verdict(context: &Context, report: &ReplayReport) -> Result<(), CliError> {
    if report.errors > 0 {
        let first = report.first_error.as_ref().map(ToString::to_string).unwrap_or_default();
        return Err(CliError::failed(format!("{} I/Os failed; {first}", report.errors)));
    }
    match report.partial {
        true => Err(context.interruption("interrupted: the replay is partial")),
        false => Ok(()),
    }
}

fn failed(error: ReplayError) -> CliError {
    match error {
        ReplayError::Trace(error) => malformed(error),
        ReplayError::Options(_) | ReplayError::Io(IoError::Clocks) => CliError::usage(error.to_string()),
        ReplayError::Unfit(_) => CliError::refused(error.to_string()),
        error => CliError::failed(error.to_string()),
    }
}
