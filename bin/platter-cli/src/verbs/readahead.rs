//! `platter readahead`: compares the I/Os that readahead policies issue for the same reads.

use crate::cli::output::Page;
use crate::cli::{CliError, Context, Exit, Size};
use clap::{Args, ValueEnum};
use platter::registry;
use platter::spec::{format_size, parse_size};
use platter_bench::readahead::{Machine, Pattern, Read, Report, Workload, run_unless, trace};
use platter_block::hint::Hint;
use platter_block::resident::PAGE;
use platter_cache::readahead::{ReadaheadType, Settings, all};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Bytes of the largest trace.
const MOST_TRACE: u64 = 1 << 30;
/// Most pages that all reads touch together.
const MOST_PAGES: u64 = 1 << 26;
/// Bytes of the largest window.
const MOST_MAX: u64 = 256 << 20;
/// Bytes of the largest device.
const MOST_SIZE: u64 = 1 << 56;

/// Arguments of `platter readahead`.
#[derive(Args, Debug)]
#[command(after_help = after_help())]
pub(crate) struct Readahead {
    /// Only these policies, with parameters in parentheses [default: all]
    #[arg(long, value_name = "POLICY", num_args = 1.., value_parser = parse_policy)]
    policy: Vec<Policy>,
    /// Reads from this file: `thread handle offset length`, one a line
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pattern", "request", "count", "start", "span", "streams",
        "stride", "run", "threads", "handles", "seed"])]
    trace: Option<PathBuf>,
    /// Pattern of generated reads
    #[arg(long, value_name = "PATTERN", default_value = "sequential", value_parser = parse_pattern)]
    pattern: Pattern,
    /// Bytes of each read
    #[arg(long, value_name = "SIZE", default_value = "16K")]
    request: Size,
    /// Reads
    #[arg(long, value_name = "N", default_value_t = 1000)]
    count: u64,
    /// Start of the range of the reads
    #[arg(long, value_name = "SIZE", default_value = "0")]
    start: Size,
    /// The range of the reads [default: from the start to the end of the device]
    #[arg(long, value_name = "SIZE")]
    span: Option<Size>,
    /// Sequences of each thread, for the pattern interleaved
    #[arg(long, value_name = "N", default_value_t = 4)]
    streams: u64,
    /// Distance from one read to the next, for the pattern strided
    #[arg(long, value_name = "SIZE", default_value = "64K")]
    stride: Size,
    /// Reads in each sequence, for the pattern runs
    #[arg(long, value_name = "N", default_value_t = 8)]
    run: u64,
    /// Threads, which take turns page by page
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: u32,
    /// Handles that the threads share, each with a readahead state
    #[arg(long, value_name = "N", default_value_t = 1)]
    handles: u32,
    /// Seed of random positions
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Largest window
    #[arg(long, value_name = "SIZE", default_value = "128K")]
    max: Size,
    /// Optimal I/O size of the device [default: the largest window]
    #[arg(long, value_name = "SIZE")]
    optimal: Option<Size>,
    /// Size of the device
    #[arg(long, value_name = "SIZE", default_value = "16G")]
    size: Size,
    /// Size of the page cache [default: everything fits]
    #[arg(long, value_name = "SIZE")]
    cache: Option<Size>,
    /// Rounds of turns that an I/O takes
    #[arg(long, value_name = "N", default_value_t = 1)]
    latency: u64,
    /// I/Os that the device accepts at once; it is congested with more than 7/8 of them in flight
    #[arg(long, value_name = "N", default_value_t = 128)]
    requests: usize,
    /// The program's hint about its reads
    #[arg(long, value_name = "HINT", default_value = "normal")]
    advise: Advice,
    /// Also write a page with the table and figures to this file
    #[arg(long, value_name = "FILE.html", visible_alias = "html")]
    report: Option<PathBuf>,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum Advice {
    Normal,
    Sequential,
    Random,
}

/// A policy with its name and settings.
#[derive(Clone, Debug)]
struct Policy {
    name: String,
    row: &'static str,
    settings: Settings,
}

fn parse_policy(text: &str) -> Result<Policy, String> {
    let known = registry::readahead_names();
    let name = text.split('(').next().unwrap_or_default().trim();
    if !known.contains(&name) {
        return Err(format!("unknown policy; expected one of: {}", known.join(", ")));
    }
    let (row, settings) = registry::parse_readahead(text).map_err(|error| error.to_string())?;
    Ok(Policy { name: text.to_owned(), row: row.name, settings })
}

