//! What the writing of a CD has met, as text and JSON.

use platter_block::time::Span;
use serde_json::{Value, json};
use std::fmt::Write;

/// One CD.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// How the writer got at the program's memory.
    pub memory: &'static str,
    /// Virtual time.
    pub elapsed: Span,
    /// Processor time of this machine, with that of the simulation, in ns.
    pub cpu_ns: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Times that the writer's buffer was empty before the end.
    pub underruns: u64,
    /// Least bytes in the writer's buffer when data arrived.
    pub least_buffered: u64,
    /// Commands sent.
    pub commands: u64,
    /// Commands over the program's memory.
    pub mapped: u64,
    /// Commands over a copy.
    pub copied: u64,
    /// Bytes copied.
    pub bytes_copied: u64,
}

impl Run {
    fn cpu_ns_per_mib(&self) -> f64 {
        self.cpu_ns as f64 / (self.bytes as f64 / (1 << 20) as f64)
    }

    /// Processor time as a part of the time that the writing takes.
    fn cpu_percent(&self) -> f64 {
        100.0 * self.cpu_ns as f64 / self.elapsed.0.max(1) as f64
    }
}

/// All CDs of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// Speed of the writer.
    pub speed: u32,
    /// The CDs.
    pub runs: Vec<Run>,
    /// The run was interrupted: CDs are missing.
    pub interrupted: bool,
}

impl Report {
    /// The report as a table.
    pub fn to_text(&self) -> String {
        let mut text = format!(
            "a CD at speed {}, simulated: an illustration, for which nothing is published\n\n\
             memory    MiB  seconds  underruns  least buffered  commands  bytes copied  CPU us/MiB   CPU %\n",
            self.speed
        );
        for run in &self.runs {
            let _ = writeln!(
                text,
                "{:7} {:5} {:8.1} {:10} {:>11.2} MiB {:9} {:13} {:11.1} {:7.3}",
                run.memory,
                run.bytes >> 20,
                run.elapsed.0 as f64 / 1e9,
                run.underruns,
                run.least_buffered as f64 / (1 << 20) as f64,
                run.commands,
                run.bytes_copied,
                run.cpu_ns_per_mib() / 1e3,
                run.cpu_percent(),
            );
        }
        text + "\nSeconds are virtual. Processor time is that of this machine and includes the simulation.\n"
    }

    /// The report as JSON.
    pub fn to_json(&self) -> Value {
        let runs = self.runs.iter().map(|run| {
            json!({
                "memory": run.memory,
                "bytes": run.bytes,
                "elapsed_ns": run.elapsed.0,
                "underruns": run.underruns,
                "least_buffered_bytes": run.least_buffered,
                "commands": run.commands,
                "commands_mapped": run.mapped,
                "commands_copied": run.copied,
                "copied_bytes": run.bytes_copied,
                "cpu_ns": run.cpu_ns,
                "cpu_ns_per_mib": run.cpu_ns_per_mib(),
                "cpu_percent": run.cpu_percent(),
            })
        });
        json!({
            "speed": self.speed,
            "runs": runs.collect::<Vec<_>>(),
            "interrupted": self.interrupted,
        })
    }
}
