//! `platter bench fileio` as users call it.

use crate::running::Running;
use rustix::process::Signal;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

fn fileio(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_platter"));
    command.args(["bench", "fileio"]).args(args).stdin(Stdio::null());
    command
}

fn run(args: &[&str]) -> Output {
    fileio(args).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(args: &[&str]) -> Value {
    let output = run(&[args, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn page() -> String {
    fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/fileio.md")).unwrap()
}

/// docs/fileio.md lists every key, and no other, and its example runs.
#[test]
fn the_documented_command_prints_the_documented_keys() {
    let args = ["--on", "ram(64M)", "--file-num", "16", "--events", "2000"];
    assert!(page().contains("platter bench fileio --on 'ram(64M)' --file-num 16 --events 2000 --json\n"));
    let value = json(&args);
    let section = page().split("## JSON").nth(1).unwrap().to_owned();
    let section = section.split("\n# ").next().unwrap().to_owned();
    let listed = |line: &str| line.strip_prefix("| `")?.split_once('`').map(|(key, _)| key.to_owned());
    let mut listed: Vec<String> = section.lines().filter_map(listed).collect();
    let mut keys: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
    listed.sort_unstable();
    keys.sort_unstable();
    assert_eq!(listed, keys);
    assert_eq!(
        (&value["reads"], &value["writes"], &value["events"]),
        (&1200.into(), &800.into(), &2000.into())
    );
    assert_eq!(value["fsyncs"], 20 * 16 + 16 * 16);
    assert_eq!(
        (&value["plan"]["file_total_size_bytes"], &value["plan"]["threads"]),
        (&(64 << 20).into(), &16.into())
    );
    assert!(value["device"]["counters"]["bios"].as_u64() >= Some(2000));
    let text = run(&args);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    for word in ["ram\nrndrw: 16 files of 4M", "fsyncs", "p95", "total time", "requests of 16"] {
        assert!(text.contains(word), "{word}: {text}");
    }
}

#[test]
fn files_are_made_and_removed_and_those_of_others_stay() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let small = ["--dir", path, "--file-num=4", "--file-total-size=1M", "--events=100", "--threads=2"];
    let value = json(&small);
    assert_eq!((&value["on"], &value["device"], &value["fsyncs"]), (&path.into(), &Value::Null, &12.into()));
    assert_eq!(fs::read_dir(path).unwrap().count(), 0);
    let spelled = [
        "--file-test-mode=rndwr",
        "--file-fsync-end=off",
        "--file-fsync-mode=fdatasync",
        "--file-fsync-freq=0",
        "--file-extra-flags=dsync",
        "--file-io-mode=async",
        "--file-async-backlog=4",
        "--handles=each",
        "--keep",
    ];
    let value = json(&[&small[..], &spelled].concat());
    assert_eq!((&value["reads"], &value["writes"], &value["fsyncs"]), (&0.into(), &100.into(), &0.into()));
    assert_eq!(fs::read_dir(path).unwrap().count(), 4);
    let timed =
        json(&["--dir", path, "--file-num=4", "--file-total-size=1M", "--time", "50ms", "--file-fsync-all"]);
    assert!(timed["seconds"].as_f64() >= Some(0.05) && timed["plan"]["events"] == 0);
    // Requests stop at the time limit; the last of each thread may have been in flight.
    let (writes, fsyncs) = (timed["writes"].as_u64(), timed["fsyncs"].as_u64());
    assert_eq!(writes, fsyncs);
    assert_eq!(fs::read_dir(path).unwrap().count(), 4);
}

#[test]
fn a_simulated_run_repeats() {
    let on = ["--on", "sim(ide2004, elevator=deadline)", "--events", "300"];
    let run = |more: &[&str]| {
        let mut value = json(&[&on[..], more].concat());
        for key in ["wall_s", "user_cpu_ns", "system_cpu_ns"] {
            assert!(value.as_object_mut().unwrap().remove(key).is_some_and(|value| value.is_number()));
        }
        value
    };
    let value = run(&[]);
    assert_eq!(value.to_string(), run(&[]).to_string());
    assert_ne!(value["seconds"], run(&["--rand-seed", "2"])["seconds"]);
    assert_eq!(
        (&value["simulated"], &value["reads"], &value["writes"]),
        (&true.into(), &180.into(), &120.into())
    );
    assert!(value["lat_p95_ns"].as_u64() >= value["lat_p50_ns"].as_u64());
}

/// Overlapping reads of threads that share a file switch the readahead of 2.6.5 off; those of threads with
/// their own open files do not.
#[test]
fn what_the_cache_counted_depends_on_who_shares_a_handle() {
    let on = [
        "--on",
        "cache(size=192M, readahead=2.6.5, sim(ide2004, elevator=anticipatory))",
        "--events",
        "2000",
    ];
    let value = |handles: &str| json(&[&on[..], &["--file-num", "8", "--handles", handles]].concat());
    let [shared, each] = ["shared", "each"].map(value);
    let closed = |value: &Value| value["device"]["cache"]["readahead"]["closed_by_miss"].as_u64().unwrap();
    assert!(closed(&shared) > 0, "{shared:#}");
    assert_eq!(closed(&each), 0, "{each:#}");
    for value in [&shared, &each] {
        let cache = &value["device"]["cache"];
        // Every page of every read was there or was not.
        assert_eq!(
            cache["hits"].as_u64().unwrap() + cache["misses"].as_u64().unwrap(),
            4 * 1200,
            "{cache:#}"
        );
        assert!(cache["reads_by_size"].as_array().is_some_and(|classes| !classes.is_empty()));
    }
}

/// A test that only reads finds everything in a cache that is warm, and one that is cold begins as one that was just opened.
#[test]
fn the_state_of_the_cache_decides_what_it_reads() {
    let on = ["--on", "cache(size=64M, sim(ide2004))", "--file-total-size", "32M", "--file-num", "8"];
    let reads = ["--file-test-mode", "rndrd", "--events", "500", "--cache-state"];
    let value = |state: &str| json(&[&on[..], &reads, &[state]].concat());
    let [as_is, cold, warm] = ["as-is", "cold", "warm"].map(value);
    let counts =
        |value: &Value| ["hits", "misses"].map(|key| value["device"]["cache"][key].as_u64().unwrap());
    assert_eq!(counts(&warm), [4 * 500, 0], "{warm:#}");
    assert!(counts(&cold)[1] > 300, "{cold:#}");
    assert_eq!(counts(&cold), counts(&as_is));
    assert_eq!(warm["device"]["counters"]["bios"], 0, "{warm:#}");
}

#[test]
fn absurd_options_name_themselves_their_value_and_what_is_allowed() {
    for (option, value, allowed) in [
        ("--file-num", "0", "1 to 65536"),
        ("--threads", "0", "1 to 8192"),
        ("--file-block-size", "1M", "files of at least one block"),
        ("--file-block-size", "100", "512 to 1G"),
        ("--file-total-size", "3000000", "a multiple of 2M"),
        ("--file-total-size", "1G", "up to 64M"),
        ("--file-test-mode", "random", "seqrd, seqwr, seqrewr, rndrd, rndwr, rndrw"),
        ("--file-rw-ratio", "-2", "at least 0"),
        ("--file-fsync-mode", "sync", "fsync, fdatasync"),
        ("--file-io-mode", "mmap", "sync, async"),
        ("--file-io-mode", "fast", "sync, async"),
        ("--file-extra-flags", "trunc", "direct, sync, dsync"),
        ("--file-extra-flags", "dsync", "direct"),
        ("--file-fsync-end=maybe", "", "on, off"),
        ("--fsync-by", "all", "shared, one"),
        ("--handles", "none", "shared, each"),
        ("--count", "reads", "requests, all"),
        ("--cache-state", "hot", "as-is, cold, warm"),
        ("--events", "0", "at least 1"),
        ("--time", "soon", "a time is a number"),
    ] {
        let args: Vec<&str> =
            ["--on", "ram(64M)", option, value].into_iter().filter(|a| !a.is_empty()).collect();
        let output = run(&args);
        let said = stderr(&output);
        let name = option.trim_start_matches('-').split('=').next().unwrap();
        let named = said.contains(name) && said.contains(value);
        assert!(named && said.contains(allowed), "{option} {value}: {said}");
        // The device is too small, and would do if it were larger.
        let unfit = [("--file-block-size", "1M"), ("--file-total-size", "1G")].contains(&(option, value));
        let status = if unfit { 4 } else { 2 };
        assert_eq!(
            (output.status.code(), output.stdout.len()),
            (Some(status), 0),
            "{option} {value}: {said}"
        );
    }
}

#[test]
fn places_that_cannot_be_used_say_why() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let refused = |args: &[&str], code: i32, word: &str| {
        let output = run(args);
        let said = stderr(&output);
        assert!(output.status.code() == Some(code) && said.contains(word), "{args:?}: {said}");
    };
    refused(&[], 2, "--dir");
    refused(&["--on", "ram(64M)", "ram(64M)"], 2, "takes one device");
    refused(&["--on", "ram(64M)", "--dir", path], 2, "cannot be used with");
    refused(&["--on", "ram(64M)", "--keep"], 2, "--dir");
    refused(&["--on", "ram(1M)"], 4, "too small for 128 files");
    refused(&["--dir", "/nonexistent", "--file-total-size", "2M"], 1, "/nonexistent/test_file.0");
    fs::create_dir(dir.path().join("test_file.0")).unwrap();
    refused(&["--dir", path, "--file-total-size", "2M"], 4, "is no regular file");
}

#[test]
fn a_disk_that_holds_something_is_not_written_to() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.img");
    File::create(&path).unwrap().set_len(4 << 20).unwrap();
    let mut image = fs::read(&path).unwrap();
    // The signature of a swap area.
    image[4086..4096].copy_from_slice(b"SWAPSPACE2");
    image[1024] = 1;
    fs::write(&path, &image).unwrap();
    let path = path.to_str().unwrap();
    let args = ["--on", path, "--file-num", "4", "--events", "100"];
    let refused = run(&args);
    assert!(refused.status.code() == Some(3) && stderr(&refused).contains("--force"), "{}", stderr(&refused));
    assert_eq!(fs::read(path).unwrap(), image);
    assert_eq!(json(&[&args[..], &["--file-test-mode", "rndrd"]].concat())["reads"], 100);
    assert_eq!(json(&[&args[..], &["--force", "--fsync-by", "one"]].concat())["writes"], 40);
}

#[test]
fn ctrl_c_prints_what_there_is_and_removes_the_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let small = ["--file-num=2", "--file-total-size=64K", "--threads=2", "--time=1000000000", "--json"];
    let places = [["--dir", path], ["--on", "sim(ideal, data=off)"], ["--on", "ram(64K)"]];
    let start = |place: &[&str; 2]| {
        let endless = [&place[..], &small, &["--file-fsync-freq=0"]].concat();
        Running::start(fileio(&endless).stdout(Stdio::piped()).stderr(Stdio::piped()))
    };
    let children: Vec<_> = places.iter().map(start).collect();
    for mut child in children {
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        // The first line of progress is printed while it runs.
        let first = lines.next().unwrap().unwrap();
        assert!(first.contains(" requests in "), "{first}");
        child.signal(Signal::INT);
        let last = lines.map_while(Result::ok).last().unwrap();
        assert_eq!(last, "platter: interrupted: the result is partial");
        let output = child.output();
        assert_eq!(output.status.code(), Some(130));
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&value["interrupted"], value["reads"].as_u64() > Some(0)), (&true.into(), true));
    }
    assert_eq!(fs::read_dir(path).unwrap().count(), 0);
}
