//! A process at work.

use super::cache::Cache;
use super::step::{Process, SLOTS};
use crate::stats::LatencyHistogram;
use platter_block::time::{Span, Time};

/// The result of a process.
#[derive(Clone, Debug)]
pub struct Record {
    /// Its name.
    pub name: String,
    /// How long it took from its own start, if it has finished.
    pub took: Option<Span>,
    /// Bytes that were read and written until its end, or that of the run: those on the disk.
    pub bytes: u64,
    /// Its I/Os without those of the page cache, from the submission to the completion, or to the end of the run
    /// for those that were still out then.
    pub latency: LatencyHistogram,
    /// How long it ran: until its end, or that of the run.
    pub ran: Span,
}

impl Record {
    /// MiB per second while it ran.
    pub fn mib_per_s(&self) -> f64 {
        crate::report::units::mib_per_s(self.bytes, self.ran.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Going,
    Thinking(Time),
    Awaiting(u8),
    /// Too much is dirty.
    Throttled,
    /// Until all dirty data is written; the flush follows.
    Syncing,
    Over,
}

pub(super) struct Task {
    pub(super) process: Process,
    pub(super) state: State,
    pub(super) pending: [u32; SLOTS],
    pub(super) cache: Cache,
    pub(super) begin: Time,
    pub(super) record: Record,
}

impl Task {
    pub(super) fn new(process: Process, start: Time) -> Task {
        let begin = start + process.after;
        let record = Record {
            name: process.name.clone(),
            took: None,
            bytes: 0,
            latency: LatencyHistogram::new(),
            ran: Span::ZERO,
        };
        Task {
            state: State::Thinking(begin),
            pending: [0; SLOTS],
            cache: Cache::new(process.cache),
            begin,
            record,
            process,
        }
    }

    /// Whether it has to wait for something at `now`.
    pub(super) fn is_blocked(&self, now: Time) -> bool {
        match self.state {
            State::Going => false,
            State::Thinking(until) => now < until,
            State::Awaiting(slot) => self.pending[usize::from(slot) % SLOTS] > 0,
            State::Throttled => self.cache.is_full(),
            State::Syncing => !self.cache.is_clean(),
            State::Over => true,
        }
    }
}
