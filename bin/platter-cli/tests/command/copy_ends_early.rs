//! The report of a `platter copy` that ends early: the reported progress is correct, and a copy that
//! continues from there loses nothing.

use crate::copy::noise;
use crate::run::{fails_saying, json, platter, stderr, text};
use crate::running::Running;
use rustix::process::Signal;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Output, Stdio};
use tempfile::tempdir;

/// Runs a copy that fails. Returns its JSON and its messages.
#[track_caller]
fn fails(args: &[&str]) -> (Value, String) {
    let output = platter().arg("copy").args(args).arg("--json").output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    (serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}")), said)
}

fn resume(result: &Value) -> usize {
    result["resume_offset"].as_u64().unwrap() as usize
}

/// Every byte before the offset at which to continue is at the destination; continuing there copies the rest.
#[track_caller]
fn nothing_is_lost(result: &Value, content: &[u8], from: &Path, to: &Path) {
    let resume = resume(result);
    assert_eq!(result["complete"], false);
    assert!(resume < content.len(), "{result}");
    assert!(fs::read(to).unwrap()[..resume] == content[..resume], "what is before {resume} is not there");
    let start = resume.to_string();
    let rest = json(&["copy", text(from), text(to), "--start", &start, "--bs", "64K"]);
    assert_eq!((&rest["complete"], &rest["start_offset"]), (&true.into(), &resume.into()));
    assert_eq!(rest["resume_offset"], content.len());
    assert!(fs::read(to).unwrap() == content);
}

#[test]
fn a_read_error_leaves_an_offset_from_which_nothing_is_lost() {
    let dir = tempdir().unwrap();
    let (a, content) = (dir.path().join("a"), noise(2 << 20));
    fs::write(&a, &content).unwrap();
    for (i, (bad, depth)) in
        [(0, "64"), (700_000, "4"), (700_000, "64"), (2 << 20, "8")].into_iter().enumerate()
    {
        let b = dir.path().join(format!("b{i}"));
        let at = (bad / 512_usize).saturating_sub(1) * 512;
        // Reads complete in another order than they were sent in.
        let source = format!("delay(jitter=3ms, error(op=read, offset={at}, length=512, {}))", text(&a));
        let (result, said) = fails(&[&source, text(&b), "--bs", "64K", "--depth", depth]);
        assert!(resume(&result) <= at, "{result}");
        assert_eq!(result["flushed"], true, "{result}");
        for word in ["errno 5", "bytes are copied", "and flushed", "--rescue"] {
            assert!(said.contains(word), "{word}: {said}");
        }
        assert!(result["error"].as_str().is_some_and(|error| said.contains(error)), "{result}");
        nothing_is_lost(&result, &content, &a, &b);
    }
}

#[test]
fn a_write_error_leaves_an_offset_from_which_nothing_is_lost() {
    let dir = tempdir().unwrap();
    let (a, content) = (dir.path().join("a"), noise(2 << 20));
    fs::write(&a, &content).unwrap();
    for (i, at) in [0, 65536, 1 << 20, (2 << 20) - 512].into_iter().enumerate() {
        let b = dir.path().join(format!("b{i}"));
        fs::write(&b, noise(100)).unwrap();
        File::options().write(true).open(&b).unwrap().set_len(2 << 20).unwrap();
        let destination =
            format!("delay(jitter=3ms, error(op=write, offset={at}, length=512, {}))", text(&b));
        let (result, said) = fails(&[text(&a), &destination, "--bs", "64K"]);
        assert!(resume(&result) <= at, "{result}");
        assert_eq!(result["flushed"], false, "what a failing disk was given is not called durable");
        assert!(said.contains("but not flushed") && !said.contains("--rescue"), "{said}");
        nothing_is_lost(&result, &content, &a, &b);
    }
}

#[test]
fn a_full_file_system_leaves_an_offset_from_which_nothing_is_lost() {
    // Every write beyond the file size limit fails; the command ignores the signal for it.
    let dir = tempdir().unwrap();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    let content = noise(2 << 20);
    fs::write(&a, &content).unwrap();
    File::create(&b).unwrap().set_len(2 << 20).unwrap();
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "ulimit -f 1024; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_platter")]);
    command.args(["copy", "--json", "--bs", "64K", text(&a), &format!("file({}, driver=threads)", text(&b))]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(resume(&result) <= 1 << 20, "{result}");
    nothing_is_lost(&result, &content, &a, &b);
}

