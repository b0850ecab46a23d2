//! What `top` reads from a server, and the rates between two readings.

use crate::cli::CliError;
use crate::verbs::ctl::failed;
use platter_serve::control::Call;
use platter_serve::daemon::report::percentile;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Instant;

/// A reading.
pub(super) struct Sample {
    at: Instant,
    health: String,
    devices: Vec<Device>,
    clients: Vec<Client>,
}

struct Device {
    name: String,
    bios: u64,
    read_bytes: u64,
    written_bytes: u64,
    in_flight: u64,
    /// Requests by the smallest latency of their bucket, in ns.
    latency: BTreeMap<u64, u64>,
    hits: u64,
    misses: u64,
}

struct Client {
    number: u64,
    device: String,
    peer: String,
    requests: u64,
    read_bytes: u64,
    written_bytes: u64,
    in_flight: u64,
}

/// A device between two readings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct DeviceRow {
    pub(super) name: String,
    pub(super) iops: f64,
    pub(super) read_mib_per_s: f64,
    pub(super) write_mib_per_s: f64,
    /// `None`: no request completed.
    pub(super) p50_ns: Option<u64>,
    pub(super) p99_ns: Option<u64>,
    pub(super) in_flight: u64,
    /// `None`: there is no cache, or nothing was read from it.
    pub(super) hits_percent: Option<f64>,
}

/// A client between two readings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct ClientRow {
    #[serde(rename = "client")]
    pub(super) number: u64,
    pub(super) device: String,
    pub(super) peer: String,
    pub(super) iops: f64,
    pub(super) read_mib_per_s: f64,
    pub(super) write_mib_per_s: f64,
    pub(super) in_flight: u64,
}

/// All rows between two readings.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Rates {
    pub(super) health: String,
    pub(super) devices: Vec<DeviceRow>,
    pub(super) clients: Vec<ClientRow>,
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl Sample {
    /// Reads a server.
    pub(super) fn take(call: &mut Call) -> Result<Sample, CliError> {
        let status = call.call("server.status", json!({})).map_err(failed)?;
        let mut statistics = Vec::new();
        for device in status["devices"].as_array().into_iter().flatten() {
            // A device may have been removed since.
            statistics.extend(call.call("device.stats", json!({ "device": device["name"] })));
        }
        Ok(Sample::of(Instant::now(), &status, &statistics))
    }

    fn of(at: Instant, status: &Value, statistics: &[Value]) -> Sample {
        let clients = status["clients"].as_array().into_iter().flatten().map(Client::of).collect();
        let devices = statistics.iter().map(Device::of).collect();
        Sample { at, health: text(&status["health"]["status"]), devices, clients }
    }

    /// The rates since an earlier reading. What was not there then is left out.
    pub(super) fn since(&self, earlier: &Sample) -> Rates {
        let seconds = self.at.saturating_duration_since(earlier.at).as_secs_f64().max(1e-9);
        let device = |now: &Device| {
            let then = earlier.devices.iter().find(|then| then.name == now.name)?;
            Some(now.since(then, seconds))
        };
        let client = |now: &Client| {
            let then = earlier.clients.iter().find(|then| then.number == now.number)?;
            Some(now.since(then, seconds))
        };
        Rates {
            health: self.health.clone(),
            devices: self.devices.iter().filter_map(device).collect(),
            clients: self.clients.iter().filter_map(client).collect(),
        }
    }
}

fn mib_per_s(now: u64, then: u64, seconds: f64) -> f64 {
    now.saturating_sub(then) as f64 / f64::from(1 << 20) / seconds
}

impl Device {
    fn of(stats: &Value) -> Device {
        let mut latency = BTreeMap::new();
        for op in stats["latency"].as_array().into_iter().flatten() {
            for bucket in op["buckets_ns"].as_array().into_iter().flatten() {
                *latency.entry(number(&bucket[0])).or_default() += number(&bucket[1]);
            }
        }
        let counters = &stats["counters"];
        Device {
            name: text(&stats["name"]),
            bios: number(&counters["bios_completed"]),
            read_bytes: number(&counters["bytes_read"]),
            written_bytes: number(&counters["bytes_written"]),
            in_flight: number(&stats["gauges"]["in_flight"]),
            latency,
            hits: number(&stats["cache"]["hit_pages"]),
            misses: number(&stats["cache"]["missed_pages"]),
        }
    }

