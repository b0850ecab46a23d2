//! What a replay keeps account of.

use std::sync::Arc;

use platter_block::bio::{Bio, Op};
use platter_block::fault::Error as DeviceError;
use platter_block::time::{Span, Time};

use super::depths::Meter;
use super::options::Mode;
use super::step::{Fate, Io, KINDS, MARKS};
use crate::stats::LatencyHistogram;

/// I/Os and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// I/Os.
    pub ios: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Count {
    fn add(&mut self, bytes: u64) {
        self.ios += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// What became of the I/Os of a kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fates {
    /// In the trace.
    pub trace: Count,
    /// Replayed as they were; bytes are those of the trace.
    pub replayed: Count,
    /// Replayed with another operation or size; bytes are those of the replay.
    pub changed: Count,
    /// Left out; bytes are those of the trace.
    pub skipped: Count,
}

impl Fates {
    fn add(&mut self, io: &Io) {
        self.trace.add(io.bytes);
        let moved = io.aim.map_or(io.bytes, |aim| aim.length);
        match io.fate {
            Fate::Replayed => self.replayed.add(moved),
            Fate::Changed => self.changed.add(moved),
            Fate::Skipped => self.skipped.add(io.bytes),
        }
    }
}

/// Latencies of a kind.
pub(super) struct Latencies {
    pub(super) replay: LatencyHistogram,
    pub(super) trace: LatencyHistogram,
}

impl Latencies {
    fn new() -> Latencies {
        Latencies { replay: LatencyHistogram::new(), trace: LatencyHistogram::new() }
    }
}

/// An I/O in flight.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flight {
    pub(super) number: u64,
    pub(super) kind: usize,
    pub(super) target: usize,
    /// When it was meant to start.
    pub(super) due: Time,
    /// When it did.
    pub(super) start: Time,
    pub(super) length: u64,
    /// Whether its end in the trace comes.
    pub(super) ends: bool,
}

/// The account of a replay.
pub(super) struct Account {
    /// An I/O is on time if its start has a time at all.
    timed: bool,
    threshold: Span,
    /// Where times of the replay and of the trace begin.
    start: Time,
    origin_ns: u64,
    /// The last I/O of the trace that was looked at.
    pub(super) trace_ns: u64,
    pub(super) kinds: [Fates; KINDS.len()],
    pub(super) marks: [Fates; MARKS.len()],
    pub(super) moved: u64,
    pub(super) latencies: [Latencies; KINDS.len()],
    /// How much later than meant each started.
    pub(super) delays: LatencyHistogram,
    pub(super) late: u64,
    /// I/Os that waited for room, and times that the trace had not been read far enough.
    pub(super) held: u64,
    pub(super) waits: u64,
    pub(super) depths: Meter,
    pub(super) trace_depths: Meter,
    pub(super) devices: Vec<Count>,
    pub(super) completed: Count,
    pub(super) errors: [u64; KINDS.len()],
    pub(super) first_error: Option<DeviceError>,
}

impl Account {
    pub(super) fn new(mode: Mode, threshold: Span, devices: usize) -> Account {
        Account {
            timed: mode != Mode::Closed,
            threshold,
            start: Time::default(),
            origin_ns: 0,
            trace_ns: 0,
            kinds: Default::default(),
            marks: Default::default(),
            moved: 0,
            latencies: core::array::from_fn(|_| Latencies::new()),
            delays: LatencyHistogram::new(),
            late: 0,
            held: 0,
            waits: 0,
            depths: Meter::new(),
            trace_depths: Meter::new(),
            devices: vec![Count::default(); devices],
            completed: Count::default(),
            errors: Default::default(),
            first_error: None,
        }
    }

    /// Times begin here.
    pub(super) fn begin(&mut self, start: Time) {
        self.start = start;
    }

    /// The trace begins here.
    pub(super) fn begin_trace(&mut self, origin_ns: u64) {
        self.origin_ns = origin_ns;
    }

    /// An I/O of the trace is replayed or left out now.
    pub(super) fn take(&mut self, io: &Io) {
        self.trace_ns = io.at_ns.saturating_sub(self.origin_ns);
        self.kinds[io.kind].add(io);
        for (fates, has) in self.marks.iter_mut().zip(io.marks) {
            if has {
                fates.add(io);
            }
        }
        self.moved += u64::from(io.aim.is_some_and(|aim| aim.moved));
        if let Some(latency) = io.latency_ns {
            self.latencies[io.kind].trace.record(latency);
            self.trace_depths.start(self.trace_ns);
        }
    }

    /// An I/O ended in the trace.
    pub(super) fn end_in_trace(&mut self, at_ns: u64) {
        self.trace_depths.end(at_ns.saturating_sub(self.origin_ns));
    }

    /// An I/O starts.
    pub(super) fn started(&mut self, flight: &Flight) {
        if self.timed {
            let delay = flight.start.since(flight.due);
            self.delays.record(delay.0);
            self.late += u64::from(delay > self.threshold);
        }
        self.devices[flight.target].add(flight.length);
        self.depths.start(flight.start.since(self.start).0);
    }

    /// An I/O has ended.
    pub(super) fn completed(&mut self, flight: &Flight, now: Time, bio: &Bio, device: &Arc<str>) {
        self.depths.end(now.since(self.start).0);
        match bio.status() {
            Ok(()) => {
                self.completed.add(flight.length);
                self.latencies[flight.kind].replay.record(now.since(flight.start).0);
            }
            Err(fault) => {
                self.errors[flight.kind] += 1;
                let (device, offset, detail) = (Arc::clone(device), bio.pos() - bio.done(), String::new());
                let offset = if bio.op() == Op::Flush { 0 } else { offset };
                let error = DeviceError { fault, op: bio.op(), device, offset, len: flight.length, detail };
                self.first_error.get_or_insert(error);
            }
        }
    }

    pub(super) fn failed(&self) -> u64 {
        self.errors.iter().sum()
    }
}
