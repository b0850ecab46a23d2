//! `platter readahead` as users call it.

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_platter"));
    command.arg("readahead").args(args).stdin(Stdio::null()).env_remove("NO_COLOR");
    command
}

fn run(args: &[&str]) -> Output {
    command(args).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(args: &[&str]) -> Value {
    let output = run(&[args, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn page(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)).unwrap()
}

/// The text between the fences of the first block of a kind.
fn block(page: &str, kind: &str) -> String {
    let rest = page.split(&format!("```{kind}\n")).nth(1).unwrap();
    rest.split("```").next().unwrap().to_owned()
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

#[test]
fn the_example_of_the_page_is_what_is_printed() {
    let page = page("readahead.md");
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("example.txt"), block(&page, "trace")).unwrap();
    let output = command(&["--trace", "example.txt"]).current_dir(dir.path()).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), block(&page, "text"));
}

/// docs/command.md names every key, and no other in that section.
#[test]
fn the_page_names_the_keys() {
    let page = page("command.md");
    let section = page.split("### readahead\n").nth(1).unwrap().split("\n#").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let listed = rows.flat_map(|line| line.split('|').nth(1).unwrap().split('`').skip(1).step_by(2));
    let listed: BTreeSet<String> = listed.map(str::to_owned).collect();
    let mut found = BTreeSet::new();
    keys(&json(&["--count", "10"]), &mut found);
    assert_eq!(listed, found);
}

#[test]
fn ios_are_those_of_the_kernel() {
    let sequential = ["--policy", "ondemand", "2.6.0", "--request", "4K", "--count", "100"];
    let value = json(&sequential);
    let ios = |policy: usize| {
        let ios = value["policies"][policy]["ios"].as_array().unwrap();
        let io = |io: &Value| (io["page"].as_u64().unwrap(), io["pages"].as_u64().unwrap());
        ios.iter().map(io).take(3).collect::<Vec<_>>()
    };
    assert_eq!(ios(0), [(0, 4), (4, 8), (12, 16)]);
    assert_eq!(ios(1), [(0, 16), (16, 18), (34, 32)]);
    assert_eq!(value["policies"][0]["ios"][0]["sync"], true);
    assert_eq!(value["policies"][0]["ios"][1]["sync"], false);
}

#[test]
fn policies_take_parameters() {
    let value =
        json(&["--policy", "2.6.5(extra=0)", "2.6.7(runs=2.6.9)", "--pattern", "random", "--count", "3"]);
    let policies = value["policies"].as_array().unwrap();
    assert_eq!(policies[0]["policy"], "2.6.5(extra=0)");
    assert_eq!(policies[0]["ios"][1]["pages"], 4);
    assert_eq!(policies.len(), 2);
    let all = json(&["--count", "1"]);
    assert_eq!(
        all["policies"].as_array().unwrap().len(),
        platter::cache::readahead::TABLE.len() + platter_repro::policies::READAHEAD.len()
    );
}

#[test]
fn sixteen_threads_close_the_window_of_a_handle_that_they_share() {
    let counts = |policy| {
        let value = json(&["--policy", policy, "--pattern", "random", "--threads", "16", "--count", "200"]);
        let policy = &value["policies"][0];
        (policy["closed_by_miss"].as_u64().unwrap(), policy["ios"].as_array().unwrap().len())
    };
    assert_eq!(counts("2.6.5"), (1, 796));
    assert_eq!(counts("2.6.6+private"), (0, 200));
    assert_eq!(counts("platter"), (0, 200));
}

#[test]
fn every_pattern_runs_and_is_the_same_each_time() {
    for (name, _) in platter_bench::readahead::Pattern::ALL {
        let args = ["--pattern", name, "--count", "200", "--threads", "3", "--handles", "2", "--cache", "1M"];
        let more = ["--latency", "3", "--requests", "4", "--optimal", "1M", "--advise", "sequential"];
        let args = [&args[..], &more].concat();
        let value = json(&args);
        assert_eq!(value, json(&args), "{name}");
        for policy in value["policies"].as_array().unwrap() {
            assert!(policy["pages_used"].as_u64() <= policy["pages_read"].as_u64(), "{name}: {policy}");
        }
    }
}

