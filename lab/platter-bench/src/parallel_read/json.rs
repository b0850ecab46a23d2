//! The report for programs. The keys are listed in `docs/fileio.md`.

use super::{Report, Round, Runs};
use crate::stats::Sample;
use serde_json::{Value, json};

impl Report {
    /// The report as one JSON object; units are in the names of its keys.
    pub fn to_json(&self) -> Value {
        json!({
            "benchmark": "parallel-read",
            "on": self.on,
            "size_bytes": self.size,
            "repeat": self.repeat,
            "interrupted": self.interrupted,
            "runs": self.results.iter().map(Runs::to_json).collect::<Vec<_>>(),
        })
    }
}

impl Runs {
    /// A mode as one JSON object: medians of its rounds, and the rounds.
    pub fn to_json(&self) -> Value {
        let median = |sample: Option<Sample>| sample.map(|sample| sample.median());
        let rate = self.sample(|round| Some(round.mib_per_s()));
        json!({
            "mode": self.mode.name(),
            "block_bytes": self.block,
            "mib_per_s": rate.as_ref().map(Sample::median),
            "mib_per_s_min": rate.as_ref().map(Sample::min),
            "mib_per_s_max": rate.as_ref().map(Sample::max),
            "seconds": median(self.sample(|round| Some(round.seconds))),
            "cpu_idle_pct": median(self.sample(|round| round.cpu_idle_pct)),
            "process_cpu_s": median(self.sample(|round| Some(round.process_cpu_s))),
            "finish_spread_s": median(self.sample(|round| Some(round.finish_spread_s))),
            "device_errors": self.device.errors_json(),
            "device_latency": self.device.latency_json(),
            "device_gauges": self.device.gauges_json(),
            "rounds": self.rounds.iter().copied().map(Round::to_json).collect::<Vec<_>>(),
        })
    }
}

impl Round {
    fn to_json(self) -> Value {
        json!({
            "bytes": self.bytes,
            "mib_per_s": self.mib_per_s(),
            "seconds": self.seconds,
            "cpu_idle_pct": self.cpu_idle_pct,
            "process_cpu_s": self.process_cpu_s,
            "finish_spread_s": self.finish_spread_s,
        })
    }
}
