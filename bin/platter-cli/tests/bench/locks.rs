//! `platter bench locks` as users call it.

use serde_json::Value;
use std::fs;
use std::process::{Command, Output, Stdio};

fn run(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_platter"));
    command.args(["bench", "locks"]).args(args).stdin(Stdio::null());
    command.output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// docs/locks.md names every key, and its example runs.
#[test]
fn the_documented_command_prints_the_documented_keys() {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/locks.md")).unwrap();
    let example =
        "--on 'null(1T)' 'null(1T, elevator=noop)' --threads 1 4 --repeat 1 --runtime 20ms --json\n";
    assert!(page.contains(example));
    let on = ["--on", "null(1T)", "null(1T, elevator=noop)", "--threads", "1", "4"];
    let output = run(&[&on[..], &["--repeat", "1", "--runtime", "20ms", "--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let points = value["points"].as_array().unwrap();
    assert_eq!(points.len(), 12, "two devices, three callers, two numbers of threads");
    for point in points {
        let named = keys(&value).into_iter().chain(keys(point));
        let missing: Vec<_> = named.filter(|key| !page.contains(&format!("`{key}`"))).collect();
        assert!(missing.is_empty(), "docs/locks.md does not name {missing:?}");
        assert!(
            point["ios_per_s"].as_f64() > Some(0.0) && point["ios_metered"].as_u64() > Some(0),
            "{point}"
        );
        let locks = point["locks"].as_array().unwrap();
        for lock in locks {
            assert!(keys(lock).iter().all(|key| page.contains(&format!("`{key}`"))), "{lock}");
            assert!(lock["stage"] != "other", "the stage of this place has no name: {lock}");
            assert!(!lock["scope"].as_str().unwrap().contains("::"), "the scope has no name: {lock}");
        }
        // Reads of a disk with an elevator go through its queue; the others have lanes of their own.
        let is_shared = point["on"].as_str().unwrap().contains("elevator");
        let enqueued = point["parts"].as_array().unwrap().iter().any(|part| part["part"] == "enqueue");
        assert_eq!(enqueued, is_shared, "{point}");
        let counted = point["counts_per_io"]["dispatches"].as_f64().unwrap();
        assert!((0.5..1.5).contains(&counted), "a dispatch for each read: {counted}");
    }
}

#[test]
fn prebuilding_is_switched_by_the_spec() {
    for (spec, expected) in
        [("null(1T, elevator=noop)", true), ("null(1T, elevator=noop, prebuild=off)", false)]
    {
        let on = ["--on", spec, "--caller", "sync", "--threads", "2"];
        let output = run(&[&on[..], &["--repeat", "1", "--runtime", "10ms", "--json"]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        let parts = value["points"][0]["parts"].as_array().unwrap();
        assert_eq!(parts.iter().any(|part| part["part"] == "prepare"), expected, "{spec}");
    }
}

#[test]
fn bad_options_name_the_value_and_the_range() {
    for (args, status, expected) in [
        (&["--threads", "0"][..], 2, "--threads 0: must be 1 to 1024"),
        (&["--repeat", "0"][..], 2, "must be greater than 0"),
        (&["--caller", "tape"][..], 2, "expected sync, future or channel"),
        (&["--on", "ram(1M)", "--block", "2M"][..], 4, "a multiple of 512 up to 1048576"),
        (&["--on", "sim(ideal)"][..], 4, "its time is virtual"),
    ] {
        let output = run(args);
        let text = stderr(&output).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(expected), "{args:?}: {text}");
        assert_eq!(output.status.code(), Some(status), "{args:?}: {text}");
    }
}

#[test]
fn the_text_shows_locks_parts_and_calls() {
    let on = ["--on", "null(1T, elevator=noop)", "--caller", "sync", "--threads", "2"];
    let output = run(&[&on[..], &["--repeat", "1", "--runtime", "10ms"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    for expected in ["contended", "lane pool", "enqueue", "dispatches"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}
