//! `platter bench dm`: the microbenchmark of the 2002 paper, on each rung of the ladder.

pub(super) mod on;

use crate::cli::output::Page;
use crate::cli::progress::Progress;
use crate::cli::{CliError, Context, Exit};
use clap::Args;
use platter::spec::{parse_size, parse_time};
use platter_bench::dm::{self, Call, Disks, DmError, Options, Report};
use platter_bench::ladder::{self, Rung, TABLE};
use platter_bench::report::units;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Arguments of `platter bench dm`.
#[derive(Args, Debug)]
#[command(after_help = after_help())]
pub(crate) struct Dm {
    /// Number of disks, each read by its own worker [default: 4]
    #[arg(long, value_name = "N")]
    disks: Option<usize>,
    /// Size of each file that is created, a multiple of 64K [default: 256M]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    size: Option<u64>,
    /// Rounds through all rungs; results are their medians [default: 7, with --full 3]
    #[arg(long, value_name = "N")]
    repeat: Option<usize>,
    /// Total time, including the creation of files; the number of reads is chosen to fit [default: 50s]
    #[arg(long, value_name = "TIME", value_parser = parse_time, conflicts_with = "full")]
    runtime: Option<Duration>,
    /// Reads per worker, rung and round, without a warm-up, instead of a number that fits --runtime
    #[arg(long, value_name = "N", conflicts_with_all = ["full", "runtime"])]
    reads: Option<u64>,
    /// Only these rungs
    #[arg(long, value_name = "NAME", num_args = 1.., value_parser = parse_rung)]
    rung: Vec<&'static Rung>,
    /// Only these calls
    #[arg(long, value_name = "CALL", num_args = 1.., value_parser = parse_call)]
    call: Vec<Call>,
    /// The size of the paper's run, without a time limit: 32 disks, 4096 reads of each on every rung
    #[arg(long)]
    full: bool,
    /// Read these disks instead of creating files; they are not written: /dev/sdb, 'ram(1G)'
    #[arg(long, value_name = "SPEC", num_args = 1.., conflicts_with_all = ["disks", "size", "dir"])]
    on: Vec<String>,
    /// Create the files in this directory, not in the current one or $TMPDIR; it must be on a disk
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Also write a page with plots to this file
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

pub(super) fn parse_rung(name: &str) -> Result<&'static Rung, String> {
    let known = || TABLE.iter().map(|row| row.name).collect::<Vec<_>>().join(", ");
    ladder::find(name).ok_or_else(|| format!("unknown rung; expected one of: {}", known()))
}

fn parse_call(name: &str) -> Result<Call, String> {
    let found = Call::ALL.into_iter().find(|call| call.name() == name);
    found.ok_or_else(|| "unknown call; expected read or readv".to_owned())
}

/// The rungs, from their table.
fn after_help() -> String {
    let mut help = String::from("Rungs, from the lowest up; see also docs/ladder.md:\n");
    for row in TABLE {
        help += &format!("  {:9} {}\n", row.name, row.adds);
    }
    help + "\nExamples:\n  platter bench dm\n  platter bench dm --json --dir /mnt/disk\n  \
            platter bench dm --rung SBIR SBIRV --call readv --reads 1000 --repeat 1\n  \
            platter bench dm --on /dev/sdb /dev/sdc --report dm.html"
}

impl Dm {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let began = Instant::now();
        let options = self.options();
        options.check().map_err(fail)?;
        let page = Page::open(self.report.as_deref(), &self.on)?;
        let mut progress = Progress::new(context.progress);
        let media = self.media(&options, context, &mut progress).map_err(|error| stop(context, error))?;
        let mut show = |state: &dm::Progress| {
            progress.offer(|| format!("{} of {}: {}", state.done + 1, state.total, state.now));
        };
        let report = dm::run(&media, &options, began, context.stop_flag(), &mut show)
            .map_err(|error| stop(context, error))?;
        // The files are removed before the results are shown.
        drop(media);
        progress.clear();
        self.show(context, &report, &page)?;
        context.unless(report.interrupted, "interrupted: the results are partial")
    }

    fn options(&self) -> Options {
        let base = if self.full { Options::full() } else { Options::default() };
        let given = if self.on.is_empty() { base.disks } else { self.on.len() };
        Options {
            disks: self.disks.unwrap_or(given),
            size: self.size.unwrap_or(base.size),
            repeat: self.repeat.unwrap_or(base.repeat),
            reads: self.reads.or(base.reads),
            // In the order of their table, whatever the order on the command line.
            rungs: base.rungs.into_iter().filter(|row| wanted(&self.rung, row.name)).collect(),
            calls: base
                .calls
                .into_iter()
                .filter(|call| self.call.is_empty() || self.call.contains(call))
                .collect(),
            budget: self.runtime.unwrap_or(base.budget),
        }
    }

    /// The disks of the run: those given, or files and then memory. Where no files can be made and no option is
    /// about them, memory alone: the report has no table of files then, and a note says why.
    fn media(
        &self,
        options: &Options,
        context: &Context,
        progress: &mut Progress,
    ) -> Result<Vec<Disks>, DmError> {
        if !self.on.is_empty() {
            return Ok(vec![on::disks(&self.on)?]);
        }
        let files = match files(options, self.dir.as_deref(), context, progress) {
            Err(DmError::Open(error)) if !self.insists_on_files() => {
                progress.clear();
                context.note(&format!("no files are measured, only disks in memory: {error}"));
                None
            }
            files => Some(files?),
        };
        Ok(files.into_iter().chain([Disks::ram(options)?]).collect())
    }

    /// Whether an option is about the files, so that a run without them is not what was requested.
    fn insists_on_files(&self) -> bool {
        self.dir.is_some() || self.size.is_some() || self.full
    }

    fn show(&self, context: &Context, report: &Report, page: &Page<'_>) -> Result<(), CliError> {
        context.show(&dm::json(report), &dm::text(report, context.terminal))?;
        page.write(|| dm::html(report))
    }
}

/// The disks in files that are made in a directory.
pub(super) fn files(
    options: &Options,
    dir: Option<&Path>,
    context: &Context,
    progress: &mut Progress,
) -> Result<Disks, DmError> {
    let mut show = |filled: platter_disk::sys::Progress| {
        let (done, total) = (units::bytes(filled.done), units::bytes(filled.total));
        progress.offer(|| format!("making {} files: {done} of {total}", options.disks));
    };
    Disks::files(options, dir, context.stop_flag(), &mut show)
}

/// Whether a rung was requested, or none was requested.
pub(super) fn wanted(asked: &[&Rung], name: &str) -> bool {
    asked.is_empty() || asked.iter().any(|row| row.name == name)
}

pub(super) fn stop(context: &Context, error: DmError) -> CliError {
    match error {
        DmError::Interrupted => context.interruption(error.to_string()),
        error => fail(error),
    }
}

pub(super) fn fail(error: DmError) -> CliError {
    let exit = match &error {
        DmError::Option(_) => Exit::Usage,
        DmError::Unfit(_) => Exit::Refused,
        DmError::Open(_) => Exit::CannotOpen,
        _ => Exit::Failed,
    };
    CliError::new(exit, error.to_string())
}
