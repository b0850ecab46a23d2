//! What operators see of a daemon, as JSON: the results of the control socket. docs/control.md describes the keys.

use super::{Daemon, health, lock};
use crate::clients::Client;
use crate::device_trace::TraceState;
use crate::layers;
use crate::qos::{ClientLimits, DeviceLimits};
use crate::served::Served;
use crate::server::ExportInfo;
use platter_block::bio::Op;
use platter_block::fault::Kind;
use platter_block::statistics::Statistics;
use platter_disk::trace_output::Format;
use serde_json::{Map, Value, json};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Of how many requests in a thousand the latency is reported, with its key.
const PERCENTILES: [(u64, &str); 4] = [(500, "p50_ns"), (900, "p90_ns"), (990, "p99_ns"), (999, "p999_ns")];

impl Daemon {
    /// Everything: `server`, `health`, `devices`, `exports`, `clients`.
    pub fn status(&self) -> Value {
        json!({
            "server": self.server_info(),
            "health": self.health(),
            "devices": self.devices_report(),
            "exports": self.exports().iter().map(export).collect::<Vec<_>>(),
            "clients": self.clients_report(),
        })
    }

    /// The server itself.
    pub fn server_info(&self) -> Value {
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "uptime_seconds": self.started.elapsed().as_secs(),
            "clients": self.clients.list().len(),
            "clients_max": self.clients.most(),
            "memory_bytes": self.clients.memory().used_bytes(),
            "memory_max_bytes": self.clients.memory().most_bytes(),
        })
    }

    /// All devices, without their statistics.
    pub fn devices_report(&self) -> Vec<Value> {
        self.devices.list().iter().map(|served| self.device_report(served)).collect()
    }

    /// A device, without its statistics.
    pub fn device_report(&self, served: &Served) -> Value {
        let (device, limits) = (served.device(), served.qos().limits());
        let spec =
            lock(&self.specs).iter().find(|spec| spec.name == served.name()).map(|spec| spec.spec.clone());
        let clients = self.clients.list();
        let facts = device.facts();
        let elevator = facts.iter().find(|(key, _)| *key == "elevator").map(|(_, value)| value.as_str());
        let gauges = device.statistics().gauges;
        json!({
            "name": served.name(),
            "description": served.about(),
            "spec": spec,
            "size_bytes": device.size(),
            "block_size_bytes": device.geometry().limits.logical_block,
            "read_only": served.is_read_only(),
            "elevator": elevator,
            "clients": clients.iter().filter(|client| client.device == served.name()).count(),
            "in_flight": gauges.in_flight,
            "trace": served.trace_state().as_ref().map(trace),
            "layers": layers::to_json(&device.layers()),
            "limits": device_limits(&limits.0),
            "client_limits": client_limits(&limits.1),
        })
    }

    /// All clients.
    pub fn clients_report(&self) -> Vec<Value> {
        let now = Instant::now();
        self.clients.list().iter().map(|client| self.client_report(client, now)).collect()
    }

    fn client_report(&self, client: &Client, now: Instant) -> Value {
        let count = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        let counts = &client.counts;
        let served = self.devices.list().into_iter().find(|served| served.name() == client.device);
        let share = served.and_then(|served| served.qos().client(client.id));
        json!({
            "client": client.id,
            "export": client.export,
            "device": client.device,
            "peer": client.peer,
            "connected_seconds": now.saturating_duration_since(client.since).as_secs(),
            "reads": count(&counts.reads),
            "read_bytes": count(&counts.read_bytes),
            "writes": count(&counts.writes),
            "written_bytes": count(&counts.written_bytes),
            "flushes": count(&counts.flushes),
            "discards": count(&counts.discards),
            "copied_bytes": count(&counts.copied_bytes),
            "errors": count(&counts.errors),
            "in_flight": count(&counts.in_flight),
            "oldest_io_seconds": client.oldest(now).map(|age| age.as_secs_f64()),
            "waits_for_admission": share.map(|share| share.waits),
            "limits": share.map(|share| client_limits(&share.limits)),
        })
    }

    /// Whether the server is well: `status` is `ok`, `degraded` (there are `problems`) or `stalled` (an I/O is older than the
    /// configuration allows).
    pub fn health(&self) -> Value {
        health::of(self)
    }

    /// The statistics of a device since it was opened.
    pub fn statistics(&self, served: &Served) -> Value {
        let device = served.device();
        let counters: Map<String, Value> =
            device.counters().rows().map(|(name, count)| (name.to_owned(), json!(count))).collect();
        let statistics = device.statistics();
        let gauges = statistics.gauges;
        let errors: Vec<Value> = statistics
            .errors()
            .map(|(op, kind, count)| json!({ "op": op.to_string(), "kind": kind_name(kind), "count": count }))
            .collect();
        let cache = device.cache_counters().map(|cache| {
            json!({
                "hit_pages": cache.hits,
                "missed_pages": cache.misses,
                "read_ahead_pages": cache.pages_read_ahead,
                "used_ahead_pages": cache.pages_used,
                "evicted_unused_pages": cache.pages_evicted_unused,
            })
        });
        json!({
            "name": served.name(),
            "counters": counters,
            "gauges": {
                "in_flight": gauges.in_flight, "queued": gauges.queued, "held": gauges.held,
            },
            "errors": errors,
            "latency": Op::ALL.into_iter().filter_map(|op| latency(&statistics, op)).collect::<Vec<_>>(),
            "cache": cache,
        })
    }
}

