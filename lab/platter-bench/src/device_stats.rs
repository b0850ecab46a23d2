//! Statistics of the devices' queues during a measurement: which bios failed and why, how long the devices
//! took, and what was in flight at the end.
//!
//! A submitter measures a longer time: its latency also includes the wait in the plug, in the elevator and
//! for depth, and the time until it polls. The latency of the device is that of a request, from its start to
//! its completion.
//!
//! Both are read from the device once before and once after a measurement, which does not affect the
//! measurement.

use crate::report::json::put_latency;
use crate::report::units::{duration, thousands};
use crate::report::{Column, Table};
use crate::stats::{LatencyHistogram, LatencySummary};
use platter_block::bio::Op;
use platter_block::fault::Kind;
use platter_block::statistics::Gauges;
use platter_disk::device::Device;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Statistics of devices. See the [module](self).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceStats {
    /// Bios that failed, by number of the operation and name of the kind.
    errors: BTreeMap<(usize, String), u64>,
    latency: [Latency; Op::ALL.len()],
    /// The contents of the queues at the end.
    gauges: Gauges,
}

/// The latencies of an operation, in ns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Latency {
    /// Requests by the smallest latency of their bucket.
    buckets: BTreeMap<u64, u64>,
    total: u64,
    /// The smallest and the largest, while there are requests.
    extremes: Option<(u64, u64)>,
}

impl Latency {
    fn merge(&mut self, other: &Latency) {
        other.buckets.iter().for_each(|(low, count)| *self.buckets.entry(*low).or_default() += count);
        self.total += other.total;
        let both = |(a, b): (u64, u64), (c, d): (u64, u64)| (a.min(c), b.max(d));
        self.extremes = match (self.extremes, other.extremes) {
            (Some(mine), Some(theirs)) => Some(both(mine, theirs)),
            (mine, theirs) => mine.or(theirs),
        };
    }

    fn requests(&self) -> u64 {
        self.buckets.values().sum()
    }

    /// `None` if the clock was read between start and completion of none.
    fn summary(&self) -> Option<LatencySummary> {
        let (min_ns, max_ns) = self.extremes.filter(|&(_, max)| max > 0)?;
        let mut latency = LatencyHistogram::new();
        // A sixteenth of its lower end is as wide as a bucket of the queue is: its middle is half of that above.
        self.buckets.iter().for_each(|(low, count)| latency.record_times(low + low / 32, *count));
        let mut summary = LatencySummary::of(&latency)?;
        summary.mean_ns = self.total as f64 / self.requests() as f64;
        (summary.min_ns, summary.max_ns) = (min_ns, max_ns);
        let LatencySummary { p50_ns, p90_ns, p95_ns, p99_ns, p999_ns, p9999_ns, .. } = &mut summary;
        for percentile in [p50_ns, p90_ns, p95_ns, p99_ns, p999_ns, p9999_ns] {
            *percentile = (*percentile).clamp(min_ns, max_ns);
        }
        Some(summary)
    }
}

/// To be flattened into an object: `device_errors`, `device_latency` and `device_gauges`.
impl Serialize for DeviceStats {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (errors, latency, gauges) = (self.errors_json(), self.latency_json(), self.gauges_json());
        json!({ "device_errors": errors, "device_latency": latency, "device_gauges": gauges })
            .serialize(serializer)
    }
}

impl DeviceStats {
    /// The statistics of a device since it was opened.
    pub fn of(device: &Device) -> DeviceStats {
        let counted = device.statistics();
        let mut stats = DeviceStats { gauges: counted.gauges, ..DeviceStats::default() };
        counted.errors().for_each(|(op, kind, count)| stats.add_errors(op, kind, count));
        for op in Op::ALL {
            let latency = &mut stats.latency[op as usize];
            latency.buckets = counted.latency(op).collect();
            (latency.total, latency.extremes) = (counted.total_latency(op), counted.latency_extremes(op));
        }
        stats
    }

