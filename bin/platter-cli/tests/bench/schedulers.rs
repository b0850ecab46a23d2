//! `platter bench schedulers` as users call it.

use crate::partitioned::partitioned;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn run(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_platter"));
    command.args(["bench", "schedulers", "--quiet"]).args(args).stdin(Stdio::null()).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(args: &[&str]) -> Value {
    let output = run(&[args, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The keys of all objects in a value.
fn keys(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                found.insert(key.clone());
                keys(value, found);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| keys(value, found)),
        _ => {}
    }
}

/// docs/command.md names every key, and no other in that section.
#[test]
fn the_page_names_the_keys() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/command.md");
    let page = fs::read_to_string(page).unwrap();
    let section = page.split("### bench schedulers\n").nth(1).unwrap().split("\n#").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let listed = rows.flat_map(|line| line.split('|').nth(1).unwrap().split('`').skip(1).step_by(2));
    let listed: BTreeSet<String> = listed.map(str::to_owned).collect();
    let mut found = BTreeSet::new();
    keys(&json(&["--on", "sim(ideal)", "--time", "20ms"]), &mut found);
    assert_eq!(listed, found);
}

#[test]
fn every_elevator_meets_every_mix_and_threads_change_nothing() {
    let args = ["--on", "sim(ideal)", "--time", "50ms"];
    let one = json(&[&args[..], &["--threads", "1"]].concat());
    let four = json(&[&args[..], &["--threads", "4"]].concat());
    assert_eq!(one.to_string(), four.to_string());
    let elevators = platter::elevators::TABLE.len();
    let mixes = platter_bench::schedulers::MIXES.len();
    assert_eq!(one["rows"].as_array().unwrap().len(), elevators * mixes);
}

#[test]
fn a_preset_runs_the_elevators_of_its_kernel() {
    let args = ["--on", "sim(ideal)", "--time", "20ms", "--mixes", "readers", "--preset"];
    let elevators = |more: &[&str]| -> Vec<String> {
        let report = json(&[&args[..], more].concat());
        let rows = report["rows"].as_array().unwrap();
        rows.iter().map(|row| row["elevator"].as_str().unwrap().to_owned()).collect()
    };
    let all = [
        "noop(front_merges=1)",
        "deadline(batch_rule=contiguous)",
        "anticipatory(kernel=2.6.2, stale_write_batch=1)",
        "cfq-v1",
    ];
    assert_eq!(elevators(&["2.6.5"]), all);
    assert_eq!(
        elevators(&["2.6.7", "--elevators", "anticipatory"]),
        ["anticipatory(kernel=2.6.7, stale_write_batch=1)"]
    );
    let changed = ["2.6.7", "--elevators", "anticipatory(antic_expire=0), cfq-v1(quantum=2),noop"];
    let expected = [
        "anticipatory(kernel=2.6.7, stale_write_batch=1, antic_expire=0)",
        "cfq-v1(quantum=2)",
        "noop(front_merges=1)",
    ];
    assert_eq!(elevators(&changed), expected);
    for (more, told) in
        [(&["2.6.5", "--elevators", "cfq"][..], "no preset of `cfq`"), (&["2.6.99"], "2.6.28")]
    {
        let output = run(&[&args[..], more].concat());
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(told), "{}", stderr(&output));
    }
}

#[test]
fn the_examples_of_the_help_run() {
    let two = "deadline(fifo_batch=1), deadline(fifo_batch=64)";
    let result = json(&["--elevators", two, "--mixes", "reader-writer", "--time", "500ms"]);
    let rows = result["rows"].as_array().unwrap();
    assert_eq!((rows.len(), &rows[1]["elevator"]), (2, &"deadline(fifo_batch=64)".into()));
    let result = json(&["--elevators", "deadline,noop", "--mixes", "readers", "--time", "500ms"]);
    assert_eq!(result["rows"].as_array().unwrap().len(), 2);
    assert_eq!((&result["rows"][0]["elevator"], &result["simulated"]), (&"deadline".into(), &true.into()));
    let dir = tempfile::tempdir().unwrap();
    let (image, page) = (dir.path().join("disk.img"), dir.path().join("schedulers.html"));
    let spec = format!("file({}, create=64M)", image.display());
    let args = ["--on", &spec, "--time", "100ms", "--elevators", "noop", "--report", page.to_str().unwrap()];
    let written = json(&[&args[..], &["--mixes", "reader-writer"]].concat());
    assert_eq!((&written["simulated"], written["rows"].as_array().unwrap().len()), (&false.into(), 1));
    assert!(fs::read_to_string(&page).unwrap().contains("reader-writer"));
    // Mixes that write must be named on a real device.
    let read_only = json(&args[..6]);
    assert!(read_only["rows"].as_array().unwrap().iter().all(|row| row["mix"] != "database"));
    assert!(!read_only["rows"].as_array().unwrap().is_empty());
}

#[test]
fn a_disk_that_holds_something_is_not_written_to() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.img");
    let image = partitioned(8 << 20);
    fs::write(&path, &image).unwrap();
    let refused = run(&["--on", path.to_str().unwrap(), "--mixes", "database", "--time", "10ms"]);
    assert_eq!(refused.status.code(), Some(3), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("--force"), "{}", stderr(&refused));
    assert_eq!(fs::read(path).unwrap(), image);
}

#[test]
fn wrong_options_say_what_is_right() {
    for (args, says) in [
        (&["--elevators", "elevate"][..], "there is no elevator `elevate`"),
        (&["--elevators", "deadline(fifo_batch=-1)"], "fifo_batch"),
        (&["--elevators", "deadline(fifo_batch=4"], "deadline"),
        (&["--elevators", "noop,"], "the list `noop,` has an empty part"),
        (&["--mixes", "all"], "unknown mix; expected one of: reader-writer"),
        (&["--on", "sim(ideal, elevator=noop)"], "leave `elevator` out"),
        (&["--on", "ram(1M)"], "give a larger one"),
        (&["--time", "0"], "above 0"),
        (&["--on", "/nonexistent/disk"], "/nonexistent/disk"),
    ] {
        let output = run(args);
        assert!(!output.status.success() && stderr(&output).contains(says), "{args:?}: {}", stderr(&output));
    }
}
