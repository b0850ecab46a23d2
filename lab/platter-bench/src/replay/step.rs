//! What a replay is made of, in the order of the trace.

use platter_block::bio::{Context, Flags, Op};
use platter_traces::{Event, Flags as Marks, Kind as Traced};

/// The kinds that are told apart, with their keys.
pub(super) const KINDS: [(&str, &str); 6] = [
    ("read", "reads"),
    ("write", "writes"),
    ("write_zeroes", "writes of zeroes"),
    ("discard", "discards"),
    ("flush", "flushes without data"),
    ("other", "others"),
];

/// Properties of writes that are counted in addition.
pub(super) const MARKS: [(&str, &str); 2] =
    [("preflush", "writes behind a flush"), ("fua", "forced unit access")];

/// The number of an I/O's kind.
pub(super) fn kind_of(event: &Event) -> usize {
    match event.kind() {
        Traced::Flush => 4,
        // Without data there is nothing to do.
        _ if event.length == 0 => 5,
        Traced::Read => 0,
        Traced::Write if event.flags.has(Marks::ZEROES) => 2,
        Traced::Write => 1,
        Traced::Discard => 3,
        Traced::Other => 5,
    }
}

/// What became of an I/O of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is replayed as it was; perhaps in another place.
    Replayed,
    /// It is replayed with another operation or size.
    Changed,
    /// It is left out.
    Skipped,
}

/// The operation that replays an I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Aim {
    /// The device.
    pub(super) target: usize,
    pub(super) op: Op,
    pub(super) flags: Flags,
    /// The process of the trace, which elevators may look at.
    pub(super) context: Context,
    pub(super) offset: u64,
    pub(super) length: u64,
    /// Whether it is in another place than in the trace.
    pub(super) moved: bool,
}

/// An I/O of the trace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Io {
    /// Its number, from 0.
    pub(super) number: u64,
    /// When it arrived in the trace.
    pub(super) at_ns: u64,
    /// Its kind, as in [`KINDS`].
    pub(super) kind: usize,
    /// Whether it has each of [`MARKS`].
    pub(super) marks: [bool; 2],
    /// Bytes in the trace.
    pub(super) bytes: u64,
    pub(super) latency_ns: Option<u64>,
    pub(super) fate: Fate,
    /// `None` if it is skipped.
    pub(super) aim: Option<Aim>,
}

/// A step of a replay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Step {
    /// An I/O arrives.
    Io(Io),
    /// The I/O of this number ended in the trace, at this time.
    Ended { number: u64, at_ns: u64 },
}
