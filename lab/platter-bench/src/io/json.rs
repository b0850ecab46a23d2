//! The report as one JSON object. Its keys are listed in `docs/bench-io.md`.

use serde_json::{Map, Value, json};

use super::{DirectionReport, IoReport};
use crate::cache_counts;
use crate::report::json::{self, joined, put_latency};

/// The keys that say something of the host: two simulations of one seed differ in nothing else.
pub const HOST_KEYS: [&str; 7] = [
    "wall_s",
    "cpu_ns_per_io",
    "user_cpu_ns",
    "system_cpu_ns",
    "voluntary_context_switches",
    "involuntary_context_switches",
    "sim_requests_per_wall_s",
];

impl IoReport {
    /// The report as one JSON object; units are in the names of its keys. Latencies are `null` when none were
    /// recorded.
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        self.put_results(&mut object);
        self.put_machine(&mut object);
        object.insert("job".into(), joined(json!(self.job), &json!({ "seed": self.seed })));
        object.insert("devices".into(), json!(self.devices));
        joined(Value::Object(object), &self.device)
    }

    fn put_results(&self, object: &mut Map<String, Value>) {
        let mut put = |key: &str, value: Value| object.insert(key.to_owned(), value);
        put("partial", json!(self.partial));
        let real = self.simulated.map_or(self.wall, |simulated| simulated.real);
        put("wall_s", json!(real.as_secs_f64()));
        put("virtual_s", json!(self.simulated.map(|_| self.wall.as_secs_f64())));
        put("sim_requests_per_wall_s", json!(self.sim_requests_per_wall_s()));
        put("ios", json!(self.ios));
        put("ramp_ios", json!(self.ramp_ios));
        put("missed_ios", json!(self.missed_ios));
        put("iops", json!(self.iops));
        put("mib_per_s", json!(self.mib_per_s));
        put("ns_per_io", json!(self.ns_per_io));
        put("cpu_ns_per_io", json!(self.cpu_ns_per_io));
        put("stamps", json!(self.stamps.name()));
        put("errors", json!(self.errors()));
        put("io_errors", json!(self.io_errors));
        put("first_error", json!(self.first_error.as_ref().map(ToString::to_string)));
        put("verified_blocks", json!(self.verified));
        put("verify_errors", json!(self.verify_errors));
        put("first_verify_error", json!(self.first_mismatch));
        put("series", self.series_json());
        put("directions", self.directions.iter().map(direction_json).collect());
        put_latency(object, self.latency.as_ref());
    }

    fn put_machine(&self, object: &mut Map<String, Value>) {
        let mut put = |key: &str, value: Value| object.insert(key.to_owned(), value);
        put("user_cpu_ns", json!(self.usage.user_ns));
        put("system_cpu_ns", json!(self.usage.system_ns));
        put("voluntary_context_switches", json!(self.usage.voluntary_switches));
        put("involuntary_context_switches", json!(self.usage.involuntary_switches));
        put("queued", json!(self.counters.bios));
        put("dispatched", json!(self.counters.dispatches));
        put("completed", json!(self.counters.bios_completed));
        put("counters", json::object(self.counters.rows()));
        put("cache", json!(self.cache.as_ref().map(cache_counts::to_json)));
    }

    fn series_json(&self) -> Value {
        let parts = &self.series.parts;
        json!({
            "interval_s": self.series.interval.as_secs_f64(),
            "iops": parts.iter().map(|part| part.iops).collect::<Vec<_>>(),
            "mib_per_s": parts.iter().map(|part| part.mib_per_s).collect::<Vec<_>>(),
            "lat_p50_ns": parts.iter().map(|part| part.lat_p50_ns).collect::<Vec<_>>(),
            "lat_p99_ns": parts.iter().map(|part| part.lat_p99_ns).collect::<Vec<_>>(),
        })
    }
}

fn direction_json(direction: &DirectionReport) -> Value {
    let mut object = Map::new();
    object.insert("direction".into(), json!(direction.name));
    object.insert("ios".into(), json!(direction.ios));
    object.insert("iops".into(), json!(direction.iops));
    object.insert("mib_per_s".into(), json!(direction.mib_per_s));
    put_latency(&mut object, direction.latency.as_ref());
    let buckets = direction.buckets.iter();
    object.insert("lat_buckets".into(), buckets.map(|b| json!([b.low, b.high, b.count])).collect());
    Value::Object(object)
}
