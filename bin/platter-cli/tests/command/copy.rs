//! `platter copy` without errors, and when it is interrupted.

use crate::run::{fails_saying, json, ok, platter, text};
use crate::running::Running;
use rustix::process::Signal;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Stdio;
use tempfile::tempdir;

/// Bytes that no two offsets share for long.
pub(crate) fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// A file of 6 MiB with noise at both ends and a hole between them.
fn sparse_file(path: &Path) -> Vec<u8> {
    let mut content = vec![0; 6 << 20];
    let mut file = File::create(path).unwrap();
    file.set_len(content.len() as u64).unwrap();
    for at in [0, 5 << 20] {
        let piece = noise(300_000);
        file.seek(SeekFrom::Start(at as u64)).unwrap();
        file.write_all(&piece).unwrap();
        content[at..at + piece.len()].copy_from_slice(&piece);
    }
    content
}

fn same(path: &Path, content: &[u8]) -> bool {
    fs::read(path).unwrap() == content
}

fn sum(result: &Value) -> u64 {
    ["bytes_written", "bytes_zeroed", "bytes_skipped"].iter().map(|key| result[key].as_u64().unwrap()).sum()
}

#[test]
fn files_of_any_size_are_copied_exactly_by_every_driver() {
    let dir = tempdir().unwrap();
    for size in [512, 1, 4095, 4097, 65536, 1_000_003] {
        let (a, content) = (dir.path().join(format!("{size}")), noise(size));
        fs::write(&a, &content).unwrap();
        for driver in ["auto", "threads"] {
            let b = dir.path().join(format!("{size}-{driver}"));
            let (from, to) = (
                format!("file({}, driver={driver})", text(&a)),
                format!("file({}, driver={driver})", text(&b)),
            );
            let result = json(&["copy", &from, &to, "--bs", "8K", "--depth", "4", "--verify"]);
            assert!(same(&b, &content), "{size} {driver}");
            assert_eq!((sum(&result), &result["bytes"]), (size as u64, &size.into()));
            for key in ["created", "complete", "verified"] {
                assert_eq!(result[key], true, "{key}");
            }
        }
    }
}

#[test]
fn elevators_and_buffered_io_copy_too() {
    let dir = tempdir().unwrap();
    let (a, content) = (dir.path().join("a"), noise(2 << 20));
    fs::write(&a, &content).unwrap();
    for (i, settings) in
        ["elevator=deadline, depth=4", "elevator=noop, direct=off", "merges=off, caller_plug=off"]
            .iter()
            .enumerate()
    {
        let b = dir.path().join(format!("b{i}"));
        let from = format!("file({}, {settings})", text(&a));
        let said =
            ok(&["copy", &from, &format!("file({}, {settings})", text(&b)), "--bs", "64K", "--verify"]);
        assert!(said.starts_with("copied 2 MiB") && said.ends_with("verified\n"), "{said}");
        assert!(same(&b, &content), "{settings}");
    }
}

#[test]
fn holes_stay_holes_in_a_new_file() {
    let dir = tempdir().unwrap();
    let (a, b, c) = (dir.path().join("a"), dir.path().join("b"), dir.path().join("c"));
    let content = sparse_file(&a);
    let result = json(&["copy", text(&a), text(&b), "--verify"]);
    assert!(same(&b, &content));
    assert!(result["bytes_skipped"].as_u64().unwrap() >= 3 << 20, "{result}");
    assert!(fs::metadata(&b).unwrap().blocks() * 512 < 3 << 20);
    let result = json(&["copy", text(&a), text(&c), "--sparse", "never"]);
    assert!(same(&c, &content));
    assert_eq!(result["bytes_written"], 6 << 20);
}

#[test]
fn zeroes_replace_what_an_existing_file_holds() {
    let dir = tempdir().unwrap();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    let content = sparse_file(&a);
    for sparse in ["auto", "always", "never"] {
        fs::write(&b, noise(content.len())).unwrap();
        let result = json(&["copy", text(&a), text(&b), "--sparse", sparse, "--bs", "64K", "--verify"]);
        assert!(same(&b, &content), "{sparse}");
        assert_eq!((sum(&result), result["bytes_skipped"].as_u64()), (6 << 20, Some(0)), "{sparse}");
        assert_eq!(result["bytes_zeroed"].as_u64().unwrap() == 0, sparse == "never", "{sparse}");
        assert_eq!(result["created"], false);
    }
}

#[test]
fn zero_blocks_are_found_in_what_has_no_holes() {
    let dir = tempdir().unwrap();
    let b = dir.path().join("b");
    let result = json(&["copy", "ram(4M)", text(&b)]);
    assert_eq!((&result["bytes_skipped"], &result["bytes_written"]), (&(4 << 20).into(), &0.into()));
    assert_eq!(fs::metadata(&b).unwrap().len(), 4 << 20);
    fs::write(&b, noise(4 << 20)).unwrap();
    let result = json(&["copy", "ram(4M)", text(&b), "--sparse", "always"]);
    assert_eq!(result["bytes_zeroed"], 4 << 20);
    assert!(same(&b, &vec![0; 4 << 20]));
}

#[test]
fn what_a_larger_destination_has_beyond_stays() {
    let dir = tempdir().unwrap();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    let (content, mut larger) = (noise(10_001), vec![7; 20_000]);
    fs::write(&a, &content).unwrap();
    fs::write(&b, &larger).unwrap();
    let output = platter().args(["copy", text(&a), text(&b)]).output().unwrap();
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("is 9,999 bytes larger"));
    larger[..content.len()].copy_from_slice(&content);
    assert!(same(&b, &larger));
}

#[test]
fn parts_of_devices_are_copied_by_themselves() {
    let dir = tempdir().unwrap();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    let content = noise(1 << 20);
    fs::write(&a, &content).unwrap();
    let part = format!("partition(offset=256K, length=64K, {})", text(&a));
    ok(&["copy", &part, text(&b), "--bs", "4K", "--verify"]);
    assert!(same(&b, &content[256 << 10..320 << 10]));
}

#[test]
fn a_signal_stops_it_and_says_how_far_it_got() {
    for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut child = Running::start(
            platter()
                .args(["copy", "null(1024T)", "null(2048T)", "--json"])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped()),
        );
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut note = String::new();
        // Written when both devices are open, so the handler is in place.
        said.read_line(&mut note).unwrap();
        assert!(note.contains("larger"), "{note}");
        child.signal(signal);
        let output = child.output();
        let mut rest = String::new();
        said.read_to_string(&mut rest).unwrap();
        assert_eq!(output.status.code(), Some(status), "{rest}");
        assert!(rest.contains("interrupted: ") && rest.contains("bytes are copied"), "{rest}");
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&result["complete"], &result["verified"]), (&false.into(), &Value::Null));
    }
}

#[test]
fn a_full_file_system_is_an_error_with_place_and_number() {
    // Every write beyond the file size limit fails; the signal for it is ignored.
    let dir = tempdir().unwrap();
    let b = dir.path().join("b");
    File::create(&b).unwrap().set_len(64 << 20).unwrap();
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "ulimit -f 1024; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_platter")]);
    command.args(["copy", "null(64M)", &format!("file({}, driver=threads)", text(&b)), "--sparse", "never"]);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for word in [text(&b), "write of", "errno 27", "bytes are copied"] {
        assert!(said.contains(word), "{word}: {said}");
    }
}

#[test]
fn nothing_can_be_verified_on_null() {
    fails_saying(2, &["copy", "ram(1M)", "null(1M)", "--verify"], &["null keeps no data"]);
}
