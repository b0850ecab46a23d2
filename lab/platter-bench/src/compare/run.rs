//! A run and its figures.

use serde_json::Value;
use std::collections::BTreeMap;

/// A figure of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// I/Os per second.
    Iops,
    /// MiB per second.
    MibPerS,
    /// Mean latency.
    LatMean,
    /// Median latency.
    LatP50,
    /// Latency that 99 % are not above.
    LatP99,
    /// Latency that 99.9 % are not above.
    LatP999,
    /// Processor time for each I/O.
    CpuPerIo,
}

impl Metric {
    /// All, in the order of reports.
    pub const ALL: [Metric; 7] = [
        Metric::Iops,
        Metric::MibPerS,
        Metric::LatMean,
        Metric::LatP50,
        Metric::LatP99,
        Metric::LatP999,
        Metric::CpuPerIo,
    ];

    /// Its key in JSON, with the unit.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Iops => "iops",
            Metric::MibPerS => "mib_per_s",
            Metric::LatMean => "lat_mean_ns",
            Metric::LatP50 => "lat_p50_ns",
            Metric::LatP99 => "lat_p99_ns",
            Metric::LatP999 => "lat_p999_ns",
            Metric::CpuPerIo => "cpu_ns_per_io",
        }
    }

    /// The metric of this name.
    pub fn named(name: &str) -> Option<Metric> {
        Metric::ALL.into_iter().find(|metric| metric.name() == name)
    }

    /// Whether more is better.
    pub fn higher_is_better(self) -> bool {
        matches!(self, Metric::Iops | Metric::MibPerS)
    }
}

/// The figures of a job of a run, in one direction or all together.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// The name of the job; empty for the only one of `bench io`.
    pub job: String,
    /// `read`, `write`, `trim`, or `all` if there are several.
    pub direction: String,
    /// The figures.
    pub values: BTreeMap<Metric, f64>,
    /// The run over time: the figure of each interval.
    pub series: BTreeMap<Metric, Vec<f64>>,
    /// The length of an interval, in seconds.
    pub interval_s: f64,
    /// How latencies are distributed: the largest of a bucket in ns, and how many it has; the smallest first.
    pub buckets: Vec<(f64, u64)>,
}

/// A run.
#[derive(Debug, Clone, Default)]
pub struct Run {
    /// The file, and the number of the run in it if there are several.
    pub source: String,
    /// What has measured: `platter` or `fio`.
    pub program: &'static str,
    /// Its options, by name.
    pub options: BTreeMap<String, String>,
    /// Its figures.
    pub figures: Vec<Figures>,
}

/// The text of an option's value.
pub(super) fn option_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Buckets by their latencies.
pub(super) fn sorted(mut buckets: Vec<(f64, u64)>) -> Vec<(f64, u64)> {
    buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
    buckets
}
