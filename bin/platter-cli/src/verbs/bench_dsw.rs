//! `platter bench dsw`: recorded decision-support queries, replayed on each rung of the ladder.

mod recording;

use super::bench_dm::{fail, files, on, parse_rung, stop, wanted};
use crate::cli::progress::Progress;
use crate::cli::{CliError, Context};
use clap::Args;
use platter::spec::parse_time;
use platter_bench::dm;
use platter_bench::dsw::{self, Disks, DswError, Options, PREFETCH_BYTES, Recording, Report};
use platter_bench::ladder::Rung;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Scale of the data that is recorded by default, and with `--full`.
const SCALES: (f64, f64) = (0.1, 1.0);

/// Arguments of `platter bench dsw`.
#[derive(Args, Debug)]
#[command(after_help = "\
A recording has the pages that queries of TPC-H read on SQLite. The program platter-dsw makes it; it is
a package of its own, because it contains SQLite, which is compiled from C. Without --recording it is
run once, if it is installed or beside this program, and its recording is kept in the cache directory
($XDG_CACHE_HOME/platter or ~/.cache/platter). In a checkout:
  cargo run --release -p platter-engines --bin platter-dsw -- dsw.recording
  cargo run --release -- bench dsw --recording dsw.recording

Examples:
  platter bench dsw
  platter bench dsw --recording dsw.recording --rung SBIR SBIRV --compute 0 --json
  platter bench dsw --on /dev/sdb /dev/sdc --agents 16

JSON: one object; docs/dsw.md lists its keys.")]
pub(crate) struct Dsw {
    /// The recording to replay [default: in the cache directory]
    #[arg(long, value_name = "FILE")]
    recording: Option<PathBuf>,
    /// Agents, each a thread that replays queries [default: two for each processor]
    #[arg(long, value_name = "N")]
    agents: Option<usize>,
    /// Number of disks over which the data is spread [default: 4]
    #[arg(long, value_name = "N")]
    disks: Option<usize>,
    /// Rounds through all rungs; results are their medians [default: 7]
    #[arg(long, value_name = "N")]
    repeat: Option<usize>,
    /// Total time, including the creation of files; the number of calls is chosen to fit [default: 40s]
    #[arg(long, value_name = "TIME", value_parser = parse_time, conflicts_with = "calls")]
    runtime: Option<Duration>,
    /// Calls of each agent, rung and round, without a warm-up, instead of a number that fits --runtime
    #[arg(long, value_name = "N")]
    calls: Option<u64>,
    /// Multiply the recorded processor time of the queries by this; 0 leaves only the I/O
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    compute: f64,
    /// Only these rungs
    #[arg(long, value_name = "NAME", num_args = 1.., value_parser = parse_rung)]
    rung: Vec<&'static Rung>,
    /// Data of scale 1, a gigabyte, rather than 0.1
    #[arg(long, conflicts_with = "recording")]
    full: bool,
    /// Read these disks instead of creating files; they are not written: /dev/sdb, 'ram(1G)'
    #[arg(long, value_name = "SPEC", num_args = 1.., conflicts_with_all = ["disks", "dir"])]
    on: Vec<String>,
    /// Create the files in this directory, not in the current one or $TMPDIR; it must be on a disk
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Dsw {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let options = self.options();
        options.check().map_err(fail)?;
        let mut progress = Progress::new(context.progress);
        let recording = match &self.recording {
            Some(file) => recording::read(file)?,
            None => recording::cached(if self.full { SCALES.1 } else { SCALES.0 }, context, &mut progress)?,
        };
        let began = Instant::now();
        let media =
            self.media(&options, &recording, context, &mut progress).map_err(|error| stop(context, error))?;
        let mut show = |state: &dsw::Progress| {
            progress.offer(|| format!("{} of {}: {}", state.done + 1, state.total, state.now));
        };
        let report = dsw::run(&recording, &media, &options, began, context.stop_flag(), &mut show);
        // The files are removed before the results are shown.
        drop(media);
        progress.clear();
        let report = report.map_err(|error| stop(context, error))?;
        show_report(context, &report)
    }

    fn options(&self) -> Options {
        let base = Options::default();
        let given = if self.on.is_empty() { base.disks } else { self.on.len() };
        Options {
            agents: self.agents.unwrap_or(base.agents),
            disks: self.disks.unwrap_or(given),
            repeat: self.repeat.unwrap_or(base.repeat),
            // In the order of their table, whatever the order on the command line.
            rungs: base.rungs.into_iter().filter(|row| wanted(&self.rung, row.name)).collect(),
            calls: self.calls,
            compute: self.compute,
            budget: self.runtime.unwrap_or(base.budget),
        }
    }

    /// The disks of the run: those given, or files that hold the data and then memory.
    fn media(
        &self,
        options: &Options,
        recording: &Recording,
        context: &Context,
        progress: &mut Progress,
    ) -> Result<Vec<Disks>, DswError> {
        if !self.on.is_empty() {
            return Ok(vec![on::disks(&self.on)?]);
        }
        let extents = recording.bytes().div_ceil(PREFETCH_BYTES).div_ceil(options.disks as u64);
        let size = extents.checked_mul(PREFETCH_BYTES).unwrap_or(u64::MAX / PREFETCH_BYTES * PREFETCH_BYTES);
        let disks = dm::Options { disks: options.disks, size, ..dm::Options::default() };
        let files = files(&disks, self.dir.as_deref(), context, progress)?;
        Ok(vec![files, Disks::ram(&disks)?])
    }
}

fn show_report(context: &Context, report: &Report) -> Result<(), CliError> {
    context.show(&dsw::json(report), &dsw::text(report, context.terminal))?;
    context.unless(report.interrupted, "interrupted: the results are partial")
}
