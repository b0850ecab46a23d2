//! What happens over time, in at most [`BINS`] equal parts: as the trace gets longer, two become one.

use super::access;
use super::distinct::Distinct;
use crate::event::{Event, Kind};

/// Parts at most.
pub(super) const BINS: usize = 128;
/// Length of a part at first, in ns.
const FIRST_NS: u64 = 1_000;
/// Registers of the counts of blocks, as a power of two: a standard error of 2.3 %.
const BITS: u32 = 11;

/// A part of the time.
#[derive(Clone, Debug)]
pub(super) struct Bin {
    pub(super) ios: [u64; 5],
    pub(super) bytes: [u64; 5],
    blocks: Distinct,
}

/// A part of the time, summed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Reads, writes, discards, flushes, others.
    pub ios: [u64; 5],
    /// Their bytes.
    pub bytes: [u64; 5],
    /// Bytes of different blocks that were read or written.
    pub working_set_bytes: u64,
    /// The same since the start of the trace.
    pub since_start_bytes: u64,
}

/// All parts.
pub(super) struct Timeline {
    pub(super) width_ns: u64,
    bins: Vec<Bin>,
}

impl Default for Bin {
    fn default() -> Bin {
        Bin { ios: [0; 5], bytes: [0; 5], blocks: Distinct::new(BITS) }
    }
}

impl Default for Timeline {
    fn default() -> Timeline {
        Timeline { width_ns: FIRST_NS, bins: Vec::new() }
    }
}

impl Timeline {
    /// Adds an I/O that was this long after the start.
    pub(super) fn add(&mut self, since_ns: u64, event: &Event, hashes: impl Iterator<Item = u64>) {
        while since_ns / self.width_ns >= BINS as u64 {
            self.fold();
        }
        let at = (since_ns / self.width_ns) as usize;
        if self.bins.len() <= at {
            self.bins.resize_with(at + 1, Bin::default);
        }
        let bin = &mut self.bins[at];
        let kind = event.kind() as usize;
        bin.ios[kind] += 1;
        bin.bytes[kind] = bin.bytes[kind].saturating_add(event.length);
        if matches!(event.kind(), Kind::Read | Kind::Write) {
            hashes.for_each(|hash| bin.blocks.add(hash));
        }
    }

    fn fold(&mut self) {
        self.width_ns = self.width_ns.saturating_mul(2);
        let mut halves = std::mem::take(&mut self.bins).into_iter();
        while let Some(mut bin) = halves.next() {
            if let Some(other) = halves.next() {
                for kind in 0..5 {
                    bin.ios[kind] += other.ios[kind];
                    bin.bytes[kind] = bin.bytes[kind].saturating_add(other.bytes[kind]);
                }
                bin.blocks.merge(&other.blocks);
            }
            self.bins.push(bin);
        }
    }

    pub(super) fn spans(&self) -> Vec<Span> {
        let mut all = Distinct::new(BITS);
        let span = |bin: &Bin| {
            all.merge(&bin.blocks);
            Span {
                ios: bin.ios,
                bytes: bin.bytes,
                working_set_bytes: bin.blocks.count() * access::BLOCK,
                since_start_bytes: all.count() * access::BLOCK,
            }
        };
        self.bins.iter().map(span).collect()
    }
}
