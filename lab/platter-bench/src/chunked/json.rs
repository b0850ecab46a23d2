//! The points for programs. The keys are listed in `docs/command.md`.

use super::{Busy, Point, Report};
use serde_json::{Value, json};

impl Report {
    /// The report as one JSON object.
    pub fn to_json(&self) -> Value {
        json!({
            "benchmark": "chunked",
            "on": self.on,
            "simulated": self.simulated,
            "samples": self.harness.samples,
            "enough_ns": self.harness.enough.0,
            "seed": self.harness.seed,
            "interrupted": self.interrupted,
            "points": self.points.iter().map(Point::to_json).collect::<Vec<_>>(),
        })
    }
}

impl Point {
    /// The point as one JSON object.
    pub fn to_json(&self) -> Value {
        let cell = &self.cell;
        json!({
            "personality": cell.personality.name(),
            "disks": cell.disks,
            "stripe_bytes": cell.stripe(),
            "chunk_bytes": cell.chunk(),
            "request_bytes": cell.request,
            "rw": if cell.write { "write" } else { "read" },
            "depth": cell.depth(),
            "mib_per_s_median": self.quartiles[1],
            "mib_per_s_q1": self.quartiles[0],
            "mib_per_s_q3": self.quartiles[2],
            "samples": self.samples,
            "busy_pct": self.busy.as_ref().map(|busy| busy.mean_pct.clone()),
            "device_errors": self.device.errors_json(),
            "device_latency": self.device.latency_json(),
            "device_gauges": self.device.gauges_json(),
        })
    }
}

impl Busy {
    /// The activity of the disks over time, as one JSON object.
    pub fn to_json(&self) -> Value {
        json!({ "bucket_s": self.bucket_s, "mean_pct": self.mean_pct, "timeline_pct": self.timeline_pct })
    }
}
