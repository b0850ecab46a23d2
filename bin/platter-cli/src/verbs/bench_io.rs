//! `platter bench io`: the general workload.

mod job_files;
mod options;
mod values;

use crate::cli::output::{Page, cannot_write};
use crate::cli::progress::Progress;
use crate::cli::{CliError, Context, On, output};
use clap::{Args, ValueEnum};
use platter::registry::Access;
use platter_bench::io::{self, Hooks, IoError, IoReport, Repeats};
use platter_bench::report::units::{fixed, thousands};
use platter_bench::workload::JobOptions;
use platter_disk::device::Device;
use platter_disk::trace_output::{Format, Tracer};
use platter_sim::World;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Arguments of `platter bench io`.
#[derive(Args, Debug)]
#[command(after_help = "\
Options have fio's names and meanings, except that I/O is direct unless --direct=0. Sizes take K, M, G, T, P
(powers of 1024), times ns, us, ms, s. Switches can be written --verify, --verify=1 or --verify=0.
Simulated devices run in virtual time, on one thread: times and rates in the report are virtual.
Workloads that write refuse a device that holds a file system or is in use.

Examples:
  platter bench io --on 'null(1T)' --rw randread --bs 4k --iodepth 32 --runtime 2 --time_based
  platter bench io --on /dev/sdb --rw randread --iodepth 32 --runtime 10s --time_based --json
  platter bench io --on 'file(disk.img, create=1G)' --rw randwrite --iodepth 16 --verify
  platter bench io --on disk.img --rw randread --rate_iops 20000 --iodepth 64 --runtime 30s --time_based
  platter bench io --on 'sim(ideal, elevator=deadline)' --rw randread --numjobs 8 --runtime 10s --time_based
  platter bench io --on disk.img --rw randread --runtime 10s --time_based --repeat 6 --json > new.json
  platter bench io jobs.fio --parse-only
  platter bench io jobs.fio --on 'null(1T)'

JSON: one object; docs/bench-io.md lists its keys. The exit status is 1 if an I/O failed or a block did not
verify. Ctrl-C ends the run; the results until then are printed and marked as partial.")]
pub(crate) struct Io {
    #[command(flatten)]
    files: job_files::JobFiles,
    #[command(flatten)]
    on: On,
    #[command(flatten)]
    options: options::Options,
    /// Write the queues' trace events to this file
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Format of the trace: text in blkparse's columns, or blktrace's binary format for btt, blkparse and iowatcher
    #[arg(long = "trace_format", value_name = "FORMAT", default_value = "text", requires = "trace")]
    trace_format: TraceFormat,
    /// Also write the report to this file, as HTML
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Run this often, one after the other, and show how the results spread; `platter compare` takes the JSON
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Progress on stderr: auto (as with the other verbs), always (one line per second, also to a file), or never
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    eta: Eta,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum TraceFormat {
    Text,
    Blktrace,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Eta {
    Auto,
    Always,
    Never,
}

impl Io {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        if self.files.are_given() {
            return self.files.run(context, &self.on);
        }
        if self.on.specs.is_empty() {
            return Err(CliError::usage(
                "bench io needs a device: give one with --on, such as --on 'null(1T)'",
            ));
        }
        let job = self.options.job(self.on.specs.len())?;
        let write = job.rw.writes() || job.rw.trims();
        // Data that is not read back need not be stored: a simulated run may write more than there is memory.
        let access =
            Access { write, forget: !job.verify, direct: self.options.direct(), ..Access::default() };
        let seed = job.effective_seed(RandomState::new().hash_one(std::process::id()));
        let devices = self.on.open_in(&World::new(seed), access)?;
        // Fail before the run if a file cannot be written.
        let page = self.open_page()?;
        let tracer = self.trace.as_deref().map(|path| self.start_trace(path, &devices)).transpose()?;
        let mut runs = Vec::new();
        for number in 0..self.repeat {
            // A verified job finds what it, or the job that wrote, has written with the seed.
            let seed = if job.verify { seed } else { seed.wrapping_add(number.into()) };
            runs.push(self.measure(context, &job, &devices, seed, number)?);
            if runs.last().is_some_and(|run| run.partial || run.errors() > 0) {
                break;
            }
        }
        let traced = tracer.map_or(Ok(()), Tracer::finish);
        let shown = self.show(context, runs, &page);
        if let (Some(path), Err(error)) = (&self.trace, &traced) {
            return Err(cannot_write(path, error));
        }
        shown.and_then(|last| verdict(context, &last))
    }

    /// Shows the results, and writes the page. Returns the last run.
    fn show(
        &self,
        context: &Context,
        mut runs: Vec<IoReport>,
        page: &Page<'_>,
    ) -> Result<IoReport, CliError> {
        let Some(last) = runs.pop() else { return Err(CliError::failed("nothing was run".to_owned())) };
        let (json, text, html) = if self.repeat > 1 {
            runs.push(last.clone());
            let repeats = Repeats { asked: self.repeat, runs };
            (repeats.to_json(), repeats.to_text(context.terminal), repeats.to_html())
        } else {
            (last.to_json(), last.to_text(context.terminal), last.to_html())
        };
        context.show(&json, &text)?;
        page.write(|| html)?;
        Ok(last)
    }

    /// Opens the file of the report. An earlier report stays in it until this one is written.
    fn open_page(&self) -> Result<Page<'_>, CliError> {
        let page = Page::open(self.report.as_deref(), &self.on.specs)?;
        match (&self.report, page.is(self.trace.as_deref())) {
            (Some(path), true) => Err(CliError::usage(format!(
                "--trace and --report are both {}; give two files",
                path.display()
            ))),
            _ => Ok(page),
        }
    }