    /// The statistics of several devices at the beginning of a measurement, to be subtracted from those at its end. The
    /// smallest and the largest latency begin again.
    pub fn before<'a>(devices: impl IntoIterator<Item = &'a Device>) -> DeviceStats {
        let restarted = devices.into_iter().inspect(|device| device.restart_extremes());
        DeviceStats::of_all(restarted)
    }

    /// The sum of the statistics of several devices.
    pub fn of_all<'a>(devices: impl IntoIterator<Item = &'a Device>) -> DeviceStats {
        let mut all = DeviceStats::default();
        devices.into_iter().for_each(|device| all.merge(&DeviceStats::of(device)));
        all
    }

    /// Counts bios that failed.
    pub fn add_errors(&mut self, op: Op, kind: Kind, count: u64) {
        if count > 0 {
            *self.errors.entry((op as usize, name_of(kind))).or_default() += count;
        }
    }

    /// Adds the statistics of other devices, or of another part of a measurement.
    pub fn merge(&mut self, other: &DeviceStats) {
        for (key, count) in &other.errors {
            *self.errors.entry(key.clone()).or_default() += count;
        }
        for (mine, theirs) in self.latency.iter_mut().zip(&other.latency) {
            mine.merge(theirs);
        }
        let (mine, theirs) = (&mut self.gauges, &other.gauges);
        mine.in_flight += theirs.in_flight;
        mine.queued += theirs.queued;
        mine.held += theirs.held;
    }

    /// The same without latencies.
    pub fn without_latency(self) -> DeviceStats {
        DeviceStats { latency: Default::default(), ..self }
    }

    /// The statistics since `earlier`, which are those of [`before`](Self::before), and the contents of the queues at the end.
    pub fn since(&self, earlier: &DeviceStats) -> DeviceStats {
        let mut diff = self.clone();
        for (key, count) in &mut diff.errors {
            *count -= earlier.errors.get(key).copied().unwrap_or(0);
        }
        diff.errors.retain(|_, count| *count > 0);
        for (mine, before) in diff.latency.iter_mut().zip(&earlier.latency) {
            let counted = |low| before.buckets.get(low).copied().unwrap_or(0);
            mine.buckets.iter_mut().for_each(|(low, count)| *count -= counted(low));
            mine.buckets.retain(|_, count| *count > 0);
            mine.total -= before.total;
            mine.extremes = mine.extremes.filter(|_| !mine.buckets.is_empty());
        }
        diff
    }

    /// Bios that failed.
    pub fn failed(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Completed requests of an operation, failed ones included.
    pub fn requests(&self, op: Op) -> u64 {
        self.latency[op as usize].requests()
    }

    /// Latencies of an operation; smallest, mean and largest are exact. `None` if there were no requests, or if all completed within one reading of
    /// the clock: a queue reads it once per batch, so a request that completes at once has no measurable
    /// time.
    pub fn latency(&self, op: Op) -> Option<LatencySummary> {
        self.latency[op as usize].summary()
    }

    /// Latencies of all operations with data together; `None` as for [`latency`](Self::latency).
    pub fn latency_of_data(&self) -> Option<LatencySummary> {
        let mut all = self.latency[Op::Read as usize].clone();
        all.merge(&self.latency[Op::Write as usize]);
        all.summary()
    }

    /// Failures as one line for people: `none`, or how many of which.
    pub fn errors_line(&self) -> String {
        let one = |((op, kind), count): (&(usize, String), &u64)| {
            format!("{} {} ({})", thousands(*count), Op::ALL[*op], kind.replace('_', " "))
        };
        match self.errors.is_empty() {
            true => "none".to_owned(),
            false => self.errors.iter().map(one).collect::<Vec<_>>().join(", "),
        }
    }

    /// A list with an object for each operation and kind of failure: `op`, `kind`, `count`.
    pub fn errors_json(&self) -> Value {
        let one = |((op, kind), count): (&(usize, String), &u64)| json!({ "op": Op::ALL[*op].to_string(), "kind": kind, "count": count });
        self.errors.iter().map(one).collect()
    }

    /// A list with an object for each operation of which there were requests: `op`, `requests` and the latencies, null where
    /// the clock was not read between start and completion.
    pub fn latency_json(&self) -> Value {
        let one = |op: Op| {
            let mut object = serde_json::Map::new();
            object.insert("op".into(), json!(op.to_string()));
            object.insert("requests".into(), json!(self.requests(op)));
            put_latency(&mut object, self.latency(op).as_ref());
            Value::Object(object)
        };
        Op::ALL.into_iter().filter(|op| self.requests(*op) > 0).map(one).collect()
    }

    /// The contents of the queues at the end, as an object.
    pub fn gauges_json(&self) -> Value {
        let Gauges { in_flight, queued, held } = self.gauges;
        json!({ "in_flight": in_flight, "queued": queued, "held": held })
    }

    /// The columns that [`cells`](Self::cells) fills: percentiles of the device's latency.
    pub fn columns() -> [Column; 3] {
        ["device p50", "device p99", "device max"].map(|title| Column::number(title, ""))
    }

    /// The device's latency of reads and writes, as cells of a table.
    pub fn cells(&self) -> [String; 3] {
        let of = |latency: LatencySummary| [latency.p50_ns, latency.p99_ns, latency.max_ns].map(duration);
        self.latency_of_data().map_or_else(|| ["-"; 3].map(str::to_owned), of)
    }

    /// Latencies by operation, as a table.
    pub fn table(&self) -> Table {
        let numbers = ["requests", "p50", "p90", "p99", "p99.9", "max"].map(|name| Column::number(name, ""));
        let mut table = Table::new([Column::text("in the device")].into_iter().chain(numbers));
        for op in Op::ALL.into_iter().filter(|op| self.requests(*op) > 0) {
            let latency =
                self.latency(op).map(|l| [l.p50_ns, l.p90_ns, l.p99_ns, l.p999_ns, l.max_ns].map(duration));
            let latency = latency.unwrap_or_else(|| ["-"; 5].map(str::to_owned));
            table.row([op.to_string(), thousands(self.requests(op))].into_iter().chain(latency));
        }
        table
    }
}

