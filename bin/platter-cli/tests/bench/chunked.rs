//! `platter bench chunked` as users call it.

use crate::running::Running;
use rustix::process::Signal;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

const SIM: &str = "sim(ideal, data=off)";

fn chunked(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_platter"));
    command.args(["bench", "chunked"]).args(args).stdin(Stdio::null());
    command
}

fn run(args: &[&str]) -> Output {
    chunked(args).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn stdout(args: &[&str]) -> String {
    let output = run(args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&stdout(&[args, &["--json"]].concat())).unwrap()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// docs/command.md names every key.
#[test]
fn the_documented_command_prints_the_documented_keys() {
    let value = json(&["--on", SIM, SIM, "--quick"]);
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/command.md");
    let page = std::fs::read_to_string(page).unwrap();
    let section = page.split("### bench chunked").nth(1).unwrap();
    let section = section.split("\n##").next().unwrap();
    let points = value["points"].as_array().unwrap();
    for key in keys(&value).into_iter().chain(keys(&points[0])) {
        assert!(section.contains(&format!("`{key}`")), "{key}");
    }
    assert_eq!((&value["simulated"], &value["interrupted"]), (&true.into(), &false.into()));
    // The reads that are in flight at the end are no failures of the disks.
    assert!(points.iter().all(|point| point["device_errors"] == Value::Array(Vec::new())), "{value:#}");
    let names = ["jbod", "kernel-2.4", "csraid-sync", "csraid-async", "csraid-posix", "windows"];
    for name in names {
        let mut of_name = points.iter().filter(|point| point["personality"] == name);
        assert!(of_name.clone().count() >= 8, "{name}");
        assert!(of_name.all(|p| {
            let [low, median, high] =
                ["mib_per_s_q1", "mib_per_s_median", "mib_per_s_q3"].map(|key| p[key].as_f64().unwrap());
            0.0 < low && low <= median && median <= high
        }));
    }
    // 4 KiB in 100 us on each of two disks.
    let jbod = points.iter().find(|p| p["disks"] == 2 && p["request_bytes"] == 4096).unwrap();
    assert_eq!((&jbod["mib_per_s_median"], &jbod["samples"]), (&78.125.into(), &22.into()));
    assert_eq!((&jbod["chunk_bytes"], &jbod["stripe_bytes"]), (&4096.into(), &Value::Null));
}

#[test]
fn the_same_bytes_with_any_number_of_threads() {
    let args = ["--on", SIM, SIM, "--quick", "--json", "--threads"];
    let run = |threads| stdout(&[&args[..], &[threads]].concat());
    let one = run("1");
    assert_eq!(one, run("2"));
    assert_eq!(one, run("7"));
}

#[test]
fn files_are_read_and_written_and_a_page_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let paths = ["a.img", "b.img"].map(|name| dir.path().join(name).to_str().unwrap().to_owned());
    for path in &paths {
        std::fs::File::create(path).unwrap().set_len(4 << 20).unwrap();
    }
    let page = dir.path().join("chunked.html");
    let common = ["--on", &paths[0], &paths[1], "--samples", "3", "--enough", "100us", "--depth", "8"];
    let requests = ["--request", "64K", "1M", "--report", page.to_str().unwrap()];
    let value = json(&[&common[..], &requests].concat());
    assert_eq!(value["points"].as_array().unwrap().len(), 6 * 2 * 2);
    let html = std::fs::read_to_string(&page).unwrap();
    for number in [1, 2, 3, 5, 6, 8] {
        assert!(html.contains(&format!("Figure {number}:")), "{number}");
    }
    let sweep = ["--rw", "write", "--stripes", "4K", "64K", "--stripe-request", "256K", "--chunk", "1M"];
    let narrow = ["--personality", "csraid-posix", "--disks", "2", "--request", "256K", "--stripe", "64K"];
    let text = stdout(&[&common[..], &sweep, &narrow].concat());
    assert!(text.contains("csraid-posix  write") && text.contains("4 KiB   1 MiB  256 KiB"), "{text}");
}

#[test]
fn wrong_usage_is_explained_and_nothing_is_written() {
    let fails = |status: i32, args: &[&str], word: &str| {
        let output = run(args);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(status), "{args:?}: {said}");
        assert!(said.contains(word), "{args:?}: {said}");
    };
    fails(2, &[], "--on");
    fails(2, &["--on", "nul(1G)"], "nul");
    fails(2, &["--on", SIM, "--disks", "2"], "so 1 to 1");
    fails(2, &["--on", SIM, "--request", "1000"], "multiples of 512");
    fails(2, &["--on", SIM, "--stripe", "3K"], "power of two");
    fails(2, &["--on", SIM, "--chunk", "1M", "--request", "4M"], "expected a multiple");
    fails(2, &["--on", SIM, "--samples", "0"], "expected 1 to");
    fails(2, &["--on", SIM, "--personality", "raid"], "csraid-posix");
    fails(2, &["--on", SIM, "--stream", "--chunk", "1M"], "cannot be used with");
    fails(2, &["--on", SIM, "ram(64M)", "--quick", "--personality", "csraid-sync"], "clock");
    fails(4, &["--on", "ram(1M)", "--request", "4M"], "less than a chunk");
    fails(3, &["--on", "/nonexistent/disk"], "/nonexistent/disk");
    fails(1, &["--on", SIM, "--quick", "--report", "/nonexistent/page.html"], "cannot write");
    // A disk with something on it is not overwritten.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("swap.img");
    let mut image = vec![0; 1 << 20];
    image[4086..4096].copy_from_slice(b"SWAPSPACE2");
    std::fs::write(&path, &image).unwrap();
    let args = ["--on", path.to_str().unwrap(), "--rw", "write", "--request", "4K"];
    fails(3, &args, "--force");
    assert_eq!(std::fs::read(&path).unwrap(), image);
}

/// A signal ends a long run; complete results are printed.
#[test]
fn a_signal_ends_the_run_in_order() {
    let args =
        ["--on", SIM, SIM, "--json", "--samples", "1000000", "--threads", "1", "--request", "64M", "4K"];
    let mut child = Running::start(chunked(&args).stdout(Stdio::piped()).stderr(Stdio::piped()));
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    // Progress shows that it runs.
    errors.read_line(&mut line).unwrap();
    assert!(line.contains(" of "), "{line}");
    child.signal(Signal::INT);
    let output = child.output();
    assert_eq!(output.status.code(), Some(130));
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["interrupted"], true);
}

#[test]
fn the_paper_is_run_again_on_models() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_platter"));
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("staelin2002.html");
    command.args(["repro", "staelin2002", "--quiet", "--json", "--scale", "64", "--report"]).arg(&page);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let claims = value["claims"].as_array().unwrap();
    assert_eq!((&value["experiment"], claims.len()), (&"staelin2002".into(), 23));
    for claim in claims {
        assert_eq!(claim["ours"].is_number(), claim["holds"].is_boolean(), "{claim:#}");
        assert!(claim["holds"] == true || claim["reason"].is_string(), "{claim:#}");
    }
    // How Windows issued its requests is not published.
    let without: Vec<&Value> =
        claims.iter().filter(|claim| claim["ours"].is_null()).map(|claim| &claim["id"]).collect();
    assert_eq!(without, ["windows-large", "windows-small", "windows-csraid"]);
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("Disks over time: kernel-2.4") && page.contains("Figure 8:"));
}