    fn start_trace(&self, path: &Path, devices: &[Device]) -> Result<Tracer, CliError> {
        let format = match self.trace_format {
            TraceFormat::Text => Format::Text,
            TraceFormat::Blktrace => Format::Blktrace,
        };
        output::refuse_device(path, &self.on.specs)?;
        let file = File::create(path).map_err(|error| cannot_write(path, &error))?;
        Ok(Tracer::start(devices, format, Box::new(BufWriter::new(file))))
    }

    fn measure(
        &self,
        context: &Context,
        job: &JobOptions,
        devices: &[Device],
        seed: u64,
        number: u32,
    ) -> Result<IoReport, CliError> {
        let which = if self.repeat > 1 { format!("run {}: ", number + 1) } else { String::new() };
        let mut line = Progress::new(context.progress && self.eta == Eta::Auto);
        let mut show = |state: &io::Progress| match self.eta {
            Eta::Always => {
                // Progress that cannot be shown is no reason to fail.
                let _ = writeln!(std::io::stderr(), "{which}{}", describe(state));
            }
            Eta::Auto if line.is_due() => line.show(&format!("{which}{}", describe(state))),
            Eta::Auto | Eta::Never => {}
        };
        let hooks = Hooks {
            progress: context.progress.then_some(&mut show as &mut dyn FnMut(&io::Progress)),
            cancel: context.stop_flag(),
        };
        io::run(job, devices, seed, hooks).map_err(|error| match error {
            IoError::Job(error) => self.options.wrong(error),
            IoError::Clocks => CliError::usage(error.to_string()),
            error => CliError::failed(error.to_string()),
        })
    }
}

/// The progress of a run, in a line.
pub(super) fn describe(progress: &io::Progress) -> String {
    let ramp = if progress.ramping { " (ramp)" } else { "" };
    let (iops, rate) =
        (thousands(progress.iops.round() as u64), thousands(progress.mib_per_s.round() as u64));
    let seconds = progress.elapsed.as_secs_f64().round();
    let simulated = progress.simulated.map(|time| format!(" ({} s virtual)", fixed(time.as_secs_f64(), 3)));
    let simulated = simulated.unwrap_or_default();
    format!("{seconds:4} s{simulated}: {iops:>12} IOPS {rate:>9} MiB/s{ramp}")
}

/// Whether the run did what was requested.
fn verdict(context: &Context, report: &IoReport) -> Result<(), CliError> {
    if report.io_errors > 0 {
        let first = report.first_error.as_ref().map(ToString::to_string).unwrap_or_default();
        return Err(CliError::failed(format!("{} I/Os failed; {first}", report.io_errors)));
    }
    if report.verify_errors > 0 {
        let first = report.first_mismatch.as_deref().unwrap_or_default();
        return Err(CliError::failed(format!("{} blocks did not verify; {first}", report.verify_errors)));
    }
    match report.partial {
        true => Err(context.interruption("interrupted: the result is partial")),
        false => Ok(()),
    }
}