/// The name of a kind of fault in results: its words in lower case, joined by underscores.
fn name_of(kind: Kind) -> String {
    let mut name = String::new();
    for c in format!("{kind:?}").chars() {
        if c.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> DeviceStats {
        let mut stats = DeviceStats::default();
        stats.add_errors(Op::Write, Kind::TimedOut, 2);
        stats.add_errors(Op::Read, Kind::Io, 1);
        stats.add_errors(Op::Read, Kind::Gone, 0);
        stats.latency[Op::Read as usize] = Latency {
            buckets: [(98_304, 98), (1 << 20, 2)].into(),
            total: 98 * 100_000 + 1_050_000 + 1_090_000,
            extremes: Some((99_000, 1_090_000)),
        };
        let at_once = Latency { buckets: [(0, 3)].into(), total: 0, extremes: Some((0, 0)) };
        stats.latency[Op::Flush as usize] = at_once;
        stats
    }

    #[test]
    fn errors_are_told_by_operation_and_kind() {
        let stats = example();
        assert_eq!((stats.failed(), stats.errors_line().as_str()), (3, "1 read (io), 2 write (timed out)"));
        assert_eq!(
            stats.errors_json(),
            json!([{ "op": "read", "kind": "io", "count": 1 }, { "op": "write", "kind": "timed_out", "count": 2 }])
        );
        assert_eq!(DeviceStats::default().errors_line(), "none");
    }

    #[test]
    fn latencies_are_known_to_a_sixteenth_their_extremes_exactly_and_no_time_is_no_latency() {
        let stats = example();
        let read = stats.latency(Op::Read).unwrap();
        assert!((99_000..=104_448).contains(&read.p50_ns), "{read:?}");
        assert_eq!((read.min_ns, read.max_ns, read.mean_ns), (99_000, 1_090_000, 119_400.0));
        assert!(read.p9999_ns <= read.max_ns, "{read:?}");
        assert_eq!((stats.requests(Op::Flush), stats.latency(Op::Flush)), (3, None));
        let json = stats.latency_json();
        assert_eq!(
            (&json[1]["op"], &json[1]["requests"], &json[1]["lat_p50_ns"]),
            (&"flush".into(), &3.into(), &Value::Null)
        );
        assert_eq!(DeviceStats::default().cells(), ["-"; 3]);
        assert!(stats.table().to_text(false).lines().count() == 4, "{}", stats.table().to_text(false));
    }

    #[test]
    fn a_gauge_has_its_value_at_the_end_whatever_it_was_before() {
        let mut stats = DeviceStats { gauges: Gauges { in_flight: 3, ..Gauges::default() }, ..example() };
        let more = Gauges { in_flight: 2, held: 1, ..Gauges::default() };
        stats.merge(&DeviceStats { gauges: more, ..DeviceStats::default() });
        let left = stats.since(&stats).gauges_json();
        assert_eq!(left, json!({ "in_flight": 5, "queued": 0, "held": 1 }));
    }

    #[test]
    fn differences_and_sums_undo_each_other() {
        let (mut sum, half) = (example(), example());
        sum.merge(&half);
        assert_eq!((sum.since(&half), sum.failed()), (half.clone(), 6));
        assert_eq!(half.since(&half), DeviceStats::default());
    }
}