fn parse_pattern(text: &str) -> Result<Pattern, String> {
    let found = Pattern::ALL.iter().find(|(name, _)| *name == text).map(|(_, pattern)| *pattern);
    let known = || Pattern::ALL.map(|(name, _)| name).join(", ");
    found.ok_or_else(|| format!("unknown pattern; expected one of: {}", known()))
}

/// The policies, from their table.
fn after_help() -> String {
    let mut help = String::from("Policies; see also docs/readahead.md:\n");
    for row in all() {
        help += &format!("  {:14} {}\n", row.name, row.summary);
    }
    help + "\nPatterns: sequential, random, interleaved (sequences that take turns), strided, reverse, runs (short \
            sequences at random positions), mixed (a sequence and random reads in turns).\n\n\
            Examples:\n  platter readahead --pattern random --threads 16\n  \
            platter readahead --policy 2.6.5 2.6.6+private platter --pattern interleaved --streams 8 --request 4K\n  \
            platter readahead --policy 'context(conservative=1)' --pattern sequential --request 4K --count 100 --json\n  \
            platter readahead --trace reads.txt --report readahead.html\n\n\
            A line of a trace: `1 0 400K 20K` is thread 1, handle 0, 20 KiB at 400 KiB. A # starts a comment.\n\
            No device is read: the page cache is a model, and its figures are the same on every machine."
}

