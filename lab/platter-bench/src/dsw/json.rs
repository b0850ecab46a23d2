//! A report for programs.

use super::{Cell, Medium, PREFETCH_BYTES, Report, paper};
use crate::report::json::object;
use crate::stats::Sample;
use serde_json::{Value, json};

/// The report as one JSON object. `rungs` lists the rungs by kind of disks as measured, each from the lowest up.
pub fn json(report: &Report) -> Value {
    let rungs: Vec<Value> =
        report.media.iter().flat_map(|m| m.cells.iter().map(|cell| rung(&m.on, cell))).collect();
    let queries: Vec<Value> =
        report.queries.iter().map(|(name, reads)| json!({ "name": name, "reads": reads })).collect();
    let paper: Vec<Value> = paper::TABLE_2
        .iter()
        .map(|row| {
            json!({
                "rung": row.rung,
                "increase_pct": row.increase,
                "cpu_user_pct": row.user,
                "cpu_kernel_pct": row.kernel,
                "cpu_idle_pct": row.idle,
            })
        })
        .collect();
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
        "media": report.media.iter().map(medium).collect::<Vec<_>>(),
        "rungs": rungs,
        "paper_table_2": paper,
    })
}

fn medium(medium: &Medium) -> Value {
    json!({ "on": medium.on, "about": medium.about, "facts": object(medium.facts.clone()) })
}

fn rung(on: &str, cell: &Cell) -> Value {
    let (rate, idle) = (cell.mib_per_s(), cell.cpu_idle_pct());
    json!({
        "rung": cell.rung.name,
        "on": on,
        "mib_per_s": rate.median(),
        "mib_per_s_range": [rate.min(), rate.max()],
        "calls_per_s": cell.calls_per_s().median(),
        "cpu_query_pct": cell.cpu_query_pct().median(),
        "cpu_idle_pct": idle.as_ref().map(Sample::median),
        "io_cpu_ns_per_call": cell.io_cpu_ns_per_call().median(),
        "pages_per_call": cell.pages() as f64 / cell.calls().max(1) as f64,
        "bios_per_call": cell.bios_per_call(),
        "dispatches_per_call": cell.dispatches_per_call(),
        "waits_per_call": cell.waits_per_call(),
        "bytes_bounced": cell.bytes_bounced(),
        "locks_per_call": cell.locks_per_call(),
        "lock_wait_pct": cell.lock_wait_pct().median(),
        "calls": cell.calls(),
        "pages": cell.pages(),
        "rounds": cell.rounds(),
        "device_errors": cell.device().errors_json(),
        "device_latency": cell.device().latency_json(),
        "device_gauges": cell.device().gauges_json(),
    })
}
