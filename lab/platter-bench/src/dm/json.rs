//! A report for programs.

use super::options::READ_BYTES;
use super::results::descriptors;
use super::{Cell, Medium, Report, paper};
use crate::report::json::object;
use crate::stats::Sample;
use serde_json::{Value, json};

/// The report as one JSON object. `rungs` lists the cells: by kind of disks as measured, `read` before
/// `readv`, each from the lowest rung up.
pub fn json(report: &Report) -> Value {
    let rungs: Vec<Value> =
        report.media.iter().flat_map(|m| m.cells.iter().map(|cell| rung(&m.on, cell))).collect();
    let descriptors: Vec<Value> = descriptors()
        .iter()
        .map(|(name, bytes, devices)| json!({ "name": name, "bytes": bytes, "devices_in_128_mib": devices }))
        .collect();
    let paper: Vec<Value> = paper::TABLE_3
        .iter()
        .map(|row| {
            json!({
                "rung": row.rung,
                "kernel": row.kernel,
                "call": row.call.name(),
                "mb_per_s": row.mb_per_s,
                "cpu_idle_pct": row.idle_pct,
            })
        })
        .collect();
    json!({
        "benchmark": "dm",
        "interrupted": report.interrupted,
        "machine": object(report.machine.clone()),
        "disks": report.options.disks,
        "read_bytes": READ_BYTES,
        "repeat": report.options.repeat,
        "media": report.media.iter().map(medium).collect::<Vec<_>>(),
        "rungs": rungs,
        "descriptors": descriptors,
        "paper_table_3": paper,
    })
}

fn medium(medium: &Medium) -> Value {
    json!({ "on": medium.on, "about": medium.about, "facts": object(medium.facts.clone()) })
}

fn range(sample: &Sample) -> Value {
    json!([sample.min(), sample.max()])
}

fn rung(on: &str, cell: &Cell) -> Value {
    let (rate, cpu, idle) = (cell.mib_per_s(), cell.cpu_ns_per_read(), cell.cpu_idle_pct());
    json!({
        "rung": cell.rung.name,
        "call": cell.call.name(),
        "on": on,
        "mib_per_s": rate.median(),
        "mib_per_s_range": range(&rate),
        "cpu_idle_pct": idle.as_ref().map(Sample::median),
        "cpu_ns_per_read": cpu.median(),
        "cpu_ns_per_read_range": range(&cpu),
        "bios_per_call": cell.bios_per_call(),
        "dispatches_per_call": cell.dispatches_per_call(),
        "waits_per_call": cell.waits_per_call(),
        "bytes_read": cell.bytes_read(),
        "bytes_bounced": cell.bytes_bounced(),
        "locks_per_call": cell.locks_per_call(),
        "lock_wait_pct": cell.lock_wait_pct().median(),
        "descriptor_bytes": cell.descriptor_bytes(),
        "reads": cell.reads(),
        "rounds": cell.rounds(),
        "device_errors": cell.device().errors_json(),
        "device_latency": cell.device().latency_json(),
        "device_gauges": cell.device().gauges_json(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dm::example::example;

    #[test]
    fn rungs_have_their_keys() {
        let value = json(&example());
        let rungs = value["rungs"].as_array().unwrap();
        assert_eq!(rungs.len(), 2);
        let first = &rungs[0];
        assert_eq!((first["rung"].as_str(), first["call"].as_str()), (Some("Baseline"), Some("read")));
        assert_eq!(first["on"], "ram");
        for (key, number) in [
            ("mib_per_s", 4.6875),
            ("cpu_idle_pct", 50.0),
            ("cpu_ns_per_read", 60_000.0),
            ("bios_per_call", 128.0),
            ("bytes_bounced", 13_107_200.0),
            ("bytes_read", 13_107_200.0),
            ("lock_wait_pct", 0.0),
            ("descriptor_bytes", 8792.0),
        ] {
            assert_eq!(first[key].as_f64(), Some(number), "{key}");
        }
        assert_eq!(value["descriptors"][0]["devices_in_128_mib"], 15_265);
        assert_eq!(value["interrupted"], true);
    }
}
