//! One point of a figure: the configuration and the result.

use super::busy::Busy;
use super::{ChunkedError, Personality, WINDOWS_STRIPE};
use crate::device_stats::DeviceStats;
use crate::report::json::{joined, span_ns};
use crate::report::units;
use platter_block::time::Span;
use serde::{Serialize, Serializer};
use serde_json::json;

/// Where requests go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// Chunks of this many bytes at random positions, each read sequentially.
    Chunks(u64),
    /// From the beginning to the end, and again.
    Stream,
}

/// The configuration of one point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cell {
    /// The source of the requests.
    pub personality: Personality,
    /// How many of the disks are used, from the first on.
    pub disks: usize,
    /// Bytes on one disk before the next; of no meaning without an array.
    pub stripe: u64,
    /// Bytes of a request.
    pub request: u64,
    /// Where requests go.
    pub pattern: Pattern,
    /// Write instead of read.
    pub write: bool,
    /// Requests at once, of personalities that keep several.
    pub depth: usize,
    /// Bytes that `kernel-2.4` reads ahead; `None`: a stripe.
    pub readahead: Option<u64>,
    /// Whether its readahead continues past the end of the request.
    pub overrun: bool,
}

/// How a point is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Harness {
    /// Samples of each load element.
    pub samples: usize,
    /// Shortest time of a sample.
    #[serde(rename = "enough_ns", serialize_with = "span_ns")]
    pub enough: Span,
    /// Seed of the places of chunks.
    pub seed: u64,
}

/// A point that was measured. Rates are of all disks together, in MiB/s.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The configuration.
    pub cell: Cell,
    /// Lower quartile, median and upper quartile.
    pub quartiles: [f64; 3],
    /// How many samples that is of.
    pub samples: usize,
    /// The activity of the disks, if it was requested.
    pub busy: Option<Busy>,
    /// Errors and latencies of the disks.
    pub device: DeviceStats,
}

impl Serialize for Point {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let cell = &self.cell;
        let point = json!({
            "personality": cell.personality.name(),
            "disks": cell.disks,
            "stripe_bytes": cell.stripe(),
            "chunk_bytes": cell.chunk(),
            "request_bytes": cell.request,
            "rw": if cell.write { "write" } else { "read" },
            "depth": cell.depth(),
            "mib_per_s_median": self.quartiles[1],
            "mib_per_s_q1": self.quartiles[0],
            "mib_per_s_q3": self.quartiles[2],
            "samples": self.samples,
            "busy_pct": self.busy.as_ref().map(|busy| &busy.mean_pct),
        });
        joined(point, &self.device).serialize(serializer)
    }
}

impl Point {
    /// The median in MiB/s.
    pub fn median(&self) -> f64 {
        self.quartiles[1]
    }
}

/// Smallest request: a sector.
const SMALLEST: u64 = 512;
/// Largest: buffers for it must be had.
const LARGEST: u64 = 1 << 30;
/// Most bytes of buffers in one process.
const MEMORY: u64 = 2 << 30;
/// Most requests at once.
const DEEPEST: usize = 4096;

impl Cell {
    /// A point with the values that the paper's figures have in common: chunks that are one request, reads, stripes
    /// of 512 KiB, four requests at once.
    pub fn new(personality: Personality, disks: usize, request: u64) -> Cell {
        Cell {
            personality,
            disks,
            stripe: 512 << 10,
            request,
            pattern: Pattern::Chunks(request),
            write: false,
            depth: 4,
            readahead: None,
            overrun: true,
        }
    }

    /// The stripe of its array; `None` without an array.
    pub fn stripe(&self) -> Option<u64> {
        match self.personality {
            Personality::Jbod => None,
            Personality::Windows => Some(WINDOWS_STRIPE),
            _ => Some(self.stripe),
        }
    }

    /// Bytes of a chunk; `None`: one that has no end.
    pub fn chunk(&self) -> Option<u64> {
        match self.pattern {
            Pattern::Chunks(bytes) => Some(bytes),
            Pattern::Stream => None,
        }
    }

    /// Requests at once of each process.
    pub(super) fn depth(&self) -> usize {
        if self.personality.is_deep() { self.depth } else { 1 }
    }

    /// The unit that `kernel-2.4` reads at once, and how many more of these it reads ahead.
    ///
    /// Source: `generic_file_readahead` of Linux 2.4, whose window was never larger than the first read.
    pub(super) fn kernel_units(&self) -> (u64, usize) {
        let unit = self.stripe.min(self.request);
        let ahead = self.readahead.unwrap_or(self.stripe).min(self.request);
        (unit, (ahead / unit) as usize)
    }

    /// A short description.
    pub fn describe(&self) -> String {
        let disks = if self.disks == 1 { "1 disk".to_owned() } else { format!("{} disks", self.disks) };
        let stripe = match self.stripe() {
            Some(stripe) => format!(", stripes of {}", units::bytes(stripe)),
            None => String::new(),
        };
        format!("{}, {disks}, requests of {}{stripe}", self.personality.name(), units::bytes(self.request))
    }

    /// Checks the configuration without the disks.
    ///
    /// # Errors
    /// The first invalid value.
    pub fn check(&self) -> Result<(), ChunkedError> {
        let wrong = |message: String| Err(ChunkedError::Option(message));
        let request = self.request;
        if !(SMALLEST..=LARGEST).contains(&request) || !request.is_multiple_of(SMALLEST) {
            let request = units::bytes_short(request);
            return wrong(format!("requests of {request}: expected multiples of 512 from 512 to 1G"));
        }
        if let Pattern::Chunks(chunk) = self.pattern
            && (chunk < request || !chunk.is_multiple_of(request))
        {
            let (chunk, request) = (units::bytes_short(chunk), units::bytes_short(request));
            return wrong(format!(
                "chunks of {chunk} with requests of {request}: expected a multiple of that"
            ));
        }
        if let Some(stripe) = self.stripe()
            && !(stripe.is_power_of_two() && (SMALLEST..=LARGEST).contains(&stripe))
        {
            let stripe = units::bytes_short(stripe);
            return wrong(format!("stripes of {stripe}: expected a power of two from 512 to 1G"));
        }
        if self.disks == 0 {
            return wrong("no disks: expected at least one".to_owned());
        }
        if !(1..=DEEPEST).contains(&self.depth) {
            return wrong(format!("a depth of {}: expected 1 to {DEEPEST}", self.depth));
        }
        let buffers = match self.personality {
            Personality::Kernel24 => {
                let (unit, ahead) = self.kernel_units();
                if !request.is_multiple_of(unit) {
                    let (request, unit) = (units::bytes_short(request), units::bytes_short(unit));
                    return wrong(format!(
                        "kernel-2.4 with requests of {request} and stripes of {unit}: expected requests that are \
                         whole stripes, or less than one"
                    ));
                }
                unit.saturating_mul(super::kernel::buffers(ahead) as u64)
            }
            _ => request * self.depth() as u64,
        };
        if buffers > MEMORY {
            let (buffers, most) = (units::bytes(buffers), units::bytes(MEMORY));
            return wrong(format!(
                "buffers of {buffers} in one process: at most {most}; use a smaller depth or readahead"
            ));
        }
        Ok(())
    }
}

impl Harness {
    /// Checks all values.
    ///
    /// # Errors
    /// The first invalid value.
    pub fn check(&self) -> Result<(), ChunkedError> {
        if !(1..=1_000_000).contains(&self.samples) {
            return Err(ChunkedError::Option(format!("{} samples: expected 1 to 1000000", self.samples)));
        }
        Ok(())
    }
}