#[test]
fn after_a_failed_flush_nothing_is_called_copied() {
    let dir = tempdir().unwrap();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    fs::write(&a, noise(1 << 20)).unwrap();
    File::create(&b).unwrap().set_len(1 << 20).unwrap();
    let (result, said) = fails(&[text(&a), &format!("error(op=flush, {})", text(&b))]);
    assert_eq!((resume(&result), &result["flushed"], &result["complete"]), (0, &false.into(), &false.into()));
    assert!(said.contains("the first 0 are complete but not flushed"), "{said}");
}

#[test]
fn where_to_start_is_checked() {
    for (args, status, words) in [
        (&["--start", "4100"] as &[_], 2, &["multiple of 512"] as &[_]),
        (&["--start", "2M"], 4, &["--start 2M", "beyond the end", "1048576"]),
        (&["--start", "4K", "--rescue", "map"], 2, &["--start", "--rescue"]),
    ] {
        fails_saying(status, &[&["copy", "ram(1M)", "ram(1M)"], args].concat(), words);
    }
    // What is before the start would be zeroes in a file that looks complete.
    let dir = tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    fs::write(&from, noise(1 << 20)).unwrap();
    for destination in [text(&to).to_owned(), format!("cache(size=1M, file({}, create=1M))", text(&to))] {
        for start in ["512K", "1M"] {
            let words = [&format!("--start {start}"), text(&to), "missing or empty", "leave --start out"];
            fails_saying(4, &["copy", text(&from), &destination, "--start", start], &words);
            assert!(!to.exists());
        }
    }
    File::create(&to).unwrap();
    fails_saying(4, &["copy", text(&from), text(&to), "--start", "512K"], &["missing or empty"]);
    fs::write(&to, &fs::read(&from).unwrap()[..1 << 19]).unwrap();
    let out = format!("truncate -s 1048576 {}", text(&to));
    fails_saying(
        4,
        &["copy", text(&from), text(&to), "--start", "512K"],
        &["too small", "nothing was written", &out],
    );
    File::options().write(true).open(&to).unwrap().set_len(1 << 20).unwrap();
    json(&["copy", text(&from), text(&to), "--start", "512K"]);
    assert!(fs::read(&to).unwrap() == fs::read(&from).unwrap());

    let result = json(&["copy", "ram(1M)", "ram(1M)", "--start", "1M"]);
    assert_eq!((&result["complete"], &result["bytes_written"]), (&true.into(), &0.into()));
}

/// Starts a copy that cannot end, sends it a signal after the first line of progress, and returns its output.
fn interrupted(args: &[&str]) -> (Output, String) {
    let mut child = Running::start(
        platter().args(["copy", "--json"]).args(args).stdout(Stdio::piped()).stderr(Stdio::piped()),
    );
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    stderr.read_line(&mut said).unwrap();
    assert!(said.starts_with("copied "), "{said}");
    child.signal(Signal::INT);
    let output = child.output();
    stderr.read_to_string(&mut said).unwrap();
    assert_eq!(output.status.code(), Some(130), "{said}");
    (output, said)
}

#[test]
fn a_signal_says_what_is_waited_for_and_does_not_wait_for_ever() {
    let (output, said) =
        interrupted(&["delay(read=3600s, ram(4M))", "ram(4M)", "--depth", "3", "--sparse", "never"]);
    for word in
        ["waiting at most 5 s for 3 reads and writes", "after 5 s the devices still have", "0 of 4,194,304"]
    {
        assert!(said.contains(word), "{word}: {said}");
    }
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&result["interrupted"], &result["complete"]), (&true.into(), &false.into()));
    assert_eq!(result["resume_offset"], 0);
}

#[test]
fn a_copy_that_is_interrupted_in_its_flush_is_not_called_complete() {
    let (output, said) = interrupted(&["ram(1M)", "delay(flush=3600s, ram(1M))"]);
    for word in ["the flush of the destination", "1,048,576 of 1,048,576", "but not flushed", "is incomplete"]
    {
        assert!(said.contains(word), "{word}: {said}");
    }
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&result["interrupted"], &result["complete"]), (&true.into(), &false.into()));
    assert_eq!((&result["resume_offset"], &result["flushed"]), (&(1 << 20).into(), &false.into()));
}
