//! The report as one JSON object. Its keys are listed in `docs/bench-io.md`.

use serde_json::{Map, Value, json};

use super::{DirectionReport, IoReport};
use crate::cache_counts;
use crate::report::json::{self, put_latency};

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
        object.insert("job".into(), self.job_json());
        object.insert("devices".into(), self.devices_json());
        Value::Object(object)
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
        self.device.put_json(object);
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

    fn job_json(&self) -> Value {
        let job = &self.job;
        let ns = |time: core::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        json!({
            "rw": job.rw.name(),
            "rwmixread_pct": job.rwmixread,
            "bs_bytes": job.bs,
            "iodepth": job.iodepth,
            "numjobs": job.numjobs,
            "offset_bytes": job.offset,
            "size_bytes": job.size,
            "runtime_ns": job.runtime.map(ns),
            "time_based": job.time_based,
            "ramp_time_ns": ns(job.ramp_time),
            "number_ios": job.number_ios,
            "rate_iops": job.rate_iops,
            "rate_process": job.rate_process.name(),
            "verify": job.verify,
            "verify_interval_bytes": job.verify_interval,
            "seed": self.seed,
            "prioclass": job.prioclass,
            "prio": job.prio,
            "contexts": job.contexts,
            "norandommap": job.norandommap,
            "gtod_reduce": job.gtod_reduce,
            "direct": job.direct,
            "thinktime_ns": ns(job.thinktime),
            "thinktime_blocks": job.thinktime_blocks,
        })
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

    fn devices_json(&self) -> Value {
        self.devices
            .iter()
            .map(|d| json!({ "name": d.name, "facts": json::object(d.facts.clone()) }))
            .collect()
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
