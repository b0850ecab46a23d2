//! A report for programs.

use super::options::READ_BYTES;
use super::results::descriptors;
use super::{Cell, Report, paper};
use crate::report::json::{joined, object};
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
    json!({
        "benchmark": "dm",
        "interrupted": report.interrupted,
        "machine": object(report.machine.clone()),
        "disks": report.options.disks,
        "read_bytes": READ_BYTES,
        "repeat": report.options.repeat,
        "media": report.media,
        "rungs": rungs,
        "descriptors": descriptors,
        "paper_table_3": paper::TABLE_3,
    })
}

fn range(sample: &Sample) -> Value {
    json!([sample.min(), sample.max()])
}

fn rung(on: &str, cell: &Cell) -> Value {
    let (rate, cpu) = (cell.mib_per_s(), cell.cpu_ns_per_read());
    let of_cell = json!({
        "rung": cell.rung.name,
        "call": cell.call.name(),
        "on": on,
        "mib_per_s": rate.median(),
        "mib_per_s_range": range(&rate),
        "cpu_ns_per_read": cpu.median(),
        "cpu_ns_per_read_range": range(&cpu),
        "bytes_read": cell.calls() * READ_BYTES as u64,
        "descriptor_bytes": cell.descriptor_bytes(),
        "reads": cell.calls(),
    });
    joined(of_cell, &cell.runs)
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
