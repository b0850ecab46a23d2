//! The whole benchmark, on small disks.

use super::*;
use crate::ladder;
use serde_json::Value;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// A scan of 64 pages and ten single pages.
fn recording() -> Recording {
    let read = |page| Read { page, compute_ns: 1_000 };
    let queries = vec![
        Query { name: "scan".into(), reads: (0..64).map(read).collect() },
        Query { name: "points".into(), reads: (0..10).map(|i| read(i * 7 % 64)).collect() },
    ];
    Recording::new(0.001, 4096, 64, queries).unwrap()
}

fn measure(options: &Options) -> Result<Report, DswError> {
    let dm = crate::dm::Options { disks: options.disks, ..Default::default() };
    let media = [Disks::ram(&dm)?];
    run(&recording(), &media, options, Instant::now(), &AtomicBool::new(false), &mut |_| {})
}

fn options() -> Options {
    // Of 14 calls, four are of 16 pages.
    Options { agents: 2, disks: 2, repeat: 2, calls: Some(14), ..Options::default() }
}

/// Each agent reads the whole recording once in each round: what it costs is known exactly.
#[test]
fn counts_are_those_of_the_recording() {
    let report = measure(&options()).unwrap();
    let value = json(&report);
    assert_eq!(value["calls"], 14);
    let rungs = value["rungs"].as_array().unwrap();
    assert_eq!(rungs.len(), ladder::TABLE.len());
    for rung in rungs {
        let count = |key: &str| rung[key].as_f64().unwrap();
        assert_eq!((count("calls"), count("pages"), count("rounds")), (56.0, 4.0 * 74.0, 2.0), "{rung}");
        let pages = 74.0 / 14.0;
        assert_eq!(count("pages_per_call"), pages);
        let (bios, waits) = match rung["rung"].as_str().unwrap() {
            "Baseline" | "SB" | "SBI" => (pages * 8.0, pages),
            "SBIR" => (pages, pages),
            "SBIRV" | "SBIRVP" => (pages, 1.0),
            _ => (1.0, 1.0),
        };
        assert_eq!(count("bios_per_call"), bios, "{rung}");
        // The pages of the bounce pool are shared by all tests of the process: a call waits more often when they are in use.
        let (found, shares) = (count("waits_per_call"), rung["rung"] == "Baseline");
        assert!(found == waits || (shares && found > waits), "{rung}");
        let bounced = if rung["rung"] == "Baseline" { 4.0 * 74.0 * 4096.0 } else { 0.0 };
        assert_eq!(count("bytes_bounced"), bounced);
        assert!(count("cpu_query_pct") > 0.0 && count("mib_per_s") > 0.0, "{rung}");
    }
}

#[test]
fn without_computing_only_the_io_is_left() {
    let rungs = vec![ladder::find("bio").unwrap()];
    let value = json(&measure(&Options { compute: 0.0, rungs, ..options() }).unwrap());
    assert_eq!(
        (&value["rungs"][0]["cpu_query_pct"], &value["compute"]),
        (&Value::from(0.0), &Value::from(0.0))
    );
}

#[test]
fn the_text_names_what_was_replayed_and_fits_80_columns() {
    let terminal = crate::report::Terminal { color: false, width: Some(80) };
    let text = text(&measure(&options()).unwrap(), terminal);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains("scan 64, points 10"), "{text}");
    assert!(text.contains("2002: change"), "{text}");
}

#[test]
fn an_interruption_before_the_first_figure_is_an_error() {
    let dm = crate::dm::Options { disks: 1, ..Default::default() };
    let media = [Disks::ram(&dm).unwrap()];
    let run = run(&recording(), &media, &options(), Instant::now(), &AtomicBool::new(true), &mut |_| {});
    assert!(matches!(run, Err(DswError::Interrupted)), "{run:?}");
}
