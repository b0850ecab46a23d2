//! The pages about `platter trace`.

use crate::{folder, has, stderr};
use platter_traces::TABLE;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

fn page(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)).unwrap()
}

#[test]
fn the_commands_of_the_page_run() {
    let page = page("from-blktrace.md");
    let dir = folder(&[]);
    let bytes = fs::read(dir.path().join("sda.blktrace.0")).unwrap();
    fs::write(dir.path().join("cut.blktrace.0"), &bytes[..1000]).unwrap();
    fs::File::create(dir.path().join("disk.img")).unwrap().set_len(64 << 20).unwrap();
    let bin = Path::new(env!("CARGO_BIN_EXE_platter")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let run = |command: &str| {
        Command::new("sh").args(["-c", command]).env("PATH", &path).current_dir(&dir).output().unwrap()
    };
    let has_fio = has("fio");
    let lines: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("    ")).collect();
    let commands: Vec<&&str> = lines
        .iter()
        .filter(|line| ["platter ", "fio "].iter().any(|start| line.starts_with(start)))
        .collect();
    assert!(commands.len() >= 10, "{commands:?}");
    for command in commands.into_iter().filter(|command| has_fio || !command.starts_with("fio")) {
        let output = run(command);
        assert!(output.status.success() && !output.stdout.is_empty(), "{command}: {}", stderr(&output));
    }
    let shown: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].starts_with("$ ")).collect();
    assert_eq!(shown.len(), 2);
    for at in shown {
        let output = run(&lines[at][2..]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &stderr(&output);
        assert_eq!(said.lines().next(), Some(lines[at + 1]));
    }
}

#[test]
fn the_page_has_every_format() {
    let page = page("from-blktrace.md");
    for row in TABLE {
        assert!(page.contains(&format!("`{}`", row.name)), "{}", row.name);
    }
}

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

/// What stands before the parts that come for each stage or kind: `q2q_`, `read_`.
fn is_of_list(key: &str, names: &BTreeSet<&str>) -> bool {
    let ends = [
        "_n",
        "_min_ns",
        "_mean_ns",
        "_p50_ns",
        "_p99_ns",
        "_max_ns",
        "_ios",
        "_bytes",
        "_min_bytes",
        "_mean_bytes",
    ];
    let more = [
        "_p90_ns",
        "_p95_ns",
        "_p999_ns",
        "_p9999_ns",
        "_p50_bytes",
        "_p99_bytes",
        "_max_bytes",
        "_min_ios",
        "_mean_ios",
        "_p50_ios",
        "_p99_ios",
        "_max_ios",
    ];
    ends.iter().chain(&more).any(|end| key.strip_suffix(end).is_some_and(|name| names.contains(name)))
}

#[test]
fn every_key_is_documented() {
    let dir = folder(&[]);
    let page = page("command.md");
    for (verb, args) in [
        ("trace convert", vec!["convert", "--json", "sda.blktrace.0", "sda.blktrace.1", "sda.iolog"]),
        ("trace report", vec!["report", "--json", "sda.blktrace.0", "sda.blktrace.1"]),
        ("trace replay", vec!["replay", "--json", "sda.blktrace.0", "sda.blktrace.1", "--on", "sim(ideal)"]),
    ] {
        let value: Value = serde_json::from_str(&crate::ok(&dir, &args)).unwrap();
        let mut found = BTreeSet::new();
        keys(&value, &mut found);
        let rest =
            page.split(&format!("\n### {verb}\n")).nth(1).unwrap_or_else(|| panic!("no section {verb}"));
        let section = rest.split("\n### ").next().unwrap();
        let quoted = section.split('`').skip(1).step_by(2);
        let words: BTreeSet<&str> = quoted
            .flat_map(|text| text.split([',', ' ', '{', '}']))
            .filter(|word| !word.is_empty())
            .collect();
        let missing: Vec<&String> =
            found.iter().filter(|key| !words.contains(key.as_str()) && !is_of_list(key, &words)).collect();
        assert!(missing.is_empty(), "{verb}: {missing:?}");
    }
}