/// An export.
pub fn export(info: &ExportInfo) -> Value {
    json!({ "name": info.name, "kind": info.kind, "address": info.address })
}

/// Limits of a device.
pub fn device_limits(limits: &DeviceLimits) -> Value {
    json!({
        "iops": limits.iops,
        "bandwidth_bytes_per_second": limits.bandwidth,
        "burst_us": limits.burst.as_nanos() / 1000,
        "depth": limits.depth,
    })
}

/// Limits of a client.
pub fn client_limits(limits: &ClientLimits) -> Value {
    json!({
        "iops": limits.iops,
        "bandwidth_bytes_per_second": limits.bandwidth,
        "burst_us": limits.burst.as_nanos() / 1000,
        "weight": limits.weight,
    })
}

/// The latencies of an operation; `None`: there were no requests.
fn latency(statistics: &Statistics, op: Op) -> Option<Value> {
    let requests = statistics.requests(op);
    if requests == 0 {
        return None;
    }
    let mut object = Map::new();
    object.insert("op".to_owned(), json!(op.to_string()));
    object.insert("requests".to_owned(), json!(requests));
    let buckets: Vec<(u64, u64)> = statistics.latency(op).collect();
    for (permille, key) in PERCENTILES {
        object.insert(key.to_owned(), json!(percentile(&buckets, permille)));
    }
    object.insert("buckets_ns".to_owned(), json!(buckets));
    Some(Value::Object(object))
}

/// The smallest latency of the bucket in which the request lies at which `permille` of all are counted; `None` without
/// requests.
pub fn percentile(buckets: &[(u64, u64)], permille: u64) -> Option<u64> {
    let total: u64 = buckets.iter().map(|(_, count)| count).sum();
    let rank = (u128::from(total) * u128::from(permille)).div_ceil(1000).max(1);
    let mut sum = 0u128;
    let at = buckets.iter().find(|(_, count)| {
        sum += u128::from(*count);
        sum >= rank
    });
    at.map(|(floor, _)| *floor)
}

/// The name of a kind of fault in results: its words in lower case, joined by underscores.
pub fn kind_name(kind: Kind) -> String {
    let mut name = String::new();
    for c in format!("{kind:?}").chars() {
        if c.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}

/// A trace.
pub(crate) fn trace(state: &TraceState) -> Value {
    let format = match state.format {
        Format::Text => "text",
        Format::Blktrace => "blktrace",
    };
    json!({
        "file": state.file.display().to_string(),
        "format": format,
        "written_bytes": state.written_bytes,
        "error": state.error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_counts() {
        let buckets = [(100, 98), (1000, 1), (5000, 1)];
        assert_eq!(percentile(&buckets, 500), Some(100));
        assert_eq!(percentile(&buckets, 980), Some(100));
        assert_eq!(percentile(&buckets, 981), Some(1000));
        assert_eq!(percentile(&buckets, 999), Some(5000));
        assert_eq!(percentile(&[], 500), None);
        assert_eq!(kind_name(Kind::TimedOut), "timed_out");
    }
}
