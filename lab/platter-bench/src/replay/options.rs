//! What a replay is asked for.

use core::time::Duration;

use super::error::ReplayError;
use super::fit::Fitting;
use crate::report::json::{by_name, seconds};
use crate::workload::DEFAULT_SEED;
use serde::Serialize;

/// When an I/O starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// At its time in the trace.
    Open,
    /// When there is room for it: as many as allowed are in flight, in the order of the trace.
    Closed,
    /// As long after the completions that came before it in the trace as there.
    Dependency,
}

impl Mode {
    /// Its name in reports and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Open => "open",
            Mode::Closed => "closed",
            Mode::Dependency => "dependency",
        }
    }
}

/// What becomes of writes of data and of zeroes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// They stay writes.
    Keep,
    /// They become reads of the same place.
    Read,
    /// They are left out.
    Skip,
}

impl Writes {
    /// Its name in reports and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Writes::Keep => "keep",
            Writes::Read => "read",
            Writes::Skip => "skip",
        }
    }
}

/// What becomes of discards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discards {
    /// They stay discards.
    Keep,
    /// They are left out.
    Skip,
}

impl Discards {
    /// Its name in reports and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Discards::Keep => "keep",
            Discards::Skip => "skip",
        }
    }
}

by_name!(Mode, Fitting, Writes, Discards);

/// What a replay is asked for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReplayOptions {
    /// When an I/O starts.
    pub mode: Mode,
    /// How many times as fast as in the trace time passes; more than 0.
    pub speed: f64,
    /// Most I/Os in flight, on all devices together.
    #[serde(rename = "depth_ios")]
    pub depth: u32,
    /// What becomes of I/Os beyond the end of a device.
    pub fit: Fitting,
    /// The size of the devices of the trace, if it is known.
    #[serde(rename = "trace_size_bytes")]
    pub trace_size: Option<u64>,
    /// Whether I/Os grow to whole blocks of the device.
    pub align: bool,
    /// What becomes of writes.
    pub writes: Writes,
    /// What becomes of discards.
    pub discards: Discards,
    /// An I/O that starts later than this after its time is late.
    #[serde(skip)]
    pub late: Duration,
    /// The replay ends after this many I/Os of the trace.
    #[serde(rename = "limit_ios")]
    pub limit: Option<u64>,
    /// It ends after this time: no I/O starts later.
    #[serde(rename = "runtime_s", serialize_with = "seconds")]
    pub runtime: Option<Duration>,
    /// It ends when more I/Os than this have failed.
    pub max_errors: u64,
    /// Seed of what is written.
    pub seed: u64,
}

/// Most I/Os in flight where nothing else is said.
const DEPTH: u32 = 4096;
/// Most that can be asked for.
const MOST_DEPTH: u32 = 65_536;

impl Default for ReplayOptions {
    /// At the times of the trace, everything as it is, to the first error.
    fn default() -> Self {
        Self {
            mode: Mode::Open,
            speed: 1.0,
            depth: DEPTH,
            fit: Fitting::Refuse,
            trace_size: None,
            align: false,
            writes: Writes::Keep,
            discards: Discards::Keep,
            late: Duration::from_millis(1),
            limit: None,
            runtime: None,
            max_errors: 0,
            seed: DEFAULT_SEED,
        }
    }
}

impl ReplayOptions {
    /// Whether the values are within their bounds.
    pub(super) fn check(&self) -> Result<(), ReplayError> {
        let wrong = |text: String| Err(ReplayError::Options(text));
        if !(1..=MOST_DEPTH).contains(&self.depth) {
            return wrong(format!("--depth {}: expected 1 to {MOST_DEPTH}", self.depth));
        }
        if !(self.speed.is_finite() && self.speed > 0.0) {
            return wrong(format!("--speed {}: expected a number above 0", self.speed));
        }
        if self.mode == Mode::Closed && self.speed != 1.0 {
            return wrong(
                "--speed has no effect with --mode closed, which does not wait; leave it out".to_owned(),
            );
        }
        Ok(())
    }

    /// Whether anything of a trace may change a device.
    pub fn changes(&self) -> bool {
        self.writes == Writes::Keep
    }

    /// A span of the trace as it is in the replay.
    pub(super) fn scaled(&self, ns: u64) -> u64 {
        // Exact where nothing is scaled; a conversion beyond the range stays at its end.
        if self.speed == 1.0 { ns } else { (ns as f64 / self.speed).round() as u64 }
    }
}
