//! The table for programs. Its keys are listed in `docs/command.md`.

use super::{Cell, Report};
use serde_json::{Value, json};

impl Report {
    /// The table as one JSON object.
    pub fn to_json(&self) -> Value {
        json!({
            "benchmark": "schedulers",
            "on": self.on,
            "simulated": self.simulated,
            "time_s": self.time.0 as f64 / 1e9,
            "seed": self.seed,
            "interrupted": self.interrupted,
            "rows": self.cells.iter().map(row).collect::<Vec<_>>(),
        })
    }
}

fn row(cell: &Cell) -> Value {
    let processes = cell.processes.iter().map(|process| {
        json!({ "name": process.name, "finish_s": process.finish_s, "mib_per_s": process.mib_per_s })
    });
    json!({
        "elevator": cell.elevator,
        "mix": cell.mix,
        "took_s": cell.took_s,
        "mib_per_s": cell.mib_per_s,
        "lat_p50_ns": cell.lat_p50_ns,
        "lat_p99_ns": cell.lat_p99_ns,
        "lat_max_ns": cell.lat_max_ns,
        "jain": cell.jain,
        "processes": processes.collect::<Vec<_>>(),
        "device_errors": cell.device.errors_json(),
        "device_latency": cell.device.latency_json(),
        "device_gauges": cell.device.gauges_json(),
    })
}
