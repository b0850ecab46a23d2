//! The report of a soak, as text and as JSON.

use super::{Cells, Cover, Features, Found, cells};
use serde_json::{Value, json};
use std::fmt::Write;

/// The outcome of a soak.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Seed of the first run.
    pub seed: u64,
    /// Number of runs, including the one with the finding.
    pub runs: u64,
    /// The bug that was enabled.
    pub bug: Option<&'static str>,
    /// Features that no run had.
    pub without: Features,
    /// The findings, one of each kind, in the order in which they were found.
    pub found: Vec<Found>,
    /// Counts of the events of the runs.
    pub cover: Cover,
    /// Counts of the combinations of operations, flags, layers and faults.
    pub cells: Cells,
    /// The soak was stopped before its end.
    pub interrupted: bool,
}

impl Report {
    /// The command that repeats a run which found something.
    pub fn replay(&self, found: &Found) -> String {
        let bug = self.bug.map(|bug| format!(" --bug {bug}")).unwrap_or_default();
        let without = match self.without.is_empty() {
            true => String::new(),
            false => format!(" --without {}", self.without),
        };
        format!("platter sim soak --seed {} --runs 1{bug}{without}", found.seed)
    }
}

/// Number of lines about combinations that did not occur.
const EMPTY_LINES: usize = 20;

/// As text.
pub fn text(report: &Report) -> String {
    let mut out = String::new();
    let bug = report.bug.map(|bug| format!(", with the bug {bug}")).unwrap_or_default();
    // Writing to a string does not fail.
    let _ = writeln!(out, "{} runs from seed {}{bug}", report.runs, report.seed);
    for (name, count) in report.cover.rows() {
        let _ = writeln!(out, "  {:<20}{count:>12}", name.replace('_', " "));
    }
    out.push_str(&cells::text(&report.cells, EMPTY_LINES));
    for found in &report.found {
        let times = if found.times > 1 { format!(", {} times", found.times) } else { String::new() };
        let _ = writeln!(out, "FOUND ({}{times}), seed {}: {}", found.kind, found.seed, found.what);
        let _ = writeln!(out, "to see it again: {}", report.replay(found));
        let _ = writeln!(out, "the shortest way there that was found:\n{}", found.plan.trim_end());
    }
    if report.found.is_empty() {
        out.push_str("nothing found\n");
    }
    out
}

/// As JSON: `seed`, `runs`, `bug`, `without`, `interrupted`, `found` (null, or an object with `seed`, `kind`, `times`,
/// `what`, `replay` and `plan`), `findings` (a list of such objects, one for each kind), `cover`, an object of counts, and `coverage`: which combinations of operation, flag, layer
/// and fault were met (`possible`, `met`, `empty`, `impossible`).
pub fn json(report: &Report) -> Value {
    let row = |found: &Found| {
        json!({
            "seed": found.seed,
            "kind": found.kind,
            "times": found.times,
            "what": found.what,
            "replay": report.replay(found),
            "plan": found.plan,
        })
    };
    let cover: serde_json::Map<String, Value> =
        report.cover.rows().map(|(name, count)| (name.to_owned(), json!(count))).collect();
    json!({
        "seed": report.seed,
        "runs": report.runs,
        "bug": report.bug,
        "without": report.without.to_string(),
        "interrupted": report.interrupted,
        "found": report.found.first().map(row),
        "findings": report.found.iter().map(row).collect::<Vec<_>>(),
        "cover": cover,
        "coverage": cells::json(&report.cells),
    })
}
