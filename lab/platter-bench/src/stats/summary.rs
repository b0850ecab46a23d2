//! The summary of a histogram of latencies, as reports show it.

use super::LatencyHistogram;

/// Latencies in ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct LatencySummary {
    /// The smallest.
    pub min_ns: u64,
    /// The mean.
    pub mean_ns: f64,
    /// Half are not above it.
    pub p50_ns: u64,
    /// 90 % are not above it.
    pub p90_ns: u64,
    /// 95 % are not above it.
    pub p95_ns: u64,
    /// 99 % are not above it.
    pub p99_ns: u64,
    /// 99.9 % are not above it.
    pub p999_ns: u64,
    /// 99.99 % are not above it.
    pub p9999_ns: u64,
    /// The largest.
    pub max_ns: u64,
}

impl LatencySummary {
    /// `None` when nothing was recorded.
    pub(crate) fn of(latency: &LatencyHistogram) -> Option<Self> {
        let percentile = |p| latency.percentile(p);
        Some(Self {
            min_ns: latency.min()?,
            mean_ns: latency.mean()?,
            p50_ns: percentile(50.0)?,
            p90_ns: percentile(90.0)?,
            p95_ns: percentile(95.0)?,
            p99_ns: percentile(99.0)?,
            p999_ns: percentile(99.9)?,
            p9999_ns: percentile(99.99)?,
            max_ns: latency.max()?,
        })
    }
}
