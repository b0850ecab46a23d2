//! Latencies of a domain, in quarters of its target.

use crate::time::{Span, Time};

/// Buckets of a histogram; each is a quarter of the target wide, the last one is open.
const BUCKETS: usize = 8;
/// From this bucket on the target is missed.
pub(super) const GOOD: usize = 4;

/// A percentile is looked at when it stands on this many samples,
const ENOUGH: u64 = 500;
/// or this long after the first look at the samples.
const PATIENCE: Span = Span::from_secs(1);

/// Which latency of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// From arrival to completion.
    Total = 0,
    /// In the device.
    Device = 1,
}

#[derive(Clone, Copy, Debug, Default)]
struct Histogram {
    buckets: [u64; BUCKETS],
    /// When few samples are enough.
    due: Option<Time>,
}

impl Histogram {
    #[inline]
    fn add(&mut self, target: Span, latency: Span) {
        let quarter = (target.0 / GOOD as u64).max(1);
        let bucket = latency.0.saturating_sub(1) / quarter;
        self.buckets[bucket.min(BUCKETS as u64 - 1) as usize] += 1;
    }

    /// The bucket that so many percent of the samples reach, which are then forgotten; `None` while there are
    /// too few.
    fn percentile(&mut self, now: Time, percent: u64) -> Option<usize> {
        let samples: u64 = self.buckets.iter().sum();
        if samples == 0 {
            return None;
        }
        let due = *self.due.get_or_insert(now + PATIENCE);
        if samples < ENOUGH && now < due {
            return None;
        }
        let wanted = (samples * percent).div_ceil(100);
        let mut seen = 0;
        let reaches = |&count: &u64| {
            seen += count;
            seen >= wanted
        };
        let bucket = self.buckets.iter().position(reaches);
        *self = Histogram::default();
        bucket
    }
}

/// Latencies of a domain since they were last looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Latencies {
    histograms: [Histogram; 2],
    /// The last p99 of total latencies that led to nothing.
    earlier: Option<usize>,
}

impl Latencies {
    /// A request has completed.
    #[inline]
    pub(super) fn add(&mut self, target: Span, total: Span, device: Span) {
        self.histograms[Stage::Total as usize].add(target, total);
        self.histograms[Stage::Device as usize].add(target, device);
    }

    /// The bucket of a percentile, if enough samples are there; they are used up by it.
    pub(super) fn percentile(&mut self, now: Time, stage: Stage, percent: u64) -> Option<usize> {
        self.histograms[stage as usize].percentile(now, percent)
    }

    /// The bucket of the 99th percentile of total latencies. When somebody suffers (`bad`), one that was seen
    /// earlier will do.
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
