//! Every benchmark reports the latencies of its devices and their failures.

use crate::run::{json, run, text};
use serde_json::Value;
use std::fs;
use tempfile::tempdir;

/// All objects in a value that have this key.
fn with_key<'a>(key: &str, value: &'a Value, found: &mut Vec<&'a Value>) {
    match value {
        Value::Object(object) => {
            found.extend(object.contains_key(key).then_some(value));
            object.values().for_each(|value| with_key(key, value, found));
        }
        Value::Array(list) => list.iter().for_each(|value| with_key(key, value, found)),
        _ => {}
    }
}

/// How many requests of an operation the devices completed, by their own latencies.
fn requests(result: &Value, op: &str) -> u64 {
    let list = result["device_latency"].as_array().unwrap();
    let of_op = list.iter().filter(|entry| entry["op"] == op);
    of_op.map(|entry| entry["requests"].as_u64().unwrap()).sum()
}

/// All gauges are present. Readahead may be in flight.
fn has_all(gauges: &Value) -> bool {
    ["in_flight", "queued", "held"].iter().all(|gauge| gauges[gauge].is_u64())
}

#[test]
fn every_benchmark_has_errors_latencies_and_gauges_of_its_devices() {
    let dir = tempdir().unwrap();
    let file = dir.path().join("disk.img");
    fs::write(&file, vec![1; 8 << 20]).unwrap();
    let file = text(&file);
    for args in [
        &["io", "--rw", "read", "--number_ios", "10"] as &[_],
        &["dm", "--rung", "SBIR", "bio", "--reads", "8", "--repeat", "1"],
        &["chunked", "--quick", "--samples", "3", "--personality", "jbod", "--request", "64K"],
        &["parallel-read", "--mode", "direct", "raw", "--repeat", "1"],
        &["schedulers", "--time", "50ms", "--elevators", "noop", "--mixes", "readers"],
    ] {
        let result = json(&[&["bench"], args, &["--on", file]].concat());
        let mut found = Vec::new();
        with_key("device_latency", &result, &mut found);
        assert!(!found.is_empty(), "{args:?}: {result:#}");
        for result in found {
            assert!(requests(result, "read") > 0, "{args:?}: {result:#}");
            assert_eq!(result["device_errors"], Value::Array(Vec::new()), "{args:?}");
            assert!(has_all(&result["device_gauges"]), "{args:?}: {result:#}");
        }
    }
    let fileio =
        ["bench", "fileio", "--on", file, "--file-num", "4", "--file-test-mode", "rndrd", "--events", "20"];
    let device = &json(&fileio)["device"];
    let latency = &device["latency"][0];
    assert_eq!((&latency["op"], &device["errors"]), (&"read".into(), &Value::Array(Vec::new())));
    assert!(latency["requests"].as_u64().unwrap() > 0 && has_all(&device["gauges"]), "{device:#}");
}

/// The commands of the simulated disk take 100 µs. A job waits longer for it when three of four wait in the queue.
#[test]
fn the_latency_of_the_device_is_that_of_its_commands() {
    let result = json(&[
        "bench",
        "io",
        "--on",
        "sim(ideal, depth=1)",
        "--rw",
        "randread",
        "--iodepth",
        "4",
        "--number_ios",
        "400",
    ]);
    let device = &result["device_latency"][0];
    assert_eq!((&device["op"], &device["requests"]), (&"read".into(), &400.into()));
    let (of_device, of_job) =
        (device["lat_p50_ns"].as_u64().unwrap(), result["lat_p50_ns"].as_u64().unwrap());
    assert!((93_000..=107_000).contains(&of_device), "{of_device}");
    let exact = ["lat_min_ns", "lat_mean_ns", "lat_max_ns"].map(|name| device[name].as_f64().unwrap());
    assert_eq!(exact, [100_000.0; 3]);
    assert!((370_000..=430_000).contains(&of_job), "{of_job}");
}

#[test]
fn errors_are_counted_by_operation_and_kind() {
    let args = ["bench", "io", "--on", "sim(ideal, bad_at=64K, bad_size=4K)", "--rw", "read"];
    let failed = run(&[&args[..], &["--json"]].concat());
    assert_eq!(failed.status.code(), Some(1));
    let result: Value = serde_json::from_slice(&failed.stdout).unwrap();
    let expected = serde_json::json!([{ "op": "read", "kind": "io", "count": 1 }]);
    assert_eq!(result["device_errors"], expected);
    let shown = run(&args);
    assert!(crate::run::stdout(&shown).contains("1 read (io)"), "{}", crate::run::stdout(&shown));
}

/// Requests that the disk has kept after the deadline of their I/O are part of the result.
#[test]
fn requests_that_never_came_back_are_gauges() {
    let stuck = "sim(ideal, stuck=1000000, aborts=0, timeout=10ms)";
    let args = ["bench", "io", "--on", stuck, "--rw", "write", "--number_ios", "1"];
    let failed = run(&[&args[..], &["--json"]].concat());
    let result: Value = serde_json::from_slice(&failed.stdout).unwrap();
    assert_eq!(result["errors"], 1, "{result:#}");
    assert_eq!(result["device_gauges"]["in_flight"], 1, "{result:#}");
}
