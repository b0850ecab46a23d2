//! How a trace is replayed, as the command line has it.

use crate::cli::{CliError, Size, Time};
use clap::{Args, ValueEnum};
use platter_bench::replay::{self, Fitting, ReplayOptions};

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// At the times of the trace
    Open,
    /// As many in flight as --depth says, without waiting
    Closed,
    /// As long after the completions before its arrival as in the trace
    Dependency,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum Fit {
    /// End with a message
    Refuse,
    /// Go round: behind the end comes the beginning
    Wrap,
    /// Move all places closer together, in pieces of 1 MiB
    Scale,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum Writes {
    /// They stay writes
    Keep,
    /// They become reads; flushes and discards are left out
    Read,
    /// They are left out, as flushes and discards are
    Skip,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum Discards {
    /// They stay discards
    Keep,
    /// They are left out
    Skip,
}

/// A time: `2` is two seconds; `2s`, `500ms`.
fn seconds(text: &str) -> Result<Time, String> {
    Time::parse(text, "s")
}

/// A time: `100` is a hundred microseconds; `100us`, `1ms`.
fn micros(text: &str) -> Result<Time, String> {
    Time::parse(text, "us")
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Replay")]
pub(super) struct Options {
    /// When an I/O starts
    #[arg(long, value_name = "MODE", default_value = "open")]
    mode: Mode,
    /// Times as fast as in the trace: 2 halves all times, 0.5 doubles them
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    speed: f64,
    /// Most I/Os in flight; --mode closed keeps as many [default: 4096; required with --mode closed]
    #[arg(long, value_name = "N")]
    depth: Option<u32>,
    /// What becomes of I/Os beyond the end of a device
    #[arg(long, value_name = "HOW", default_value = "refuse")]
    fit: Fit,
    /// Size of the devices of the trace, for --fit scale [default: up to the last byte that the trace has]
    #[arg(long, value_name = "SIZE")]
    trace_size: Option<Size>,
    /// Round I/Os out to whole blocks of the device
    #[arg(long)]
    align: bool,
    /// What becomes of writes
    #[arg(long, value_name = "HOW", default_value = "keep")]
    writes: Writes,
    /// What becomes of discards
    #[arg(long, value_name = "HOW", default_value = "keep")]
    discards: Discards,
    /// Replay only this many I/Os
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Start nothing after this long: 2 (seconds), 2s, 500ms
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    runtime: Option<Time>,
    /// An I/O that starts later than this after its time counts as late: 100 (microseconds), 100us, 1ms
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = micros)]
    late: Time,
    /// Go on until more I/Os than this have failed
    #[arg(long, value_name = "N", default_value_t = 0)]
    max_errors: u64,
    /// Seed of what is written, and of simulated devices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

impl Options {
    pub(super) fn options(&self) -> Result<ReplayOptions, CliError> {
        if self.mode == Mode::Closed && self.depth.is_none() {
            return Err(CliError::usage("--mode closed needs --depth, the number of I/Os to keep in flight"));
        }
        let usual = ReplayOptions::default();
        Ok(ReplayOptions {
            mode: match self.mode {
                Mode::Open => replay::Mode::Open,
                Mode::Closed => replay::Mode::Closed,
                Mode::Dependency => replay::Mode::Dependency,
            },
            speed: self.speed,
            depth: self.depth.unwrap_or(usual.depth),
            fit: match self.fit {
                Fit::Refuse => Fitting::Refuse,
                Fit::Wrap => Fitting::Wrap,
                Fit::Scale => Fitting::Scale,
            },
            trace_size: self.trace_size.as_ref().map(|size| size.bytes),
            align: self.align,
            writes: match self.writes {
                Writes::Keep => replay::Writes::Keep,
                Writes::Read => replay::Writes::Read,
                Writes::Skip => replay::Writes::Skip,
            },
            discards: match self.discards {
                Discards::Keep => replay::Discards::Keep,
                Discards::Skip => replay::Discards::Skip,
            },
            late: self.late.value,
            limit: self.limit,
            runtime: self.runtime.as_ref().map(|time| time.value),
            max_errors: self.max_errors,
            seed: self.seed,
        })
    }
}
