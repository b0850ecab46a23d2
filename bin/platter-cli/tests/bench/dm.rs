//! `platter bench dm` from outside.

use crate::running::Running;
use rustix::process::Signal;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Output, Stdio};

const RUNGS: [&str; 7] = ["Baseline", "SB", "SBI", "SBIR", "SBIRV", "SBIRVP", "bio"];

fn dm(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_platter"));
    command.args(["bench", "dm", "--quiet"]).args(args).stdin(Stdio::null());
    command
}

fn run(args: &[&str]) -> Output {
    dm(args).output().unwrap()
}

/// A directory on a disk: the temporary directory may be in memory.
fn dir() -> tempfile::TempDir {
    tempfile::TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Whether there is a directory in memory.
fn has_shm() -> bool {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    mounts.lines().any(|line| line.starts_with("tmpfs /dev/shm ")) && Path::new("/dev/shm").is_dir()
}

fn is_empty(dir: &Path) -> bool {
    std::fs::read_dir(dir).unwrap().next().is_none()
}

fn number(rung: &Value, key: &str) -> f64 {
    rung[key].as_f64().unwrap_or_else(|| panic!("{key} of {rung}"))
}

/// The mechanism of a rung, as its counters show it.
fn check_mechanism(rung: &Value, sector: f64) {
    let (name, readv) = (rung["rung"].as_str().unwrap(), rung["call"] == "readv");
    let bios = match name {
        "SBIR" | "SBIRV" | "SBIRVP" => 16.0,
        "bio" => 1.0,
        _ => 65536.0 / sector,
    };
    assert_eq!(number(rung, "bios_per_call"), bios, "{rung}");
    let bounced = if name == "Baseline" { number(rung, "bytes_read") } else { 0.0 };
    assert_eq!(number(rung, "bytes_bounced"), bounced, "{rung}");
    let calls = if readv && !matches!(name, "SBIRV" | "SBIRVP" | "bio") { 16.0 } else { 1.0 };
    assert_eq!(number(rung, "waits_per_call"), calls, "{rung}");
    assert_eq!(number(rung, "dispatches_per_call"), calls, "{rung}");
    let descriptor = number(rung, "descriptor_bytes");
    match name {
        "SBIRV" | "SBIRVP" => assert_eq!(descriptor, 608.0),
        "bio" => assert!(descriptor < 608.0),
        _ => assert_eq!(descriptor, 8792.0),
    }
    for key in ["mib_per_s", "cpu_ns_per_read"] {
        assert!(number(rung, key) > 0.0, "{key} of {rung}");
    }
    assert!((0.0..=100.0).contains(&number(rung, "lock_wait_pct")), "{rung}");
    assert!(rung["cpu_idle_pct"].is_null() || (0.0..=100.0).contains(&number(rung, "cpu_idle_pct")));
}

#[test]
fn the_whole_ladder_on_files_and_on_ram() {
    let (dir, page) = (dir(), tempfile::NamedTempFile::new().unwrap());
    let (at, report) = (dir.path().to_str().unwrap(), page.path().to_str().unwrap());
    let output = run(&[
        "--json",
        "--disks",
        "2",
        "--size",
        "4M",
        "--repeat",
        "2",
        "--runtime",
        "3s",
        "--dir",
        at,
        "--report",
        report,
    ]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rungs = value["rungs"].as_array().unwrap();
    let order: Vec<_> = rungs
        .iter()
        .map(|r| [&r["on"], &r["call"], &r["rung"]].map(|v| v.as_str().unwrap_or_default()))
        .collect();
    let mut expected = vec![];
    for on in ["file", "ram"] {
        for call in ["read", "readv"] {
            expected.extend(RUNGS.map(|rung| [on, call, rung]));
        }
    }
    assert_eq!(order, expected);
    let sector = 65536.0 / number(&rungs[0], "bios_per_call");
    assert!(sector == 512.0 || sector == 4096.0, "sectors of {sector}");
    for rung in rungs {
        check_mechanism(rung, if rung["on"] == "ram" { 512.0 } else { sector });
        assert_eq!(rung["rounds"], 2);
    }
    assert!(is_empty(dir.path()), "the files are gone");
    assert!(std::fs::read_to_string(page.path()).unwrap().contains("<svg "));
}

#[test]
fn given_disks_are_used_instead_of_files() {
    let output = run(&["--runtime", "1s", "--repeat", "1", "--on", "ram(1M)", "ram(128K)"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("On ram(1M), ram(128K)"), "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("SBIRV ")).count(), 4, "{text}");
}

#[test]
fn rungs_calls_and_reads_can_be_chosen() {
    let args = ["--json", "--on", "null(1G)", "--reads", "50", "--repeat", "3"];
    let output = run(&[&args[..], &["--rung", "bio", "sbir", "--call", "readv"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rungs = value["rungs"].as_array().unwrap();
    let names: Vec<_> = rungs.iter().map(|r| (r["rung"].as_str(), r["call"].as_str())).collect();
    assert_eq!(names, [(Some("SBIR"), Some("readv")), (Some("bio"), Some("readv"))]);
    for rung in rungs {
        assert_eq!((&rung["reads"], &rung["rounds"], &rung["on"]), (&150.into(), &3.into(), &"null".into()));
        check_mechanism(rung, 512.0);
    }
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_made() {
    let dir = dir();
    let at = dir.path().to_str().unwrap();
    for (args, code, message) in [
        (&["--disks", "0"] as &[&str], 2, "--disks 0: give 1 to 1024"),
        (&["--size", "100000"], 2, "a multiple of 64K"),
        (&["--size", "0"], 2, "a multiple of 64K"),
        (&["--repeat", "0"], 2, "--repeat 0"),
        (&["--reads", "0"], 2, "--reads 0: give 1 to"),
        (&["--rung", "SBX"], 2, "expected one of: Baseline, SB, SBI, SBIR, SBIRV, SBIRVP, bio"),
        (&["--call", "write"], 2, "unknown call; expected read or readv"),
        (&["--on", "sim(ideal, data=off)"], 4, "is simulated: its time is virtual"),
        (&["--on", "ram(4K)"], 4, "needs at least 64 KiB"),
        (&["--on", "ram(1M, lock=all)"], 2, "each rung sets `lock` itself"),
        (&["--on", "nowhere/disk.img"], 3, "nowhere/disk.img"),
        (&["--dir", "nowhere/at/all"], 3, "nowhere/at/all"),
        (&["--dir", at, "--size", "512T"], 3, "space"),
        (&["--report", "nowhere/at/all.html"], 1, "nowhere/at/all.html"),
    ] {
        let output = run(args);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
        assert!(error.contains(message), "{args:?}: {error}");
        assert!(output.stdout.is_empty());
    }
    assert!(is_empty(dir.path()));
}

#[test]
fn files_in_memory_are_refused() {
    if !has_shm() {
        return eprintln!("skipped: no tmpfs on /dev/shm");
    }
    let output = run(&["--dir", "/dev/shm"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(error.contains("tmpfs") && error.contains("measure no disk"), "{error}");
}

/// The README's main job works where no files can be made, and says so; options about the files insist on them.
#[test]
fn without_room_for_files_the_disks_in_memory_are_measured() {
    if !has_shm() {
        return eprintln!("skipped: no tmpfs on /dev/shm");
    }
    let dir = tempfile::TempDir::new_in("/dev/shm").unwrap();
    let here = |args: &[&str]| {
        let mut command = dm(&[&["--json", "--reads", "1", "--repeat", "1"], args].concat());
        command.current_dir(dir.path()).env_remove("TMPDIR").output().unwrap()
    };
    let output = here(&[]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{error}");
    assert!(error.contains("no files are measured") && error.contains("tmpfs"), "{error}");
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rungs = value["rungs"].as_array().unwrap();
    assert!(!rungs.is_empty() && rungs.iter().all(|rung| rung["on"] == "ram"), "{value}");
    for args in [["--size", "1M"], ["--dir", "."]] {
        let output = here(&args);
        assert_eq!(output.status.code(), Some(3), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn ctrl_c_shows_what_there_is_and_leaves_nothing() {
    let dir = dir();
    let mut command = Command::new(env!("CARGO_BIN_EXE_platter"));
    command
        .args([
            "bench",
            "dm",
            "--json",
            "--disks",
            "1",
            "--size",
            "1M",
            "--runtime",
            "600s",
            "--repeat",
            "1000",
        ])
        .args(["--dir", dir.path().to_str().unwrap()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = Running::start(&mut command);
    // The first line of progress is printed seconds after the warm-up of the files.
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert!(line.contains("on file"), "{line}");
    child.signal(Signal::INT);
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    let output = child.output();
    assert_eq!(output.status.code(), Some(130), "{rest}");
    assert!(rest.contains("partial"), "{rest}");
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["interrupted"], true);
    let rungs = value["rungs"].as_array().unwrap();
    assert!(!rungs.is_empty() && rungs.iter().all(|rung| rung["on"] == "file"), "{value}");
    assert!(is_empty(dir.path()), "the files are gone");
}