    fn since(&self, then: &Device, seconds: f64) -> DeviceRow {
        let count = |(low, count): (&u64, &u64)| {
            let before = then.latency.get(low).copied().unwrap_or(0);
            (*low, count.saturating_sub(before))
        };
        let latency: Vec<(u64, u64)> =
            self.latency.iter().map(count).filter(|(_, count)| *count > 0).collect();
        let (hits, misses) = (self.hits.saturating_sub(then.hits), self.misses.saturating_sub(then.misses));
        DeviceRow {
            name: self.name.clone(),
            iops: self.bios.saturating_sub(then.bios) as f64 / seconds,
            read_mib_per_s: mib_per_s(self.read_bytes, then.read_bytes, seconds),
            write_mib_per_s: mib_per_s(self.written_bytes, then.written_bytes, seconds),
            p50_ns: percentile(&latency, 500),
            p99_ns: percentile(&latency, 990),
            in_flight: self.in_flight,
            hits_percent: (hits + misses > 0).then(|| hits as f64 * 100.0 / (hits + misses) as f64),
        }
    }
}

impl Client {
    fn of(client: &Value) -> Client {
        let requests = ["reads", "writes", "flushes", "discards"].map(|key| number(&client[key]));
        Client {
            number: number(&client["client"]),
            device: text(&client["device"]),
            peer: text(&client["peer"]),
            requests: requests.iter().sum(),
            read_bytes: number(&client["read_bytes"]),
            written_bytes: number(&client["written_bytes"]),
            in_flight: number(&client["in_flight"]),
        }
    }

    fn since(&self, then: &Client, seconds: f64) -> ClientRow {
        ClientRow {
            number: self.number,
            device: self.device.clone(),
            peer: self.peer.clone(),
            iops: self.requests.saturating_sub(then.requests) as f64 / seconds,
            read_mib_per_s: mib_per_s(self.read_bytes, then.read_bytes, seconds),
            write_mib_per_s: mib_per_s(self.written_bytes, then.written_bytes, seconds),
            in_flight: self.in_flight,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn stats(bios: u64, read: u64, latency: &[(u64, u64)], cache: (u64, u64)) -> Value {
        json!({
            "name": "a",
            "counters": { "bios_completed": bios, "bytes_read": read, "bytes_written": 0 },
            "gauges": { "in_flight": 3 },
            "latency": [{ "op": "read", "buckets_ns": latency }],
            "cache": { "hit_pages": cache.0, "missed_pages": cache.1 },
        })
    }

    #[test]
    fn rates_are_of_the_time_between_two_readings() {
        let status = |reads: u64| {
            json!({
                "health": { "status": "ok" },
                "clients": [{ "client": 4, "device": "a", "peer": "p", "reads": reads, "read_bytes": reads << 20, "in_flight": 2 }],
            })
        };
        let begin = Instant::now();
        let old = stats(100, 1 << 20, &[(1000, 100)], (10, 10));
        let first = Sample::of(begin, &status(5), &[old]);
        let new = stats(300, 5 << 20, &[(1000, 100), (5000, 195), (90_000, 5)], (13, 11));
        let second = Sample::of(begin + Duration::from_secs(2), &status(9), &[new]);
        let rates = second.since(&first);
        let device = &rates.devices[0];
        assert_eq!((device.iops, device.read_mib_per_s, device.in_flight), (100.0, 2.0, 3));
        assert_eq!((device.p50_ns, device.p99_ns), (Some(5000), Some(90_000)), "old latencies do not count");
        assert_eq!(device.hits_percent, Some(75.0));
        let client = &rates.clients[0];
        assert_eq!((client.number, client.iops, client.read_mib_per_s), (4, 2.0, 2.0));
        let idle = second.since(&second);
        assert_eq!((idle.devices[0].p99_ns, idle.devices[0].hits_percent), (None, None));
    }
}
