//! The table for programs. Its keys are listed in `docs/command.md`.

use super::Report;
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
            "rows": self.cells,
        })
    }
}
