//! Expectations: think times and seek distances of processes, and how often waiting for a new process
//! succeeds. Integers with truncation, 256 for one, as the kernels computed.

use super::mean::{FirstMean, ONE};
use super::process::Process;

/// Longest think time that is counted, in ticks.
const MAX_THINK_TIME: u64 = 20;

/// Larger distances, in sectors, count as this.
const MAX_DISTANCE: u64 = 1 << 44;

/// Moves an estimated probability towards one by an eighth of the distance.
fn towards_one(probability: &mut u64) {
    *probability = (7 * *probability + ONE) / 8;
}

fn towards_zero(probability: &mut u64) {
    *probability = 7 * *probability / 8;
}

/// What the elevator has learned about processes in general.
#[derive(Clone, Copy, Debug)]
pub(super) struct Estimate {
    pub(super) exit_prob: u64,
    pub(super) exit_no_coop: u64,
    pub(super) new_think_time: FirstMean,
    pub(super) new_seek: FirstMean,
    /// Twice the probability that waiting for a new process succeeds (2.6.0 only).
    pub(super) new_success: u64,
}

impl Default for Estimate {
    fn default() -> Self {
        let none = FirstMean::default();
        Estimate { exit_prob: 0, exit_no_coop: 0, new_think_time: none, new_seek: none, new_success: ONE }
    }
}

impl Estimate {
    /// A synchronous request of `process` arrives, or one that counts as its request.
    pub(super) fn arrives(&mut self, process: &mut Process, now: u64, (start, end): (u64, u64), wait: u64) {
        if process.started || process.served {
            let rested = process.served && process.in_flight() == 0;
            let think_time = if rested { now.saturating_sub(process.last_end) } else { 0 };
            self.think_time(process, think_time.min(MAX_THINK_TIME - 1), wait);
            self.seek(process, start.abs_diff(process.last_pos).min(MAX_DISTANCE));
        }
        process.last_pos = end;
        process.started = true;
    }

    fn think_time(&mut self, process: &mut Process, sample: u64, wait: u64) {
        if process.think_time.samples == 0 {
            self.new_think_time.add(sample);
            towards_zero(&mut self.exit_prob);
            let success = if sample <= wait { 2 * ONE } else { 0 };
            self.new_success = (7 * self.new_success + success) / 8;
        }
        process.think_time.add(sample);
    }

    fn seek(&mut self, process: &mut Process, sample: u64) {
        if process.seek.samples == 0 {
            self.new_seek.add(sample);
        }
        // A single request far away, such as for a page fault, must not distort the mean.
        let stray = if process.seek.samples <= 60 { 2 << 20 } else { 128 << 10 };
        process.seek.add(sample.min(4 * process.seek.mean + stray));
    }

    /// A wait for `process` ended without a request.
    pub(super) fn timed_out(&mut self, process: &Process) {
        if process.think_time.samples == 0 {
            towards_one(&mut self.exit_prob);
            towards_zero(&mut self.new_success);
        }
        if !process.running {
            towards_one(&mut self.exit_no_coop);
        }
    }

    /// A process is found to have exited at the end of a wait.
    pub(super) fn ended(&mut self, process: &Process) {
        if process.think_time.samples == 0 {
            towards_one(&mut self.exit_prob);
        }
    }

    /// Another process continued the stream of the one that has exited.
    pub(super) fn saved(&mut self) {
        towards_zero(&mut self.exit_no_coop);
    }
}
