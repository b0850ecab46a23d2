//! The latencies that reports show.

use crate::stats::LatencyHistogram;
use serde_json::{Map, Value, json};

/// Latencies in ns.
#[derive(Debug, Clone, Copy, PartialEq)]
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

/// Puts latencies into an object, null where there are none.
pub(crate) fn put_latency(object: &mut Map<String, Value>, latency: Option<&LatencySummary>) {
    let of = |get: fn(&LatencySummary) -> Value| latency.map_or(Value::Null, get);
    object.insert("lat_min_ns".into(), of(|l| json!(l.min_ns)));
    object.insert("lat_mean_ns".into(), of(|l| json!(l.mean_ns)));
    object.insert("lat_p50_ns".into(), of(|l| json!(l.p50_ns)));
    object.insert("lat_p90_ns".into(), of(|l| json!(l.p90_ns)));
    object.insert("lat_p95_ns".into(), of(|l| json!(l.p95_ns)));
    object.insert("lat_p99_ns".into(), of(|l| json!(l.p99_ns)));
    object.insert("lat_p999_ns".into(), of(|l| json!(l.p999_ns)));
    object.insert("lat_p9999_ns".into(), of(|l| json!(l.p9999_ns)));
    object.insert("lat_max_ns".into(), of(|l| json!(l.max_ns)));
}
