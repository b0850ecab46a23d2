//! The report for programs. The keys are listed in `docs/fileio.md`.

use super::Report;
use crate::cache_counts;
use crate::report::json::{self, put_latency};
use platter_block::time::Span;
use serde_json::{Map, Value, json};

/// The keys that say something of the host: two simulations of one seed differ in nothing else.
pub const HOST_KEYS: [&str; 3] = ["wall_s", "user_cpu_ns", "system_cpu_ns"];

impl Report {
    /// The report as one JSON object; units are in the names of its keys. Latencies are null where nothing was
    /// recorded.
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        let mut put = |key: &str, value: Value| object.insert(key.to_owned(), value);
        put("benchmark", json!("fileio"));
        put("on", json!(self.on));
        put("simulated", json!(self.simulated.is_some()));
        put("interrupted", json!(self.interrupted));
        put("seconds", json!(self.seconds()));
        put("wall_s", json!(self.simulated.map_or(self.seconds(), |real| real.as_secs_f64())));
        put("events", json!(self.events));
        put("reads", json!(self.reads));
        put("writes", json!(self.writes));
        put("fsyncs", json!(self.fsyncs));
        put("reads_per_s", json!(self.reads_per_s()));
        put("writes_per_s", json!(self.writes_per_s()));
        put("fsyncs_per_s", json!(self.fsyncs_per_s()));
        put("read_mib_per_s", json!(self.read_mib_per_s()));
        put("written_mib_per_s", json!(self.written_mib_per_s()));
        put_latency(&mut object, self.latency.as_ref());
        let [read, write, fsync] = &self.latency_by_kind;
        let mut put = |key: &str, value: Value| object.insert(key.to_owned(), value);
        put("latency", json!({ "read": read, "write": write, "fsync": fsync }));
        put("user_cpu_ns", json!(self.usage.user_ns));
        put("system_cpu_ns", json!(self.usage.system_ns));
        put("device", self.device_json());
        put("plan", self.plan_json());
        Value::Object(object)
    }

    fn device_json(&self) -> Value {
        let Some(device) = &self.device else { return Value::Null };
        json!({
            "facts": json::object(device.facts.clone()),
            "counters": json::object(device.counters.rows()),
            "mean_request_bytes": self.mean_request_bytes(),
            "errors": device.stats.errors_json(),
            "latency": device.stats.latency_json(),
            "gauges": device.stats.gauges_json(),
            "cache": device.cache.as_ref().map(cache_counts::to_json),
        })
    }

    fn plan_json(&self) -> Value {
        let plan = &self.plan;
        json!({
            "file_num": plan.files,
            "file_total_size_bytes": plan.total_size,
            "file_block_size_bytes": plan.block,
            "file_test_mode": plan.mode.name(),
            "file_rw_ratio": plan.rw_ratio,
            "file_fsync_freq": plan.fsync_freq,
            "file_fsync_end": plan.fsync_end,
            "file_fsync_all": plan.fsync_all,
            "file_fsync_mode": plan.fsync_mode.name(),
            "fsync_by": plan.synced_by.name(),
            "file_io_mode": plan.io_mode.name(),
            "file_async_backlog": plan.backlog,
            "file_extra_flags": plan.extra_flags.names(),
            "handles": plan.handles.name(),
            "cache_state": plan.cache_state.name(),
            "threads": plan.threads,
            "events": plan.events,
            "count": plan.count.name(),
            "time_s": plan.time.map(|Span(ns)| ns as f64 / 1e9),
            "rand_seed": plan.seed,
        })
    }
}
