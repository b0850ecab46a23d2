//! A report for programs.

use super::{Cell, PREFETCH_BYTES, Report, paper};
use crate::report::json::{joined, object};
use serde_json::{Value, json};

/// The report as one JSON object. `rungs` lists the rungs by kind of disks as measured, each from the lowest up.
pub fn json(report: &Report) -> Value {
    let rungs: Vec<Value> =
        report.media.iter().flat_map(|m| m.cells.iter().map(|cell| rung(&m.on, cell))).collect();
    let queries: Vec<Value> =
        report.queries.iter().map(|(name, reads)| json!({ "name": name, "reads": reads })).collect();
    let (scale, bytes, page_bytes) = report.database;
    json!({
        "benchmark": "dsw",
        "interrupted": report.interrupted,
        "machine": object(report.machine.clone()),
        "database": { "scale": scale, "bytes": bytes, "page_bytes": page_bytes },
        "queries": queries,
        "calls": report.calls,
        "prefetch_bytes": PREFETCH_BYTES,
        "agents": report.options.agents,
        "compute": report.options.compute,
        "repeat": report.options.repeat,
        "media": report.media,
        "rungs": rungs,
        "paper_table_2": paper::TABLE_2,
    })
}

fn rung(on: &str, cell: &Cell) -> Value {
    let rate = cell.mib_per_s();
    let of_cell = json!({
        "rung": cell.rung.name,
        "on": on,
        "mib_per_s": rate.median(),
        "mib_per_s_range": [rate.min(), rate.max()],
        "calls_per_s": cell.calls_per_s().median(),
        "cpu_query_pct": cell.cpu_query_pct().median(),
        "io_cpu_ns_per_call": cell.io_cpu_ns_per_call().median(),
        "pages_per_call": cell.pages() as f64 / cell.calls().max(1) as f64,
        "calls": cell.calls(),
        "pages": cell.pages(),
    });
    joined(of_cell, &cell.runs)
}
