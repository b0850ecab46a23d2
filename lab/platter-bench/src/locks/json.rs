//! The report for programs. The keys are listed in `docs/locks.md`.

use super::{Point, Report};
use crate::stats::Sample;
use platter_disk::lock_meter::{LockUse, PartUse};
use serde_json::{Map, Value, json};

impl Report {
    /// The report as one JSON object; units are in the names of its keys.
    pub fn to_json(&self) -> Value {
        let point = |point: &Point| point.to_json(self.first(point));
        json!({
            "benchmark": "locks",
            "block_bytes": self.options.block,
            "runtime_s": self.options.runtime.as_secs_f64(),
            "repeat": self.options.repeat,
            "clock_ns": self.clock_ns,
            "interrupted": self.interrupted,
            "points": self.points.iter().map(point).collect::<Vec<_>>(),
        })
    }
}

impl Point {
    fn to_json(&self, first: Option<&Point>) -> Value {
        let median = |sample: Option<Sample>| sample.map(|sample| sample.median());
        let ratio = first.and_then(|first| self.ratio(first));
        let counts: Map<String, Value> = self
            .counters
            .rows()
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| (name.to_owned(), json!(count as f64 / self.ios_metered.max(1) as f64)))
            .collect();
        json!({
            "on": self.on,
            "caller": self.caller.name(),
            "threads": self.threads,
            "ios_per_s": median(self.ios_per_s()),
            "ratio_to_first": ratio.as_ref().map(Sample::median),
            "ratio_to_first_min": ratio.as_ref().map(Sample::min),
            "ratio_to_first_max": ratio.as_ref().map(Sample::max),
            "cpu_ns_per_io": median(self.cpu_ns_per_io()),
            "switches_per_io": median(self.switches_per_io()),
            "ios_metered": self.ios_metered,
            "metered_s": self.time_metered.as_secs_f64(),
            "locks": self.locks.iter().map(|lock| lock_json(lock, self)).collect::<Vec<_>>(),
            "parts": self.parts.iter().map(|part| part_json(part, self)).collect::<Vec<_>>(),
            "counts_per_io": counts,
        })
    }
}

fn lock_json(lock: &LockUse, point: &Point) -> Value {
    json!({
        "scope": lock.scope,
        "stage": lock.stage,
        "place": lock.place,
        "acquisitions": lock.acquisitions,
        "acquisitions_per_io": lock.acquisitions as f64 / point.ios_metered.max(1) as f64,
        "contended": lock.contended,
        "left_to_holder": lock.left_to_holder,
        "wait_ns": lock.wait_ns,
        "hold_ns": lock.hold_ns,
        "longest_hold_ns": lock.longest_hold_ns,
    })
}

fn part_json(part: &PartUse, point: &Point) -> Value {
    json!({
        "part": part.part,
        "runs": part.runs,
        "ns": part.ns,
        "ns_per_io": part.ns as f64 / point.ios_metered.max(1) as f64,
    })
}