impl Readahead {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let machine = self.machine()?;
        let (max, optimal) = self.windows()?;
        let (what, reads) = self.reads()?;
        let pages = |read: &Read| (read.pos % PAGE + read.len).div_ceil(PAGE);
        let total = reads.iter().map(pages).fold(0, u64::saturating_add);
        if total > MOST_PAGES {
            return Err(CliError::usage(format!(
                "the reads touch {total} pages; at most {MOST_PAGES} can be simulated: make them fewer or smaller"
            )));
        }
        let page = Page::open(self.report.as_deref(), [])?;
        let mut report = Report { reads: what, policies: Vec::new(), interrupted: false };
        for policy in self.policies() {
            let Some(row) = row(policy.row) else { continue };
            let settings = Settings { max, optimal, ..policy.settings };
            match run_unless(row, &settings, &machine, &reads, context.stop_flag()) {
                Some(outcome) => report.policies.push((policy.name, outcome)),
                None => {
                    report.interrupted = true;
                    break;
                }
            }
        }
        context.show(&report.to_json(), &report.to_text(context.terminal))?;
        page.write(|| report.to_html())?;
        context.unless(report.interrupted, "interrupted: policies are missing")
    }

    fn policies(&self) -> Vec<Policy> {
        if !self.policy.is_empty() {
            return self.policy.clone();
        }
        let policy = |row: &ReadaheadType| Policy {
            name: row.name.to_owned(),
            row: row.name,
            settings: Settings::default(),
        };
        all().into_iter().map(policy).collect()
    }

    /// The largest window and the device's optimum, in pages.
    fn windows(&self) -> Result<(u32, u32), CliError> {
        let pages = |option: &str, typed: &Size| match u32::try_from(typed.bytes / PAGE) {
            Ok(pages) if typed.bytes <= MOST_MAX => Ok(pages),
            _ => Err(out_of_range(option, &typed.to_string(), "0 to 256M")),
        };
        let max = pages("--max", &self.max)?;
        Ok((max, self.optimal.as_ref().map_or(Ok(max), |optimal| pages("--optimal", optimal))?))
    }

    fn machine(&self) -> Result<Machine, CliError> {
        let size = &self.size;
        if size.bytes < PAGE || size.bytes > MOST_SIZE {
            return Err(out_of_range("--size", &size.to_string(), "4K to 64P"));
        }
        if let Some(cache) = self.cache.as_ref().filter(|cache| cache.bytes < PAGE) {
            return Err(out_of_range("--cache", &cache.to_string(), "4K or more"));
        }
        let pages = |cache: &Size| usize::try_from(cache.bytes / PAGE).unwrap_or(usize::MAX);
        if self.latency == 0 || self.latency > 1_000_000 {
            return Err(out_of_range("--latency", &self.latency.to_string(), "1 to 1000000"));
        }
        if self.requests == 0 || self.requests > 1 << 20 {
            return Err(out_of_range("--requests", &self.requests.to_string(), "1 to 1048576"));
        }
        let hint = match self.advise {
            Advice::Normal => Hint::Normal,
            Advice::Sequential => Hint::Sequential,
            Advice::Random => Hint::Random,
        };
        Ok(Machine {
            pages: size.bytes / PAGE,
            cache: self.cache.as_ref().map(pages),
            cached: Vec::new(),
            latency: self.latency,
            requests: self.requests,
            hint,
        })
    }

    /// The reads, and their description.
    fn reads(&self) -> Result<(String, Vec<Read>), CliError> {
        if let Some(path) = &self.trace {
            let reads = read_trace(path, self.size.bytes)?;
            return Ok((format!("{} reads of {}", reads.len(), path.display()), reads));
        }
        self.check_pattern()?;
        let (start, size) = (self.start.bytes, self.size.bytes);
        let workload = Workload {
            pattern: self.pattern,
            request: self.request.bytes,
            count: self.count,
            start,
            span: self.span.as_ref().map_or(size - start, |span| span.bytes),
            streams: self.streams,
            stride: self.stride.bytes,
            run: self.run,
            threads: self.threads,
            handles: self.handles,
            seed: self.seed,
        };
        let what = format!(
            "{} reads of {}, {}, threads: {}, handles: {}, windows up to {}",
            self.count,
            format_size(self.request.bytes),
            self.pattern.name(),
            self.threads,
            self.handles,
            format_size(self.max.bytes)
        );
        Ok((what, workload.reads()))
    }

    /// Checks that the generated reads lie on the device and are not too many.
    fn check_pattern(&self) -> Result<(), CliError> {
        let number = |option, value: u64, most: u64| match value {
            _ if value == 0 || value > most => {
                Err(out_of_range(option, &value.to_string(), &format!("1 to {most}")))
            }
            _ => Ok(()),
        };
        let bytes = |option, typed: &Size, most: u64| match typed.bytes {
            value if value == 0 || value > most => {
                Err(out_of_range(option, &typed.to_string(), &format!("1 to {}", format_size(most))))
            }
            _ => Ok(()),
        };
        let (start, size) = (self.start.bytes, self.size.bytes);
        number("--count", self.count, trace::MOST as u64)?;
        bytes("--request", &self.request, size.min(1 << 32))?;
        number("--threads", self.threads.into(), trace::MOST_NUMBERS.into())?;
        number("--handles", self.handles.into(), trace::MOST_NUMBERS.into())?;
        number("--streams", self.streams, 1 << 20)?;
        bytes("--stride", &self.stride, size)?;
        number("--run", self.run, 1 << 20)?;
        if start >= size {
            let allowed = format!("0 to below {}, the size of the device (--size)", self.size);
            return Err(out_of_range("--start", &self.start.to_string(), &allowed));
        }
        self.span.as_ref().map_or(Ok(()), |span| bytes("--span", span, size - start))
    }
}

fn row(name: &str) -> Option<&'static ReadaheadType> {
    platter_cache::readahead::by_name(name)
}

fn out_of_range(option: &str, value: &str, allowed: &str) -> CliError {
    CliError::usage(format!("{option} {value} is out of range: {allowed}"))
}

/// The reads of a trace, all of which begin on a device of `end` bytes.
fn read_trace(path: &Path, end: u64) -> Result<Vec<Read>, CliError> {
    let cannot = |error: &dyn std::fmt::Display| {
        CliError::new(Exit::CannotOpen, format!("cannot read the trace {}: {error}", path.display()))
    };
    let file = std::fs::File::open(path).map_err(|error| cannot(&error))?;
    let mut text = String::new();
    file.take(MOST_TRACE + 1).read_to_string(&mut text).map_err(|error| cannot(&error))?;
    if text.len() as u64 > MOST_TRACE {
        return Err(cannot(&"it is larger than 1 GiB; cut it into several"));
    }
    let wrong = |error: &dyn std::fmt::Display| CliError::usage(format!("{}: {error}", path.display()));
    let size = |text: &str| parse_size(text).map_err(|error| error.to_string());
    let reads = trace::parse_within(&text, size, end).map_err(|error| wrong(&error))?;
    if reads.is_empty() {
        return Err(wrong(
            &"the trace has no reads; a line is `thread handle offset length`, such as `0 0 400K 20K`",
        ));
    }
    Ok(reads)
}
