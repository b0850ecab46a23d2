//! `platter readahead`: which I/Os readahead policies make of the same reads.

use crate::cli::{CliError, Context, Exit};
use clap::{Args, ValueEnum};
use platter::registry;
use platter::spec::{format_size, parse_size};
use platter_bench::readahead::{Machine, Pattern, Read, Report, Workload, run, trace};
use platter_block::readahead::{Hint, PAGE, Row, Settings, TABLE};
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
    /// Reads that are made up
    #[arg(long, value_name = "PATTERN", default_value = "sequential", value_parser = parse_pattern)]
    pattern: Pattern,
    /// Bytes of each read
    #[arg(long, value_name = "SIZE", default_value = "16K", value_parser = parse_size)]
    request: u64,
    /// Reads
    #[arg(long, value_name = "N", default_value_t = 1000)]
    count: u64,
    /// Where the reads begin
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = parse_size)]
    start: u64,
    /// What they lie in [default: from the start to the end of the device]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    span: Option<u64>,
    /// Sequences of each thread, of the pattern interleaved
    #[arg(long, value_name = "N", default_value_t = 4)]
    streams: u64,
    /// From one read to the next, of the pattern strided
    #[arg(long, value_name = "SIZE", default_value = "64K", value_parser = parse_size)]
    stride: u64,
    /// Reads of a sequence, of the pattern runs
    #[arg(long, value_name = "N", default_value_t = 8)]
    run: u64,
    /// Threads, which take turns page by page
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: u32,
    /// Handles that the threads share, each with a readahead state
    #[arg(long, value_name = "N", default_value_t = 1)]
    handles: u32,
    /// Seed of random places
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Largest window
    #[arg(long, value_name = "SIZE", default_value = "128K", value_parser = parse_size)]
    max: u64,
    /// What the device likes to be asked for at once [default: the largest window]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    optimal: Option<u64>,
    /// Size of the device
    #[arg(long, value_name = "SIZE", default_value = "16G", value_parser = parse_size)]
    size: u64,
    /// Size of the page cache [default: everything fits]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    cache: Option<u64>,
    /// Rounds of turns that an I/O takes
    #[arg(long, value_name = "N", default_value_t = 1)]
    latency: u64,
    /// I/Os that the device takes at once; with more than 7/8 of them it is congested
    #[arg(long, value_name = "N", default_value_t = 128)]
    requests: usize,
    /// What the program says about its reads
    #[arg(long, value_name = "HINT", default_value = "normal")]
    advise: Advice,
    /// Write a page with the table and figures to this file too
    #[arg(long, value_name = "FILE.html", visible_alias = "html")]
    report: Option<PathBuf>,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum Advice {
    Normal,
    Sequential,
    Random,
}

/// A policy as it was named, and what it is made with.
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
        return Err(format!("there is no such policy; there are {}", known.join(", ")));
    }
    let (row, settings) = registry::parse_readahead(text).map_err(|error| error.to_string())?;
    Ok(Policy { name: text.to_owned(), row: row.name, settings })
}

fn parse_pattern(text: &str) -> Result<Pattern, String> {
    let found = Pattern::ALL.iter().find(|(name, _)| *name == text).map(|(_, pattern)| *pattern);
    let known = || Pattern::ALL.map(|(name, _)| name).join(", ");
    found.ok_or_else(|| format!("there is no such pattern; there are {}", known()))
}

