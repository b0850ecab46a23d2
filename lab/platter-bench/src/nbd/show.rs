//! The report, as text and for programs. The keys are listed in `docs/nbd-copies.md`.

use super::{Point, Report};
use crate::report::units::{bytes_short, fixed, rate, throughput};
use crate::report::{Column, Table, Terminal};
use crate::stats::Sample;
use serde_json::{Value, json};

fn median(sample: Option<Sample>) -> f64 {
    sample.map_or(0.0, |sample| sample.median())
}

impl Report {
    /// The report as text.
    pub fn to_text(&self, terminal: impl Into<Terminal>) -> String {
        let terminal = terminal.into();
        let mut out = terminal.heading("NBD server (docs/nbd-copies.md)") + "\n";
        let method = format!(
            "{}, over a Unix socket, {} connection(s), random positions. Medians of {} rounds of {:?}, in which both ways \
             alternate. `copied` is payload that the server has copied between its own buffers, per byte served; CPU is that \
             of the server and its device. Ratios are to the copying way, by rounds.",
            self.on, self.options.connections, self.options.repeat, self.options.runtime
        );
        out += &terminal.paragraph(&method, 0);
        let mut table = Table::new([
            Column::text("transfer"),
            Column::number("block", ""),
            Column::number("depth", ""),
            Column::text("way"),
            Column::number("requests", "/s"),
            Column::number("throughput", "MiB/s"),
            Column::number("CPU", "us/request"),
            Column::number("copied", "bytes/byte"),
            Column::number("rate ratio", ""),
            Column::number("CPU ratio", ""),
        ]);
        for point in &self.points {
            let copying = self.copying(point);
            table.row([
                point.transfer.name().to_owned(),
                bytes_short(point.block),
                point.depth.to_string(),
                point.way.name().to_owned(),
                rate(median(point.requests_per_s())),
                throughput(median(point.mib_per_s())),
                fixed(median(point.server_cpu_ns()) / 1e3, 2),
                fixed(point.copied_per_byte(), 3),
                fixed(median(copying.and_then(|copying| point.rate_ratio(copying))), 2),
                fixed(median(copying.and_then(|copying| point.cpu_ratio(copying))), 2),
            ]);
        }
        out + &format!("\n{}", table.to_text(terminal))
    }

    /// The report as one JSON object; units are in the names of its keys.
    pub fn to_json(&self) -> Value {
        let point = |point: &Point| point.to_json(self.copying(point));
        json!({
            "benchmark": "nbd",
            "on": self.on,
            "connections": self.options.connections,
            "runtime_s": self.options.runtime.as_secs_f64(),
            "repeat": self.options.repeat,
            "interrupted": self.interrupted,
            "points": self.points.iter().map(point).collect::<Vec<_>>(),
        })
    }
}

impl Point {
    fn to_json(&self, copying: Option<&Point>) -> Value {
        let figures = |sample: Option<Sample>| match sample {
            None => Value::Null,
            Some(sample) => json!({ "median": sample.median(), "min": sample.min(), "max": sample.max() }),
        };
        json!({
            "transfer": self.transfer.name(),
            "block_bytes": self.block,
            "depth": self.depth,
            "way": self.way.name(),
            "requests_per_s": figures(self.requests_per_s()),
            "mib_per_s": figures(self.mib_per_s()),
            "server_cpu_ns_per_request": figures(self.server_cpu_ns()),
            "client_cpu_ns_per_request": figures(self.client_cpu_ns()),
            "payload_bytes": self.payload_bytes,
            "copied_bytes": self.copied_bytes,
            "copied_per_byte": self.copied_per_byte(),
            "rate_ratio_to_copying": figures(copying.and_then(|copying| self.rate_ratio(copying))),
            "cpu_ratio_to_copying": figures(copying.and_then(|copying| self.cpu_ratio(copying))),
        })
    }
}