#[test]
fn the_report_is_a_page_with_a_figure_for_each_policy() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("readahead.html");
    let path = path.to_str().unwrap();
    let output = run(&["--policy", "2.6.0", "platter", "--count", "50", "--report", path]);
    assert!(output.status.success(), "{}", stderr(&output));
    let html = fs::read_to_string(path).unwrap();
    assert_eq!(html.matches("<figure").count(), 2);
    assert!(html.contains("2.6.0") && html.contains("platter"));
    // Every column of the text, the last of them in a separate table: together they are wider than most
    // screens.
    let tables: Vec<&str> = html.split("<table>").skip(1).collect();
    let columns: Vec<usize> = tables.iter().map(|table| table.matches("<th ").count()).collect();
    let cells: Vec<usize> = tables.iter().map(|table| table.matches("<td").count()).collect();
    assert_eq!((columns, cells), (vec![11, 2], vec![22, 4]));
    let body = html.split("body{").nth(1).unwrap().split('}').next().unwrap();
    assert!(
        body.contains("width:fit-content;") && body.contains(";max-width:100%"),
        "tables are cut: {body}"
    );
    let nowhere = dir.path().join("no/such/dir.html");
    let output = run(&["--count", "1", "--report", nowhere.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no/such/dir.html"));
}

#[test]
fn what_is_wrong_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("reads.txt");
    fs::write(&trace, "0 0 0 4K\n0 0 4K many\n").unwrap();
    let trace = trace.to_str().unwrap();
    let missing = dir.path().join("missing.txt");
    let [empty, comments, far] =
        [("empty.txt", ""), ("comments.txt", "# nothing\n\n"), ("far.txt", "0 0 0 4K\n0 0 20480m 4K\n")].map(
            |(name, text)| {
                let path = dir.path().join(name);
                fs::write(&path, text).unwrap();
                path.to_str().unwrap().to_owned()
            },
        );
    let cases: &[(i32, &[&str], &[&str])] = &[
        (2, &["--trace", trace], &["reads.txt", "line 2", "length `many`"]),
        (2, &["--trace", &empty], &["empty.txt", "no reads", "thread handle offset length"]),
        (2, &["--trace", &comments], &["comments.txt", "no reads"]),
        (2, &["--trace", &far], &["far.txt", "line 2", "offset `20480m`", "16G", "--size"]),
        (3, &["--trace", missing.to_str().unwrap()], &["missing.txt"]),
        (2, &["--trace", trace, "--count", "3"], &["--trace", "--count"]),
        (2, &["--policy", "2.6.8"], &["2.6.8", "2.6.7", "platter"]),
        (2, &["--policy", "context(colour=1)"], &["colour", "conservative"]),
        (2, &["--pattern", "zigzag"], &["zigzag", "interleaved"]),
        (2, &["--max", "1024m"], &["--max 1024m", "0 to 256M"]),
        (2, &["--span", "20480M"], &["--span 20480M", "1 to 16G"]),
        (2, &["--stride", "16385M"], &["--stride 16385M", "1 to 16G"]),
        (2, &["--count", "0"], &["--count 0", "1 to"]),
        (2, &["--request", "1G", "--count", "1000"], &["pages", "fewer or smaller"]),
        (2, &["--start", "17408m"], &["--start 17408m", "16G"]),
        (2, &["--threads", "5000"], &["--threads 5000", "4096"]),
        (2, &["--latency", "0"], &["--latency 0"]),
        (2, &["--cache", "1K"], &["--cache 1K", "4K"]),
    ];
    for (status, args, words) in cases {
        let output = run(args);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(*status), "{args:?}: {said}");
        assert!(words.iter().all(|word| said.contains(word)), "{args:?}: {said}");
    }
}