/// The policies, from their table.
fn after_help() -> String {
    let mut help = String::from("Policies; docs/readahead.md says more:\n");
    for row in TABLE {
        help += &format!("  {:14} {}\n", row.name, row.summary);
    }
    help + "\nPatterns: sequential, random, interleaved (sequences that take turns), strided, reverse, runs (short \
            sequences at random\nplaces), mixed (a sequence and random reads in turns).\n\n\
            Examples:\n  platter readahead --pattern random --threads 16\n  \
            platter readahead --policy 2.6.5 2.6.6+private platter --pattern interleaved --streams 8 --request 4K\n  \
            platter readahead --policy 'context(conservative=1)' --pattern sequential --request 4K --count 100 --json\n  \
            platter readahead --trace reads.txt --report readahead.html\n\n\
            A line of a trace: `1 0 400K 20K` is thread 1, handle 0, 20 KiB at 400 KiB. What follows a # is a comment.\n\
            Nothing is read from any device: the page cache is a model, and its figures are the same on every machine."
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
        // Better to learn now that the page cannot be written.
        if let Some(path) = &self.report {
            let open = std::fs::OpenOptions::new().append(true).create(true).open(path);
            open.map_err(|error| cannot_write(path, &error))?;
        }
        let mut report = Report { reads: what, policies: Vec::new() };
        for policy in self.policies() {
            if context.is_interrupted() {
                return Err(context.interruption("interrupted: nothing is shown"));
            }
            let Some(row) = row(policy.row) else { continue };
            let settings = Settings { max, optimal, ..policy.settings };
            report.policies.push((policy.name, run(row, &settings, &machine, &reads)));
        }
        if let Some(path) = &self.report {
            std::fs::write(path, report.to_html()).map_err(|error| cannot_write(path, &error))?;
        }
        match context.json {
            true => context.print_json(&report.to_json()),
            false => context.print(&report.to_text(context.color)),
        }
    }

    fn policies(&self) -> Vec<Policy> {
        if !self.policy.is_empty() {
            return self.policy.clone();
        }
        let policy =
            |row: &Row| Policy { name: row.name.to_owned(), row: row.name, settings: Settings::default() };
        TABLE.iter().map(policy).collect()
    }

    /// The largest window and the device's optimum, in pages.
    fn windows(&self) -> Result<(u32, u32), CliError> {
        let pages = |option: &str, bytes: u64| match u32::try_from(bytes / PAGE) {
            Ok(pages) if bytes <= MOST_MAX => Ok(pages),
            _ => Err(out_of_range(option, format_size(bytes), "0 to 256M")),
        };
        let max = pages("--max", self.max)?;
        Ok((max, self.optimal.map_or(Ok(max), |bytes| pages("--optimal", bytes))?))
    }

    fn machine(&self) -> Result<Machine, CliError> {
        if self.size < PAGE || self.size > MOST_SIZE {
            return Err(out_of_range("--size", format_size(self.size), "4K to 64P"));
        }
        let pages = self.cache.map(|bytes| usize::try_from(bytes / PAGE).unwrap_or(usize::MAX));
        if let (Some(0), Some(bytes)) = (pages, self.cache) {
            return Err(out_of_range("--cache", format_size(bytes), "4K or more"));
        }
        if self.latency == 0 || self.latency > 1_000_000 {
            return Err(out_of_range("--latency", self.latency.to_string(), "1 to 1000000"));
        }
        if self.requests == 0 || self.requests > 1 << 20 {
            return Err(out_of_range("--requests", self.requests.to_string(), "1 to 1048576"));
        }
        let hint = match self.advise {
            Advice::Normal => Hint::Normal,
            Advice::Sequential => Hint::Sequential,
            Advice::Random => Hint::Random,
        };
        let (latency, requests) = (self.latency, self.requests);
        Ok(Machine { pages: self.size / PAGE, cache: pages, cached: Vec::new(), latency, requests, hint })
    }

    /// The reads, and what they are.
    fn reads(&self) -> Result<(String, Vec<Read>), CliError> {
        if let Some(path) = &self.trace {
            let reads = read_trace(path)?;
            return Ok((format!("{} reads of {}", reads.len(), path.display()), reads));
        }
        let most = |option, value: u64, most: u64| match value {
            _ if value == 0 || value > most => {
                Err(out_of_range(option, value.to_string(), &format!("1 to {most}")))
            }
            _ => Ok(()),
        };
        most("--count", self.count, trace::MOST as u64)?;
        most("--request", self.request, self.size.min(1 << 32))?;
        most("--threads", self.threads.into(), trace::MOST_NUMBERS.into())?;
        most("--handles", self.handles.into(), trace::MOST_NUMBERS.into())?;
        most("--streams", self.streams, 1 << 20)?;
        most("--stride", self.stride, self.size)?;
        most("--run", self.run, 1 << 20)?;
        if self.start >= self.size {
            let size = format_size(self.size);
            return Err(CliError::usage(format!("--start must lie on the device, which has {size}")));
        }
        let span = self.span.unwrap_or(self.size - self.start);
        most("--span", span, self.size - self.start)?;
        let workload = Workload {
            pattern: self.pattern,
            request: self.request,
            count: self.count,
            start: self.start,
            span,
            streams: self.streams,
            stride: self.stride,
            run: self.run,
            threads: self.threads,
            handles: self.handles,
            seed: self.seed,
        };
        let what = format!(
            "{} reads of {}, {}, threads: {}, handles: {}, windows up to {}",
            self.count,
            format_size(self.request),
            self.pattern.name(),
            self.threads,
            self.handles,
            format_size(self.max)
        );
        Ok((what, workload.reads()))
    }
}

fn row(name: &str) -> Option<&'static Row> {
    platter_block::readahead::by_name(name)
}

fn out_of_range(option: &str, value: String, allowed: &str) -> CliError {
    CliError::usage(format!("{option} {value} is out of range: {allowed}"))
}

fn read_trace(path: &Path) -> Result<Vec<Read>, CliError> {
    let cannot = |error: &dyn std::fmt::Display| {
        CliError::new(Exit::CannotOpen, format!("cannot read the trace {}: {error}", path.display()))
    };
    let file = std::fs::File::open(path).map_err(|error| cannot(&error))?;
    let mut text = String::new();
    file.take(MOST_TRACE + 1).read_to_string(&mut text).map_err(|error| cannot(&error))?;
    if text.len() as u64 > MOST_TRACE {
        return Err(cannot(&"it is larger than 1 GiB; cut it into several"));
    }
    let size = |text: &str| parse_size(text).map_err(|error| error.to_string());
    trace::parse(&text, size).map_err(|error| CliError::usage(format!("{}: {error}", path.display())))
}

fn cannot_write(path: &Path, error: &std::io::Error) -> CliError {
    CliError::failed(format!("cannot write the report {}: {error}; give another path", path.display()))
}
