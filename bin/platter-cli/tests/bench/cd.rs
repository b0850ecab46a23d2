//! `platter bench cd` as users call it.

use serde_json::Value;
use std::process::{Command, Output, Stdio};

fn run(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_platter"));
    command.args(["bench", "cd"]).args(args).stdin(Stdio::null());
    command.output().unwrap()
}

#[test]
fn both_ways_are_reported_with_documented_keys_and_the_same_underruns() {
    let args = ["--size", "60M", "--stall", "4s", "--stall-every", "4s", "--json"];
    let output = run(&args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let runs = value["runs"].as_array().unwrap();
    let of = |key: &str| runs.iter().map(|run| run[key].as_u64().unwrap()).collect::<Vec<_>>();
    assert_eq!(of("commands_copied")[0], 0);
    assert_eq!(of("commands_mapped")[1], 0);
    assert_eq!(of("copied_bytes"), [0, 60 << 20]);
    let underruns = of("underruns");
    assert!(underruns[0] > 0 && underruns[0] == underruns[1], "{underruns:?}");
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/command.md")).unwrap();
    for key in value.as_object().unwrap().keys().chain(runs[0].as_object().unwrap().keys()) {
        assert!(page.contains(&format!("`{key}`")), "docs/command.md does not name {key}");
    }
    let text = run(&args[..6]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("mapped") && text.contains("copied") && text.contains("illustration"), "{text}");
}

#[test]
fn what_no_writer_takes_is_refused_with_the_range() {
    for (args, message) in [
        (["--packet", "100K"], "--packet 102400: expected a multiple of 2048 from 2048 to 65536"),
        (["--packet", "1000"], "--packet 1000: expected a multiple of 2048 from 2048 to 65536"),
        (["--buffer", "4K"], "--buffer 4096: expected a multiple of 2048 from 63488 to 1073741824"),
        (["--size", "1G"], "--size 1073741824: expected a multiple of 2048 from 2048 to 737280000"),
        (["--source", "0"], "--source 0: expected at least 1 byte per second"),
        (["--speed", "0"], "0 is not in 1..=72"),
    ] {
        let output = run(&args);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), stderr.contains(message)), (Some(2), true), "{args:?}: {stderr}");
    }
}
