//! The report as one JSON object. Its keys are listed in `docs/command.md`.

use serde_json::{Map, Value, json};

use super::account::Fates;
use super::depths::Depths;
use super::report::{ReplayReport, Replayed};
use crate::report::json::put_summary;

/// The keys that say something of the host: two simulations of one seed differ in nothing else.
pub const HOST_KEYS: [&str; 1] = ["wall_s"];

fn put_fates(map: &mut Map<String, Value>, fates: &Fates) {
    let rows = [
        ("trace", fates.trace),
        ("replayed", fates.replayed),
        ("changed", fates.changed),
        ("skipped", fates.skipped),
    ];
    for (name, count) in rows {
        map.insert(format!("{name}_ios"), json!(count.ios));
        map.insert(format!("{name}_bytes"), json!(count.bytes));
    }
}

fn kind_json(kind: &Replayed) -> Value {
    let mut map = Map::new();
    map.insert("kind".to_owned(), json!(kind.name));
    put_fates(&mut map, &kind.fates);
    map.insert("errors".to_owned(), json!(kind.errors));
    put_summary(&mut map, "lat", kind.latency.as_ref());
    put_summary(&mut map, "trace_lat", kind.trace_latency.as_ref());
    Value::Object(map)
}

fn depth_json(depths: &Depths) -> Value {
    json!({ "span_ns": depths.span_ns, "mean_ios": depths.mean, "most_ios": depths.most, "max_ios": depths.max() })
}

impl ReplayReport {
    /// The report as one JSON object; units are in the names of its keys.
    pub fn to_json(&self) -> Value {
        let mut map = Map::new();
        let mut put = |key: &str, value: Value| map.insert(key.to_owned(), value);
        put("partial", json!(self.partial));
        put("wall_s", json!(self.real.unwrap_or(self.wall).as_secs_f64()));
        put("virtual_s", json!(self.real.map(|_| self.wall.as_secs_f64())));
        put("trace_s", json!(self.trace.as_secs_f64()));
        put("ios", json!(self.ios));
        put("bytes", json!(self.bytes));
        put("iops", json!(self.iops()));
        put("mib_per_s", json!(self.mib_per_s()));
        put("errors", json!(self.errors));
        put("first_error", json!(self.first_error.as_ref().map(ToString::to_string)));
        put("timed_ios", json!(self.lateness.as_ref().map(|lateness| lateness.ios)));
        put("late_threshold_ns", json!(u64::try_from(self.options.late.as_nanos()).unwrap_or(u64::MAX)));
        put("late_ios", json!(self.lateness.as_ref().map(|lateness| lateness.late_ios)));
        put("late_pct", json!(self.late_pct()));
        put("held_ios", json!(self.held));
        put("reader_waits", json!(self.waits));
        put("moved_ios", json!(self.moved));
        put("other_devices_ios", json!(self.elsewhere));
        put("kinds", self.kinds.iter().map(kind_json).collect());
        let mark = |(name, _, fates): &(&str, &str, Fates)| {
            let mut map = Map::new();
            map.insert("mark".to_owned(), json!(name));
            put_fates(&mut map, fates);
            Value::Object(map)
        };
        put("marks", self.marks.iter().map(mark).collect());
        put("depth", depth_json(&self.depths));
        put("trace_depth", depth_json(&self.trace_depths));
        put("options", json!(self.options));
        put("devices", self.devices_json());
        put_summary(&mut map, "issue_error", self.lateness.as_ref().map(|lateness| &lateness.delay));
        put_summary(&mut map, "lat", self.latency.as_ref());
        put_summary(&mut map, "trace_lat", self.trace_latency.as_ref());
        Value::Object(map)
    }

    fn devices_json(&self) -> Value {
        self.devices
            .iter()
            .map(|device| {
                json!({
                    "name": device.name,
                    "trace_device": device.of,
                    "started_ios": device.started.ios,
                    "started_bytes": device.started.bytes,
                })
            })
            .collect()
    }
}
