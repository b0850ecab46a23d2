//! `platter bench chunked`: chunks at random places, from disks and from striped arrays.

use crate::cli::output::Page;
use crate::cli::progress::Progress;
use crate::cli::{CliError, Context, On};
use clap::{Args, ValueEnum};
use platter::registry::{self, Access, OpenError};
use platter::spec::{Spec, parse_size, parse_time};
use platter_bench::chunked::{
    self, ChunkedError, Harness, PERSONALITIES, Personality, Plan, Report, RunOptions,
};
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_sim::World;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Arguments of `platter bench chunked`.
#[derive(Args, Debug)]
#[command(after_help = after_help())]
pub(crate) struct Chunked {
    #[command(flatten)]
    on: On,
    /// Only these personalities
    #[arg(long, value_name = "NAME", num_args = 1.., value_parser = parse_personality)]
    personality: Vec<Personality>,
    /// Numbers of disks, from the first on [default: 1 to all]
    #[arg(long, value_name = "N", num_args = 1..)]
    disks: Vec<usize>,
    /// Sizes of requests [default: 4K to 64M in powers of two]
    #[arg(long, value_name = "SIZE", num_args = 1.., value_parser = parse_size)]
    request: Vec<u64>,
    /// Bytes of a chunk at a random position, which is read sequentially [default: one request]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, conflicts_with = "stream")]
    chunk: Option<u64>,
    /// Read the disks sequentially from beginning to end instead of in chunks
    #[arg(long)]
    stream: bool,
    /// Stripe of arrays while requests vary [default: 512K]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    stripe: Option<u64>,
    /// Stripes over which arrays vary [default: 4K to 1M in powers of two]
    #[arg(long, value_name = "SIZE", num_args = 1.., value_parser = parse_size)]
    stripes: Vec<u64>,
    /// Sizes of requests while stripes vary [default: 1M 16M]
    #[arg(long, value_name = "SIZE", num_args = 1.., value_parser = parse_size)]
    stripe_request: Vec<u64>,
    /// Operation: write overwrites the disks
    #[arg(long, value_name = "RW", default_value = "read")]
    rw: Direction,
    /// Requests in flight, for csraid-async, csraid-posix and csraid-aio [default: 4]
    #[arg(long, value_name = "N")]
    depth: Option<usize>,
    /// Bytes that kernel-2.4 reads ahead [default: one stripe]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    readahead: Option<u64>,
    /// The readahead of kernel-2.4 ends with the request
    #[arg(long)]
    no_overrun: bool,
    /// Samples of each process [default: 101, with --quick 11]
    #[arg(long, value_name = "N")]
    samples: Option<usize>,
    /// Minimum duration of a sample
    #[arg(long, value_name = "TIME", default_value = "5ms", value_parser = parse_time)]
    enough: Duration,
    /// Seed of the positions of chunks
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Concurrent points on simulated disks [default: one for each processor]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Measure only a few points of each figure
    #[arg(long)]
    quick: bool,
    /// Also write a page with the figures to this file
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Read,
    Write,
}

fn parse_personality(name: &str) -> Result<Personality, String> {
    let known = || PERSONALITIES.iter().map(|row| row.name).collect::<Vec<_>>().join(", ");
    Personality::by_name(name).ok_or_else(|| format!("unknown personality; expected one of: {}", known()))
}

/// The personalities, from their table.
fn after_help() -> String {
    let mut help = String::from("Personalities; see also docs/chunked.md:\n");
    for row in PERSONALITIES {
        help += &format!("  {:13} {}\n", row.name, row.summary);
    }
    help + "\nSimulated disks run in virtual time; data=off keeps no contents and is faster.\n\n\
            Examples:\n  platter bench chunked --on /dev/sdb /dev/sdc --quick\n  \
            platter bench chunked --on 'sim(ideal, data=off)' 'sim(ideal, data=off)' --quick --json\n  \
            platter bench chunked --on a.img b.img --personality jbod csraid-async --request 64K 1M --depth 8\n  \
            platter bench chunked --on /dev/sdb /dev/sdc --report chunked.html\n\n\
            On real disks a full run, with 101 samples of each point, takes hours; \
            shorten it with --quick, --samples or --request.\n\
            Ctrl-C ends the run: the points that are complete are printed."
}

