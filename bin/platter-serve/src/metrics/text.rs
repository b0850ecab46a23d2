//! The metrics as text (<https://prometheus.io/docs/instrumenting/exposition_formats/>).

use crate::daemon::Daemon;
use crate::daemon::report::kind_name;
use platter_block::bio::Op;
use platter_block::resident::PAGE;
use platter_block::statistics::Statistics;
use platter_block::status::LayerStatus;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The type of the text, for HTTP.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Upper bounds of the buckets of latency, in ns: 10 µs to 10 s in steps of about two and a half.
const BOUNDS_NS: [u64; 19] = [
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
];

/// A family of metrics.
pub struct Family {
    /// Its name.
    pub name: &'static str,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// One line.
    pub help: &'static str,
    write: fn(&mut Out<'_>),
}

const fn family(
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    write: fn(&mut Out<'_>),
) -> Family {
    Family { name, kind, help, write }
}

/// All families, in the order of the text.
pub const FAMILIES: &[Family] = &[
    family("platter_build_info", "gauge", "1, with the version.", |out| {
        out.value(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    }),
    family("platter_uptime_seconds", "gauge", "Time since the server was started.", |out| {
        let seconds = out.daemon.started().elapsed().as_secs_f64();
        out.value(&[], seconds);
    }),
    family("platter_clients", "gauge", "Clients that are connected.", |out| {
        out.each_device(|device| device.clients.len() as u64);
    }),
    family("platter_clients_max", "gauge", "Most clients at a time.", |out| {
        let most = out.daemon.clients().most();
        out.value(&[], most);
    }),
    family("platter_clients_refused_total", "counter", "Clients that were refused.", |out| {
        let refused = out.daemon.clients().refused();
        for (why, count) in
            [("clients_max", refused.full), ("descriptors", refused.descriptors), ("memory", refused.memory)]
        {
            out.value(&[("why", why)], count);
        }
    }),
    family("platter_device_size_bytes", "gauge", "Size of the device.", |out| {
        out.each_device(|device| device.size_bytes);
    }),
    family("platter_device_read_bytes_total", "counter", "Bytes read from the disks.", |out| {
        out.each_device(|device| device.counters.bytes_read);
    }),
    family("platter_device_written_bytes_total", "counter", "Bytes written to the disks.", |out| {
        out.each_device(|device| device.counters.bytes_written);
    }),
    family("platter_device_bios_total", "counter", "I/Os completed, with or without an error.", |out| {
        out.each_device(|device| device.counters.bios_completed);
    }),
    family(
        "platter_device_merges_total",
        "counter",
        "I/Os and requests that were merged with a neighbour.",
        |out| {
            out.each_device(|device| {
                device.counters.back_merges + device.counters.front_merges + device.counters.request_merges
            });
        },
    ),
    family("platter_device_flushes_total", "counter", "Flushes sent to the disks.", |out| {
        out.each_device(|device| device.counters.flushes);
    }),
    family("platter_device_copied_bytes_total", "counter", "Bytes copied because of alignment.", |out| {
        out.each_device(|device| device.counters.bytes_bounced);
    }),
    family("platter_device_timeouts_total", "counter", "I/Os that timed out.", |out| {
        out.each_device(|device| device.counters.timeouts);
    }),
    family("platter_device_errors_total", "counter", "I/Os that failed.", |out| out.errors()),
    family(
        "platter_device_flush_failures_total",
        "counter",
        "Flushes that failed while it was served.",
        |out| {
            out.each_device(|device| device.flush_failures);
        },
    ),
    family("platter_device_in_flight_requests", "gauge", "Requests with the disks.", |out| {
        out.each_device(|device| device.statistics.gauges.in_flight);
    }),
    family("platter_device_queued_requests", "gauge", "Requests that have not started.", |out| {
        out.each_device(|device| device.statistics.gauges.queued);
    }),
    family(
        "platter_device_held_bios",
        "gauge",
        "I/Os without a request: they wait for a barrier or a free one.",
        |out| {
            out.each_device(|device| device.statistics.gauges.held);
        },
    ),
    family(
        "platter_device_oldest_io_seconds",
        "gauge",
        "Age of the oldest unanswered I/O of a client.",
        |out| {
            out.each_device(|device| device.oldest_seconds);
        },
    ),
    family(
        "platter_device_request_duration_seconds",
        "histogram",
        "Time of requests with the disks.",
        |out| out.latency(),
    ),
    family("platter_cache_hit_pages_total", "counter", "Pages found in the cache.", |out| {
        out.each_cache(|cache| cache.hits);
    }),
    family("platter_cache_missed_pages_total", "counter", "Pages not found in the cache.", |out| {
        out.each_cache(|cache| cache.misses);
    }),
    family(
        "platter_cache_read_ahead_pages_total",
        "counter",
        "Pages read before they were asked for.",
        |out| {
            out.each_cache(|cache| cache.pages_read_ahead);
        },
    ),
    family("platter_cache_size_bytes", "gauge", "Memory that pages may have at present.", |out| {
        out.each_number("cache pages", |pages| pages * PAGE);
    }),
    family("platter_cache_dirty_bytes", "gauge", "Bytes of pages that are not on the disk yet.", |out| {
        out.each_number("dirty bytes", |bytes| bytes);
    }),
    family("platter_cache_evicted_pages_total", "counter", "Pages evicted for other pages.", |out| {
        out.each_number("pages evicted", |pages| pages);
    }),
    family("platter_cache_write_back_errors_total", "counter", "Write-backs that failed.", |out| {
        out.each_number("write-back errors", |errors| errors);
    }),
    family(
        "platter_cache_squeezes_total",
        "counter",
        "Times that memory pressure has made the cache smaller.",
        |out| {
            out.each_number("cache squeezed", |times| times);
        },
    ),
    family(
        "platter_cache_writer_waits_total",
        "counter",
        "Times that a write has waited for fewer dirty pages.",
        |out| {
            out.each_number("writer waits", |waits| waits);
        },
    ),
    family(
        "platter_cache_writer_wait_seconds_total",
        "counter",
        "Time for which writes have waited for fewer dirty pages.",
        |out| {
            out.each_number("writer wait time", seconds);
        },
    ),
    family("platter_client_read_bytes", "gauge", "Bytes read by a client that is connected.", |out| {
        out.each_client(|client| &client.counts.read_bytes);
    }),
    family("platter_client_written_bytes", "gauge", "Bytes written by a client that is connected.", |out| {
        out.each_client(|client| &client.counts.written_bytes);
    }),
    family(
        "platter_client_in_flight_requests",
        "gauge",
        "Unanswered requests of a client that is connected.",
        |out| {
            out.each_client(|client| &client.counts.in_flight);
        },
    ),
    family(
        "platter_client_errors",
        "gauge",
        "Requests of a connected client answered with an error.",
        |out| {
            out.each_client(|client| &client.counts.errors);
        },
    ),
];

/// A device, as of one moment.
struct Seen {
    name: String,
    size_bytes: u64,
    counters: platter_block::counters::Snapshot,
    statistics: Statistics,
    cache: Option<platter_block::handle::HandleCounters>,
    layers: Vec<LayerStatus>,
    clients: Vec<u64>,
    oldest_seconds: f64,
    flush_failures: u64,
}

struct Out<'a> {
    daemon: &'a Daemon,
    devices: Vec<Seen>,
    name: &'static str,
    text: String,
}

/// All metrics of a daemon.
pub fn render(daemon: &Daemon) -> String {
    let (now, clients) = (Instant::now(), daemon.clients().list());
    let seen = |served: &std::sync::Arc<crate::served::Served>| {
        let own = || clients.iter().filter(|client| client.device == served.name());
        let device = served.device();
        Seen {
            name: served.name().to_owned(),
            size_bytes: device.size(),
            counters: device.counters(),
            statistics: device.statistics(),
            cache: device.cache_counters(),
            layers: device.layers(),
            flush_failures: served.losses().count(),
            clients: own().map(|client| client.id).collect(),
            oldest_seconds: own()
                .filter_map(|client| client.oldest(now))
                .max()
                .map_or(0.0, |age| age.as_secs_f64()),
        }
    };
    let devices = daemon.devices().list().iter().map(seen).collect();
    let mut out = Out { daemon, devices, name: "", text: String::new() };
    for family in FAMILIES {
        out.name = family.name;
        let (name, kind, help) = (family.name, family.kind, family.help);
        // Writing to a string does not fail.
        let _ = write!(out.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        (family.write)(&mut out);
    }
    out.text
}

impl Out<'_> {
    fn value(&mut self, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        self.line("", labels, value);
    }

    fn line(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        self.text += self.name;
        self.text += suffix;
        for (index, (label, text)) in labels.iter().enumerate() {
            let begin = if index == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{begin}{label}=\"{}\"", escaped(text));
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{end} {value}");
    }

    fn each_device<V: std::fmt::Display>(&mut self, value: impl Fn(&Seen) -> V) {
        for device in std::mem::take(&mut self.devices) {
            self.value(&[("device", &device.name)], value(&device));
            self.devices.push(device);
        }
    }

    fn each_cache(&mut self, value: impl Fn(&platter_block::handle::HandleCounters) -> u64) {
        for device in std::mem::take(&mut self.devices) {
            if let Some(cache) = &device.cache {
                self.value(&[("device", &device.name)], value(cache));
            }
            self.devices.push(device);
        }
    }

    /// A number of the status of caches, for each device that has some: their sum.
    fn each_number<V: std::fmt::Display>(&mut self, name: &str, value: impl Fn(u64) -> V) {
        for device in std::mem::take(&mut self.devices) {
            let numbers = device.layers.iter().filter_map(|layer| layer.number(name));
            if let Some(sum) = numbers.reduce(u64::saturating_add) {
                self.value(&[("device", &device.name)], value(sum));
            }
            self.devices.push(device);
        }
    }

    fn each_client(&mut self, cell: impl Fn(&crate::clients::Client) -> &AtomicU64) {
        for client in self.daemon.clients().list() {
            let labels =
                [("client", &*client.id.to_string()), ("device", &*client.device), ("export", client.export)];
            self.value(&labels, cell(&client).load(Ordering::Relaxed));
        }
    }

    fn errors(&mut self) {
        for device in std::mem::take(&mut self.devices) {
            for (op, kind, count) in device.statistics.errors() {
                let labels = [("device", &*device.name), ("op", &*label_of(op)), ("kind", &*kind_name(kind))];
                self.value(&labels, count);
            }
            self.devices.push(device);
        }
    }

    fn latency(&mut self) {
        for device in std::mem::take(&mut self.devices) {
            for op in Op::ALL {
                let buckets: Vec<(u64, u64)> = device.statistics.latency(op).collect();
                let sum = device.statistics.total_latency(op);
                let (name, op) = (device.name.as_str(), label_of(op));
                for bound in BOUNDS_NS {
                    // A bucket of the queue counts where its smallest latency is.
                    let below: u64 =
                        buckets.iter().filter(|(low, _)| *low <= bound).map(|(_, count)| count).sum();
                    let labels = [("device", name), ("op", &op), ("le", &seconds(bound))];
                    self.line("_bucket", &labels, below);
                }
                let count: u64 = buckets.iter().map(|(_, count)| count).sum();
                self.line("_bucket", &[("device", name), ("op", &op), ("le", "+Inf")], count);
                self.line("_sum", &[("device", name), ("op", &op)], sum as f64 / 1e9);
                self.line("_count", &[("device", name), ("op", &op)], count);
            }
            self.devices.push(device);
        }
    }
}

fn label_of(op: Op) -> String {
    op.to_string().replace('-', "_")
}

fn seconds(nanos: u64) -> String {
    (nanos as f64 / 1e9).to_string()
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_bounds_have_no_exponent() {
        assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
        let bounds = BOUNDS_NS.map(seconds);
        assert_eq!((&*bounds[0], &*bounds[6], &*bounds[18]), ("0.00001", "0.001", "10"));
        assert!(BOUNDS_NS.is_sorted());
    }
}
