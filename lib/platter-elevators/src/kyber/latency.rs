//! Latencies of a domain, in quarters of its target.

use platter_block::time::{Span, Time};

/// Buckets of a histogram; each is a quarter of the target wide, and the last one has no upper bound.
const BUCKETS: usize = 8;
/// From this bucket on, the target is missed.
pub(super) const GOOD: usize = 4;

/// A percentile is computed once there are this many samples,
const ENOUGH: u64 = 500;
/// or this long after the first check of the samples.
const PATIENCE: Span = Span::from_secs(1);

/// Which latency of a request is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// From arrival to completion.
    Total = 0,
    /// In the device.
    Device = 1,
}

#[derive(Clone, Copy, Debug, Default)]
struct Histogram([u64; BUCKETS]);

impl Histogram {
    #[inline]
    fn add(&mut self, target: Span, latency: Span) {
        let quarter = (target.0 / GOOD as u64).max(1);
        let bucket = latency.0.saturating_sub(1) / quarter;
        self.0[bucket.min(BUCKETS as u64 - 1) as usize] += 1;
    }

    fn samples(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The bucket of this percentile of the samples.
    fn percentile(&self, percent: u64) -> Option<usize> {
        let wanted = (self.samples() * percent).div_ceil(100);
        let mut seen = 0;
        self.0.iter().position(|&count| {
            seen += count;
            seen >= wanted
        })
    }
}

/// Latencies of a domain since the last evaluation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Latencies {
    histograms: [Histogram; 2],
    /// When fewer samples are enough. One time for both histograms, as in the kernel: below 500 samples a second they are
    /// evaluated in turns.
    due: Option<Time>,
    /// The last p99 of total latencies that did not lead to an adjustment.
    earlier: Option<usize>,
}

impl Latencies {
    /// A request has completed.
    #[inline]
    pub(super) fn add(&mut self, target: Span, total: Span, device: Span) {
        self.histograms[Stage::Total as usize].add(target, total);
        self.histograms[Stage::Device as usize].add(target, device);
    }

    /// The bucket of a percentile, if there are enough samples; the samples are then discarded.
    pub(super) fn percentile(&mut self, now: Time, stage: Stage, percent: u64) -> Option<usize> {
        let histogram = &mut self.histograms[stage as usize];
        let samples = histogram.samples();
        if samples == 0 {
            return None;
        }
        let due = *self.due.get_or_insert(now + PATIENCE);
        if samples < ENOUGH && now < due {
            return None;
        }
        self.due = None;
        core::mem::take(histogram).percentile(percent)
    }

    /// The bucket of the 99th percentile of total latencies. If a domain misses its target (`bad`), an
    /// earlier result is used when there are too few new samples.
    pub(super) fn total_p99(&mut self, now: Time, bad: bool) -> Option<usize> {
        let p99 = self.percentile(now, Stage::Total, 99);
        if bad {
            let earlier = self.earlier.take();
            return p99.or(earlier);
        }
        self.earlier = p99.or(self.earlier);
        p99
    }
}