impl Chunked {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        if self.on.specs.is_empty() {
            return Err(CliError::usage(
                "bench chunked needs disks: give them with --on, such as --on /dev/sdb /dev/sdc",
            ));
        }
        let parse =
            |text: &String| registry::parse(text).map_err(|error| CliError::from(OpenError::from(error)));
        let specs = self.on.specs.iter().map(parse).collect::<Result<Vec<Spec>, CliError>>()?;
        let plan = self.plan(specs.len())?;
        let cells = plan.cells().map_err(fail)?;
        let options = self.options();
        let page = Page::open(self.report.as_deref(), &self.on.specs)?;
        let access = self.on.force.access(Access { write: plan.write, ..Access::default() });
        let open = |world: &Arc<World>| -> Result<Vec<Device>, Box<dyn std::error::Error + Send + Sync>> {
            let open = || specs.iter().map(|spec| registry::open_in(world, spec, access));
            Context::unattended(|| open().map(|device| device.map_err(Into::into)).collect())
        };
        let mut progress = Progress::new(context.progress);
        let mut show = |state: &chunked::Progress<'_>| {
            progress.offer(|| format!("{} of {}: {}", state.done, state.total, state.now.describe()));
        };
        let points = chunked::run(&cells, &options, &open, context.stop_flag(), &mut show).map_err(fail)?;
        progress.clear();
        let report = Report {
            on: self.on.specs.clone(),
            simulated: points.simulated,
            harness: options.harness,
            points: points.points,
            interrupted: points.interrupted,
        };
        context.show(&report, &report.to_text(context.terminal))?;
        page.write(|| report.to_html(&plan))?;
        context.unless(report.interrupted, "interrupted: points are missing")
    }

    fn plan(&self, disks: usize) -> Result<Plan, CliError> {
        let base = if self.quick { Plan::quick(disks) } else { Plan::paper(disks) };
        if let Some(&wrong) = self.disks.iter().find(|&&number| number == 0 || number > disks) {
            return Err(CliError::usage(format!(
                "--disks {wrong}: {disks} are given with --on, so 1 to {disks}"
            )));
        }
        let or = |given: &[u64], base: Vec<u64>| if given.is_empty() { base } else { given.to_vec() };
        // Sizes of requests without stripes mean: these points and no others.
        let stripes =
            match self.request.is_empty() || !self.stripe_request.is_empty() || !self.stripes.is_empty() {
                true => or(&self.stripes, base.stripes),
                false => Vec::new(),
            };
        let in_order = |row: &chunked::PersonalityType| {
            let wanted = match self.personality.is_empty() {
                true => row.personality.is_simulated(),
                false => self.personality.contains(&row.personality),
            };
            wanted.then_some(row.personality)
        };
        Ok(Plan {
            personalities: PERSONALITIES.iter().filter_map(in_order).collect(),
            disks: if self.disks.is_empty() { base.disks } else { self.disks.clone() },
            requests: self.sizes(&self.request, base.requests),
            stripe: self.stripe.unwrap_or(base.stripe),
            stripes,
            stripe_requests: self.sizes(&self.stripe_request, base.stripe_requests),
            chunk: self.chunk,
            stream: self.stream,
            write: self.rw == Direction::Write,
            depth: self.depth.unwrap_or(base.depth),
            readahead: self.readahead,
            overrun: !self.no_overrun,
        })
    }

    /// The sizes given, or those of the default that fit into a chunk.
    fn sizes(&self, given: &[u64], base: Vec<u64>) -> Vec<u64> {
        let fits = |size: &u64| self.chunk.is_none_or(|chunk| *size <= chunk && chunk.is_multiple_of(*size));
        if given.is_empty() { base.into_iter().filter(fits).collect() } else { given.to_vec() }
    }

    fn options(&self) -> RunOptions {
        let enough = Span(u64::try_from(self.enough.as_nanos()).unwrap_or(u64::MAX));
        let harness = Harness {
            samples: self.samples.unwrap_or(if self.quick { 11 } else { 101 }),
            enough,
            seed: self.seed,
        };
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        RunOptions { harness, threads: self.threads.unwrap_or_else(processors), watch: false }
    }
}

fn fail(error: ChunkedError) -> CliError {
    match error {
        ChunkedError::Option(message) => CliError::usage(message),
        ChunkedError::Unfit(message) => CliError::refused(message),
        ChunkedError::Open(error) => match error.downcast::<OpenError>() {
            Ok(error) => CliError::from(*error),
            Err(error) => CliError::failed(error.to_string()),
        },
        error => CliError::failed(error.to_string()),
    }
}
