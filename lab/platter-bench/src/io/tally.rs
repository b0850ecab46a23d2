//! The counts of a job.

use platter_block::bio::Op;
use platter_block::time::{Span, Time};

use super::series::Intervals;
use crate::stats::LatencyHistogram;

pub(super) use super::series::DIRECTIONS;

/// The place of an operation among the directions.
#[inline]
pub(super) fn direction_of(op: Op) -> usize {
    match op {
        Op::Read => 0,
        Op::Discard => 2,
        Op::Write | Op::Flush | Op::WriteZeroes | Op::Command => 1,
    }
}

/// I/Os and latencies by direction. The time of an I/O that failed counts in neither.
#[derive(Debug, Clone)]
pub(super) struct Tally {
    pub(super) ios: [u64; DIRECTIONS],
    pub(super) latency: [LatencyHistogram; DIRECTIONS],
    /// I/Os that failed.
    pub(super) errors: u64,
    /// Blocks read back and checked.
    pub(super) verified: u64,
    /// Blocks whose contents were not those written.
    pub(super) verify_errors: u64,
    /// While they are measured, `latency` is that of the present one.
    pub(super) intervals: Intervals,
}

impl Tally {
    pub(super) fn new() -> Self {
        let latency = core::array::from_fn(|_| LatencyHistogram::new());
        let intervals = Intervals::default();
        Self { ios: [0; DIRECTIONS], latency, errors: 0, verified: 0, verify_errors: 0, intervals }
    }

    /// Resets the measurements at the end of the ramp time. Errors are kept.
    pub(super) fn forget(&mut self) {
        self.ios = [0; DIRECTIONS];
        self.latency.iter_mut().for_each(LatencyHistogram::clear);
    }

    /// I/Os in all directions.
    pub(super) fn all(&self) -> u64 {
        self.ios.iter().sum()
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for direction in 0..DIRECTIONS {
            self.ios[direction] += other.ios[direction];
            self.latency[direction].merge(&other.latency[direction]);
        }
        self.errors += other.errors;
        self.verified += other.verified;
        self.verify_errors += other.verify_errors;
    }

    /// Measures intervals from now on.
    pub(super) fn begin_intervals(&mut self, now: Time, step: Span) {
        self.intervals = Intervals::begin(now, step, self.all());
    }

    /// The time of what completes next.
    #[inline]
    pub(super) fn pass(&mut self, now: Time) {
        if self.intervals.is_over(now) {
            self.intervals.end(now, self.ios.iter().sum(), &mut self.latency);
        }
    }

    /// The measurement is over: the latencies are those of all of it.
    pub(super) fn finish_intervals(&mut self, now: Time) {
        let ios = self.all();
        self.intervals.finish(now, ios, &mut self.latency);
    }
}
