//! `platter bench parallel-read` as users call it.

use serde_json::Value;
use std::fs;
use std::process::{Command, Output, Stdio};

fn run(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_platter"));
    command.args(["bench", "parallel-read"]).args(args).stdin(Stdio::null());
    command.output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(args: &[&str]) -> Value {
    let output = run(&[args, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// docs/fileio.md names every key, and its example runs.
#[test]
fn the_documented_command_prints_the_documented_keys() {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/fileio.md")).unwrap();
    let section = page.split("# `platter bench parallel-read`").nth(1).unwrap();
    assert!(section.contains("platter bench parallel-read --on 'ram(64M)' 'ram(64M)' --repeat 2 --json\n"));
    let value = json(&["--on", "ram(64M)", "ram(64M)", "--repeat", "2"]);
    let runs = value["runs"].as_array().unwrap();
    for key in keys(&value).into_iter().chain(keys(&runs[0])).chain(keys(&runs[0]["rounds"][0])) {
        assert!(section.contains(&format!("`{key}`")), "{key}");
    }
    let modes: Vec<&str> = runs.iter().map(|run| run["mode"].as_str().unwrap()).collect();
    assert_eq!(modes, ["normal", "direct", "raw"]);
    for run in runs {
        let rounds = run["rounds"].as_array().unwrap();
        assert!(rounds.len() == 2 && rounds.iter().all(|round| round["bytes"] == 128 << 20), "{run}");
        assert!(run["mib_per_s"].as_f64() > Some(0.0) && run["finish_spread_s"].is_number(), "{run}");
    }
    assert_eq!((&runs[0]["block_bytes"], &runs[1]["block_bytes"]), (&512.into(), &(4 << 20).into()));
}

#[test]
fn files_are_read_in_every_mode_and_stay_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let contents: Vec<u8> = (0..300_000u32).map(|i| (i % 251) as u8).collect();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    for name in ["a", "b"] {
        fs::write(path(name), &contents[..262_144]).unwrap();
    }
    let (a, b) = (path("a"), path("b"));
    let on = ["--on", &a, "--on", &b, "--block", "64K", "--repeat", "1"];
    let value = json(&on);
    assert_eq!(value["on"], serde_json::json!([a, b]));
    assert!(value["runs"].as_array().unwrap().iter().all(|run| run["rounds"][0]["bytes"] == 2 * 262_144));
    let cached = format!("cache(size=1M, {a})");
    let part = ["--on", &cached, "--mode", "direct", "--block", "4K", "--size", "100K", "--repeat", "1"];
    assert_eq!(json(&part)["runs"][0]["rounds"][0]["bytes"], 100 << 10);
    let text = run(&[&on[..], &["--mode", "raw", "direct", "--raw-rung", "sbir"]].concat());
    let text = String::from_utf8(text.stdout).unwrap();
    let (direct, raw) = (text.find("\ndirect"), text.find("\nraw"));
    assert!(direct.is_some() && direct < raw && !text.contains("normal"), "{text}");
    assert!(fs::read(&a).unwrap() == contents[..262_144]);
}

#[test]
fn what_cannot_be_done_says_why() {
    let refused = |args: &[&str], code: i32, words: &[&str]| {
        let output = run(args);
        let said = stderr(&output);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(code), 0), "{args:?}: {said}");
        assert!(words.iter().all(|word| said.contains(word)), "{args:?}: {said}");
    };
    refused(&[], 2, &["--on"]);
    refused(&["--on", "ram(1M"], 2, &["ram(1M"]);
    refused(&["--on", "/nonexistent"], 3, &["/nonexistent"]);
    refused(&["--on", "ram(64M)", "--mode", "fast"], 2, &["fast", "normal, direct or raw"]);
    refused(&["--on", "ram(64M)", "--raw-rung", "none"], 2, &["none", "Baseline, SB"]);
    refused(&["--on", "ram(64M)", "--block", "1000"], 2, &["--block 1000", "multiples of 512"]);
    refused(&["--on", "ram(64M)", "--size", "1G"], 4, &["--size 1G", "up to 64M"]);
    refused(&["--on", "ram(1M)"], 4, &["blocks of 4M", "--block"]);
    refused(&["--on", "sim(ideal)", "--mode", "direct"], 2, &["simulated", "bench io"]);
    let striped = "raid0(ram(64M), ram(64M))";
    refused(&["--on", striped], 2, &["mode raw", "has devices below it"]);
    assert_eq!(
        json(&["--on", striped, "--mode", "direct", "--repeat", "1"])["runs"][0]["rounds"][0]["bytes"],
        128 << 20
    );
}
