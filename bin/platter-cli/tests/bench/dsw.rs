//! `platter bench dsw` from outside.

use platter_bench::dsw::{Query, Read, Recording};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_platter"));
    command.args(["bench", "dsw", "--quiet"]).args(args).stdin(Stdio::null());
    command
}

/// A scan of 40 pages and five single pages: three calls and five.
fn recording() -> Recording {
    let read = |page| Read { page, compute_ns: 2_000 };
    let queries = vec![
        Query { name: "scan".into(), reads: (0..40).map(read).collect() },
        Query { name: "points".into(), reads: [3, 30, 7, 21, 11].map(read).into() },
    ];
    Recording::new(0.002, 4096, 40, queries).unwrap()
}

/// A directory on a disk with the recording in it: the temporary directory may be in memory.
fn dir() -> (tempfile::TempDir, String) {
    let dir = tempfile::TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = dir.path().join("dsw.recording");
    std::fs::write(&file, recording().to_bytes()).unwrap();
    (dir, file.to_str().unwrap().to_owned())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn refused(output: &Output, status: i32, what: &str) {
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{error}");
    assert!(error.contains(what), "{error}");
    assert!(output.stdout.is_empty());
}

#[test]
fn a_recording_on_files_and_on_ram() {
    let (dir, file) = dir();
    let at = dir.path().to_str().unwrap();
    let args =
        ["--json", "--recording", &file, "--dir", at, "--disks", "2", "--calls", "16", "--repeat", "2"];
    let output = command(&args).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&value["benchmark"], &value["calls"]), (&"dsw".into(), &8.into()));
    assert_eq!(
        value["database"],
        serde_json::json!({ "scale": 0.002, "bytes": 163_840, "page_bytes": 4096 })
    );
    assert_eq!(value["queries"][1], serde_json::json!({ "name": "points", "reads": 5 }));
    assert_eq!(value["paper_table_2"][2]["increase_pct"], 78);
    let agents = value["agents"].as_u64().unwrap();
    let rungs = value["rungs"].as_array().unwrap();
    assert_eq!(rungs.len(), 14, "seven on files, seven on ram");
    for rung in rungs {
        // Each agent replays all calls twice in each of two rounds.
        assert_eq!(
            (&rung["calls"], &rung["pages"]),
            (&(agents * 32).into(), &(agents * 4 * 45).into()),
            "{rung}"
        );
        assert_eq!(rung["device_errors"]["read"].as_u64().unwrap_or(0), 0, "{rung}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "files are left");
}

#[test]
fn a_recording_that_is_none_is_refused() {
    let (dir, file) = dir();
    refused(&command(&["--recording", "/no/such/file"]).output().unwrap(), 3, "/no/such/file: No such file");
    let mut bytes = recording().to_bytes();
    bytes.truncate(bytes.len() - 5);
    std::fs::write(&file, bytes).unwrap();
    let output = command(&["--recording", &file, "--on", "null(1G)"]).output().unwrap();
    refused(&output, 4, "its checksum is wrong");
    std::fs::write(&file, "text").unwrap();
    let output = command(&["--recording", &file, "--on", "null(1G)"]).output().unwrap();
    refused(&output, 4, "not a recording of `platter-dsw`");
    drop(dir);
}

#[test]
fn options_out_of_range_are_refused() {
    let (_dir, file) = dir();
    let with = |args: &[&str]| command(&[&["--recording", &file], args].concat()).output().unwrap();
    refused(&with(&["--agents", "0"]), 2, "--agents 0: give 1 to 1024");
    refused(&with(&["--compute", "-3"]), 2, "-3");
    refused(&with(&["--compute", "1e9"]), 2, "--compute 1000000000: give 0 to 1000");
    refused(&with(&["--on", "sim(nvme_ssd)"]), 4, "its time is virtual");
    refused(&with(&["--on", "raid0(null(1G),null(1G))"]), 2, "take disks only");
}

/// A recorder that writes this recording, or does something else.
fn recorder(dir: &Path, script: &str) {
    let program = dir.join("platter-dsw");
    std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// The command without a recording: a copy of it in a directory without the recorder, a cache in `dir`, and `dir` searched first.
fn without_recording(dir: &Path) -> Command {
    let copy = dir.join("platter");
    if !copy.exists() && std::fs::hard_link(env!("CARGO_BIN_EXE_platter"), &copy).is_err() {
        std::fs::copy(env!("CARGO_BIN_EXE_platter"), &copy).unwrap();
    }
    let mut command = Command::new(copy);
    command.args(["bench", "dsw", "--quiet", "--json", "--on", "null(1G)", "--calls", "8", "--repeat", "1"]);
    command.env("XDG_CACHE_HOME", dir.join("cache")).env("PATH", "/usr/bin:/bin").stdin(Stdio::null());
    command
}

#[test]
fn a_recording_is_made_on_first_use_and_kept() {
    let (dir, file) = dir();
    let none = without_recording(dir.path()).output().unwrap();
    refused(&none, 3, "cargo run --release -p platter-engines --bin platter-dsw");
    recorder(dir.path(), "exit 7");
    refused(&without_recording(dir.path()).output().unwrap(), 1, "platter-dsw failed (exit status: 7)");
    recorder(dir.path(), &format!("[ \"$1 $2 $3\" = '--quiet --scale 0.1' ] && cp {file} \"$4\""));
    let output = without_recording(dir.path()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let kept = dir.path().join("cache/platter/dsw-0.1.recording");
    assert_eq!(std::fs::read(kept).unwrap(), recording().to_bytes());
    recorder(dir.path(), "exit 7");
    assert!(without_recording(dir.path()).output().unwrap().status.success(), "it was recorded again");
    let home =
        without_recording(dir.path()).env_remove("XDG_CACHE_HOME").env("HOME", "relative").output().unwrap();
    refused(&home, 4, "no cache directory");
}
