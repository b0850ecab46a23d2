//! `platter trace report`.

use crate::{RECORDED, fails, folder, ok, platter, stderr};
use serde_json::Value;
use std::fmt::Write;
use std::fs;

#[test]
fn the_sum_of_a_recorded_trace() {
    let dir = folder(&[]);
    let json: Value =
        serde_json::from_str(&ok(&dir, &["report", "--json", RECORDED[0], RECORDED[1]])).unwrap();
    let kinds = &json["kinds"];
    assert_eq!(
        (&json["records"], &json["partial"], &json["devices"]),
        (&991.into(), &false.into(), &1.into())
    );
    assert_eq!((&kinds["write_ios"], &kinds["write_bytes"]), (&100.into(), &(448 << 10).into()));
    assert_eq!(
        (&kinds["discard_bytes"], &kinds["flush_ios"], &kinds["fua_ios"]),
        (&(1 << 20).into(), &11.into(), &4.into())
    );
    assert_eq!((&json["fua_pct_of_writes"], &json["unfinished"]), (&4.0.into(), &0.into()));
    let ios: u64 =
        json["spans"].as_array().unwrap().iter().map(|span| span["write_ios"].as_u64().unwrap()).sum();
    assert_eq!(ios, 100);
    let heat = json["heat"][0]["columns_bytes"].as_array().unwrap();
    let sum: u64 =
        heat.iter().flat_map(|column| column.as_array().unwrap()).map(|cell| cell.as_u64().unwrap()).sum();
    assert_eq!(Some(sum), json["kinds"]["read_bytes"].as_u64().map(|bytes| bytes + (448 << 10)));
}

#[test]
fn the_page_needs_nothing_else() {
    let dir = folder(&[]);
    ok(&dir, &["report", RECORDED[0], RECORDED[1], "--html", "sda.html"]);
    let page = fs::read_to_string(dir.path().join("sda.html")).unwrap();
    for words in ["<h2>Stages", "<h2>Reuse", "Device 7,", "f0 h8", "SHARDS", "HyperLogLog", "</html>"] {
        assert!(page.contains(words), "{words}");
    }
    for outside in ["<script", "src=", "href=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    let said = fails(&dir, 4, &["report", RECORDED[0], "--html", "sda.html"]);
    assert!(said.contains("sda.html exists"), "{said}");
}

#[test]
fn runs_seeks_and_reuse_of_a_known_trace() {
    let mut csv = String::new();
    // Twice 64 sequential reads of 4 KiB; then a jump back for a write.
    for n in 0..128u64 {
        let _ = writeln!(csv, "5,R,{},4096,{}", n % 64 * 4096, n * 10);
    }
    let _ = writeln!(csv, "5,W,4096,8192,2000");
    let dir = folder(&[("a.csv", &csv)]);
    let json: Value = serde_json::from_str(&ok(&dir, &["report", "--json", "a.csv"])).unwrap();
    let (seeks, reuse) = (&json["seeks"], &json["reuse"]);
    assert_eq!((&seeks["sequential_ios"], &seeks["backward_ios"]), (&126.into(), &2.into()));
    assert_eq!(
        (&seeks["run_n"], &seeks["run_max_ios"], &seeks["run_length_max_bytes"]),
        (&3.into(), &64.into(), &(256 << 10).into())
    );
    assert_eq!((&reuse["sampled_pct"], &reuse["median_bytes"]), (&100.0.into(), &(256 << 10).into()));
    let first = reuse["first_pct"].as_f64().unwrap();
    assert!((first - 100.0 * 64.0 / 130.0).abs() < 1e-9, "{first}");
    let footprint = json["footprint_bytes"].as_u64().unwrap();
    assert!(footprint.abs_diff(256 << 10) <= 2 * 4096, "{footprint}");
    assert_eq!((&json["stages"]["q2q_min_ns"], &json["stages"]["q2c_n"]), (&10_000.into(), &0.into()));
}

#[test]
fn malformed_traces_are_messages() {
    let dir = folder(&[
        ("a.csv", "5,R,9223372036854775808,4096,1\n"),
        ("b.csv", "5,R,0,4096,1\n5,R,0,4096,-7\n"),
        ("c.txt", "  8,0 0 1 -0.5 1 Q R 1 + 8 [a]\n"),
    ]);
    let bytes = fs::read(dir.path().join(RECORDED[0])).unwrap();
    let mut other = bytes[..96].to_vec();
    other.extend([0x65, 0x61, 0x74, 0x07]);
    other.extend([0; 44]);
    fs::write(dir.path().join("order.blktrace.0"), other).unwrap();
    for (args, words) in [
        (
            &["a.csv", "--from", "alibaba"][..],
            "a.csv:1: offset 9223372036854775808 and length 4096: the end is not from 0",
        ),
        (&["b.csv"], "b.csv:2: timestamp `-7` is not a time from 0 to"),
        (&["c.txt", "--from", "blkparse"], "c.txt:1: time `-0.5` is not a time"),
        (&["order.blktrace.0"], "order.blktrace.0: record 3 (at byte 96): has another byte order"),
    ] {
        let said = fails(&dir, 1, &[&["report"], args].concat());
        assert!(said.contains(words), "{said}");
    }
    let output = platter(&dir, &["report", "--keep-going", "--json", "order.blktrace.0"]);
    assert!(
        output.status.success() && stderr(&output).contains("1 of the inputs were not read"),
        "{}",
        stderr(&output)
    );
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["input"]["bad_records"], &json["input"]["cut_inputs"]), (&1.into(), &1.into()));
}
