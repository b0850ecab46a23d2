//! The counts of a thread.

use super::requests::Request;
use crate::stats::LatencyHistogram;

/// Reads, writes, fsyncs.
pub(super) const KINDS: usize = 3;

/// Counts and latencies by kind. Fsyncs at the end of the run have no latency: they are no events.
pub(super) struct Tally {
    pub(super) counts: [u64; KINDS],
    pub(super) latency: [LatencyHistogram; KINDS],
    /// Fsyncs that followed their write (`fsync_all`) or came at the end: counted, but in no histogram.
    pub(super) other_syncs: u64,
}

impl Tally {
    pub(super) fn new() -> Tally {
        let latency = std::array::from_fn(|_| LatencyHistogram::new());
        Tally { counts: [0; KINDS], latency, other_syncs: 0 }
    }

    pub(super) fn record(&mut self, request: Request, ns: u64) {
        let kind = match request {
            Request::Read { .. } => 0,
            Request::Write { .. } => 1,
            Request::Sync { .. } => 2,
        };
        self.counts[kind] += 1;
        self.latency[kind].record(ns);
    }

    pub(super) fn merge(&mut self, other: &Tally) {
        for kind in 0..KINDS {
            self.counts[kind] += other.counts[kind];
            self.latency[kind].merge(&other.latency[kind]);
        }
        self.other_syncs += other.other_syncs;
    }
}
