//! What a soak came to, as text and as JSON.

use super::{Cover, Found};
use serde_json::{Value, json};
use std::fmt::Write;

/// What a soak came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Seed of the first run.
    pub seed: u64,
    /// Runs that were done, the one that found something included.
    pub runs: u64,
    /// The bug that was built in.
    pub bug: Option<&'static str>,
    /// The first run that found something.
    pub found: Option<Found>,
    /// What the runs came across.
    pub cover: Cover,
    /// It was stopped before its end.
    pub interrupted: bool,
}

impl Report {
    /// The command that repeats the run which found something.
    pub fn replay(&self) -> Option<String> {
        let found = self.found.as_ref()?;
        let bug = self.bug.map(|bug| format!(" --bug {bug}")).unwrap_or_default();
        Some(format!("platter sim soak --seed {} --runs 1{bug}", found.seed))
    }
}

/// As text.
pub fn text(report: &Report) -> String {
    let mut out = String::new();
    let bug = report.bug.map(|bug| format!(", with the bug {bug}")).unwrap_or_default();
    // Writing to a string does not fail.
    let _ = writeln!(out, "{} runs from seed {}{bug}", report.runs, report.seed);
    for (name, count) in report.cover.rows() {
        let _ = writeln!(out, "  {:<20}{count:>12}", name.replace('_', " "));
    }
    match (&report.found, report.replay()) {
        (Some(found), Some(replay)) => {
            let _ = writeln!(out, "FOUND, seed {}: {}\nto see it again: {replay}", found.seed, found.what);
        }
        _ => out.push_str("nothing found\n"),
    }
    out
}

/// As JSON: `seed`, `runs`, `bug`, `interrupted`, `found` (null, or `seed`, `what`, `replay`), and `cover`, an
/// object of counts.
pub fn json(report: &Report) -> Value {
    let found = report
        .found
        .as_ref()
        .map(|found| json!({ "seed": found.seed, "what": found.what, "replay": report.replay() }));
    let cover: serde_json::Map<String, Value> =
        report.cover.rows().map(|(name, count)| (name.to_owned(), json!(count))).collect();
    json!({
        "seed": report.seed,
        "runs": report.runs,
        "bug": report.bug,
        "interrupted": report.interrupted,
        "found": found,
        "cover": cover,
    })
}
