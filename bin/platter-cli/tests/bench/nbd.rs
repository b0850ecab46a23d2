//! `platter bench nbd` as users call it.

use serde_json::Value;
use std::fs;
use std::process::{Command, Output, Stdio};

fn run(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_platter"));
    command.args(["bench", "nbd"]).args(args).stdin(Stdio::null());
    command.output().unwrap()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// docs/nbd-copies.md names every key, its example runs, and what it says of copies is so.
#[test]
fn the_documented_command_prints_the_documented_keys() {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/nbd-copies.md")).unwrap();
    let example =
        "--on 'null(1G)' --transfer read write --block 4K --depth 8 --repeat 1 --runtime 20ms --json\n";
    assert!(page.contains(example));
    let on = ["--on", "null(1G)", "--transfer", "read", "write", "--block", "4K", "--depth", "8"];
    let output = run(&[&on[..], &["--repeat", "1", "--runtime", "20ms", "--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let points = value["points"].as_array().unwrap();
    assert_eq!(points.len(), 4, "two transfers in two ways");
    for point in points {
        let named = keys(&value).into_iter().chain(keys(point));
        let missing: Vec<_> = named.filter(|key| !page.contains(&format!("`{key}`"))).collect();
        assert!(missing.is_empty(), "docs/nbd-copies.md does not name {missing:?}");
        assert!(point["requests_per_s"]["median"].as_f64() > Some(0.0), "{point}");
        assert!(point["server_cpu_ns_per_request"]["median"].as_f64() > Some(0.0), "{point}");
        let copied = point["copied_per_byte"].as_f64().unwrap();
        let expected = match (point["transfer"].as_str().unwrap(), point["way"].as_str().unwrap()) {
            ("read", "direct") => 0.0..=0.0,
            ("read", _) => 0.99..=1.1,
            (_, "direct") => 0.5..=1.2,
            _ => 1.5..=2.2,
        };
        assert!(expected.contains(&copied), "{point}");
    }
}

#[test]
fn bad_options_name_the_value_and_the_range() {
    for (args, status, expected) in [
        (&["--depth", "0"][..], 2, "--depth 0: must be 1 to 1024"),
        (&["--connections", "65"][..], 2, "--connections 65: must be 1 to 64"),
        (&["--repeat", "0"][..], 2, "must be greater than 0"),
        (&["--transfer", "erase"][..], 2, "expected read or write"),
        (&["--on", "ram(1M)", "--block", "2M"][..], 4, "a multiple of 512 up to 1048576"),
        (&["--on", "sim(ideal)"][..], 4, "its time is virtual"),
    ] {
        let output = run(args);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(expected), "{args:?}: {text}");
        assert_eq!(output.status.code(), Some(status), "{args:?}: {text}");
    }
}
