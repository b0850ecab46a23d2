//! `platter trace replay`.

use crate::partitioned::partitioned;
use crate::{RECORDED, fails, folder, ok, platter, stderr};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A read, a write behind a flush and durable, and a discard.
const TEXT: &str = "\
8,0 0 1 0.000000000 7 Q    R 8 + 8 [a]
8,0 0 2 0.000100000 7 Q FWFS 16 + 8 [a]
8,0 0 3 0.000200000 7 C    R 8 + 8 [0]
8,0 0 4 0.000300000 7 C FWFS 16 + 8 [0]
8,0 0 5 0.000400000 7 Q   DS 64 + 64 [a]
8,0 0 6 0.000500000 7 C   DS 64 + 64 [0]
";

const TWO: &str = "5,R,0,4096,1\n7,W,4096,4096,2\n5,R,8192,4096,3\n";

fn json(dir: &TempDir, args: &[&str]) -> Value {
    serde_json::from_str(&ok(dir, &[args, &["--json"]].concat())).unwrap()
}

fn kind<'v>(value: &'v Value, kind: &str) -> &'v Value {
    value["kinds"].as_array().unwrap().iter().find(|row| row["kind"] == kind).unwrap()
}

/// What a replay records of the disk's queue is what the trace has: the files of both processors in the order of time.
#[test]
fn a_recorded_trace_arrives_at_the_disk_as_it_was() {
    let dir = folder(&[]);
    let args = ["replay", RECORDED[0], RECORDED[1], "--on", "sim(ideal)", "--record", "out.dump"];
    let value = json(&dir, &args);
    let (before, after) =
        (json(&dir, &["report", RECORDED[0], RECORDED[1]]), json(&dir, &["report", "out.dump"]));
    for key in ["read", "write", "discard", "flush", "preflush", "fua", "sync"] {
        for what in ["ios", "bytes"] {
            let key = format!("{key}_{what}");
            assert_eq!(before["kinds"][&key], after["kinds"][&key], "{key}");
        }
    }
    assert_eq!(before["stages"]["q2q_max_ns"], after["stages"]["q2q_max_ns"]);
    assert_eq!(before["seeks"], after["seeks"]);
    assert_eq!(
        (&value["ios"], &value["errors"], &value["issue_error_max_ns"]),
        (&188.into(), &0.into(), &0.into())
    );
    assert_eq!((&value["basis"], &value["late_pct"]), (&"Q".into(), &0.0.into()));
    for row in value["kinds"].as_array().unwrap() {
        assert_eq!(row["trace_ios"], row["replayed_ios"], "{row:#}");
        assert_eq!((&row["changed_ios"], &row["skipped_ios"]), (&0.into(), &0.into()), "{row:#}");
    }
    // By what was issued to the driver there are fewer: some were merged.
    let issued = json(&dir, &["replay", RECORDED[0], RECORDED[1], "--on", "sim(ideal)", "--at", "issue"]);
    assert_eq!(issued["basis"], "D");
    assert!(issued["ios"].as_u64().unwrap() < 188);
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_written() {
    let dir = folder(&[
        ("t.txt", TEXT),
        ("two.csv", TWO),
        ("bad.csv", "5,W,0,4096,1\n5,W,oops\n"),
        ("odd.csv", "5,W,100,4096,1\n"),
    ]);
    fs::write(dir.path().join("disk.img"), vec![7u8; 16 << 10]).unwrap();
    let before = fs::read(dir.path().join("disk.img")).unwrap();
    for (status, args, words) in [
        (4, &["t.txt", "--on", "disk.img"][..], "the trace needs a device of 65536 bytes (64 KiB)"),
        (1, &["bad.csv", "--on", "disk.img"], "bad.csv:2: 3 fields"),
        (2, &["two.csv", "--on", "disk.img"], "the trace has I/Os of the devices 5 7"),
        (2, &["two.csv", "--on", "disk.img", "--device", "9"], "the trace has no I/Os of device 9"),
        (2, &["two.csv", "--redirect", "5", "--on", "disk.img"], "--redirect 5: expected DEV=SPEC"),
        (2, &["t.txt", "--on", "ram(1M)", "--mode", "closed"], "--mode closed needs --depth"),
        (2, &["t.txt", "--on", "ram(1M)", "--speed", "0"], "--speed 0: expected a number above 0"),
        (
            2,
            &["two.csv", "--on", "ram(1M)", "ram(1M)", "--mode", "dependency"],
            "does not say when I/Os ended",
        ),
        (
            2,
            &["t.txt", "--on", "sim(ideal)", "--redirect", "8,1=ram(1M)"],
            "the trace has no I/Os of device 8,1",
        ),
        (4, &["odd.csv", "--on", "ram(1M)"], "--align"),
        (4, &["t.txt", "--on", "ram(1M)", "--record", "t.txt"], "t.txt is one of the inputs"),
        (4, &["t.txt", "--on", "ram(1M)", "--html", "t.txt"], "t.txt is one of the inputs"),
        (
            2,
            &["t.txt", "--on", "ram(1M)", "--record", "new", "--html", "new"],
            "--html and --record are both new",
        ),
        (3, &["gone.csv", "--on", "disk.img"], "gone.csv: No such file"),
        (3, &["t.txt", "--on", "gone.img"], "gone.img"),
    ] {
        let said = fails(&dir, status, &[&["replay"], args].concat());
        assert!(said.contains(words), "{args:?}: {said}");
    }
    assert_eq!(fs::read(dir.path().join("disk.img")).unwrap(), before);
    assert_eq!(fs::read_to_string(dir.path().join("t.txt")).unwrap(), TEXT);
}

/// As with the benchmarks, a device that holds something is written to only with `--force`.
#[test]
fn a_disk_that_holds_something_is_not_written_to() {
    let dir = folder(&[("t.txt", TEXT)]);
    let image = partitioned(1 << 20);
    fs::write(dir.path().join("disk.img"), &image).unwrap();
    let base = ["replay", "t.txt", "--discards", "skip", "--on", "disk.img"];
    let said = fails(&dir, 3, &base);
    assert!(said.contains("--force"), "{said}");
    let reads = json(&dir, &[&base[..], &["--writes", "read"]].concat());
    assert_eq!((&reads["ios"], &kind(&reads, "write")["changed_bytes"]), (&2.into(), &4096.into()));
    assert_eq!(fs::read(dir.path().join("disk.img")).unwrap(), image);
    assert_eq!(json(&dir, &[&base[..], &["--force"]].concat())["ios"], 2);
    let after = fs::read(dir.path().join("disk.img")).unwrap();
    assert!(after[8192..12288] != image[8192..12288] && after[..8192] == image[..8192]);
}

#[test]
fn devices_of_the_trace_are_redirected_or_chosen() {
    let dir = folder(&[("two.csv", TWO)]);
    let both = json(&dir, &["replay", "two.csv", "--redirect", "7=ram(1M)", "--on", "null(2M)"]);
    let devices: Vec<(&str, &str, u64)> = both["devices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            (
                row["name"].as_str().unwrap(),
                row["trace_device"].as_str().unwrap(),
                row["started_ios"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(devices, [("ram", "7", 1), ("null", "5", 2)]);
    let one = json(&dir, &["replay", "two.csv", "--device", "5", "--on", "null(2M)"]);
    assert_eq!((&one["ios"], &one["other_devices_ios"]), (&2.into(), &1.into()));
    // Real and virtual time do not go together.
    let said = fails(&dir, 2, &["replay", "two.csv", "--on", "ram(1M)", "sim(ideal)"]);
    assert!(said.contains("different clocks"), "{said}");
}

#[test]
fn failed_ios_end_the_replay_or_are_counted() {
    let csv: String = (0..100).map(|n| format!("5,R,{},4096,{n}\n", n * 4096)).collect();
    let dir = folder(&[("t.csv", &csv)]);
    let bad = "error(op=read, offset=16K, length=32K, ram(1M))";
    let base = ["replay", "t.csv", "--mode", "closed", "--depth", "1", "--json", "--on", bad];
    for (more, failed, least) in
        [(&[][..], 1, 4), (&["--max-errors", "3"], 4, 4), (&["--max-errors", "99"], 8, 92)]
    {
        let output = platter(&dir, &[&base[..], more].concat());
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert!(stderr(&output).contains(&format!("{failed} I/Os failed; ")), "{}", stderr(&output));
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&value["errors"], &value["ios"]), (&failed.into(), &least.into()));
        assert_eq!(kind(&value, "read")["errors"], failed);
    }
}

#[test]
fn bad_records_are_passed_over_and_counted() {
    let dir = folder(&[("bad.csv", "5,R,0,4096,1\noops\n5,R,4096,4096,3\n")]);
    let value = json(&dir, &["replay", "--keep-going", "bad.csv", "--on", "null(1M)"]);
    assert_eq!((&value["ios"], &value["input"]["bad_records"]), (&2.into(), &1.into()));
}

/// What can be read only once is replayed without a look at it before.
#[test]
fn a_trace_from_a_pipe_is_replayed() {
    let dir = folder(&[("t.txt", TEXT)]);
    let bin = env!("CARGO_BIN_EXE_platter");
    let command = format!("cat t.txt | {bin} trace replay - --json --mode dependency --on 'sim(ideal)'");
    let output = Command::new("sh").args(["-c", &command]).current_dir(&dir).output().unwrap();
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["ios"], 3, "{}", stderr(&output));
    let command = format!("cat t.txt | {bin} trace replay - --on 'ram(16K)'");
    let output = Command::new("sh").args(["-c", &command]).current_dir(&dir).output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    assert!(
        stderr(&output).contains("at 0.000400000 s, offset 32768 and length 32768: it ends at byte 65536"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn the_text_and_the_page_say_what_happened() {
    let dir = folder(&[("t.txt", TEXT)]);
    let text = ok(&dir, &["replay", "t.txt", "--on", "sim(ideal)", "--html", "r.html", "--writes", "skip"]);
    for words in ["at the times of the trace", "writes behind a flush", "started late by"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let page = fs::read_to_string(dir.path().join("r.html")).unwrap();
    for words in ["<h2>Kinds", "<h2>In flight", "In the trace", "t.txt", "</html>"] {
        assert!(page.contains(words), "{words}");
    }
    assert!(!page.contains("<script") && !page.contains("src="));
    let said = fails(&dir, 4, &["replay", "t.txt", "--on", "null(1M)", "--html", "/dev/loop0"]);
    assert!(said.contains("/dev/loop0"), "{said}");
}

#[test]
fn a_signal_ends_the_replay_with_what_there_is() {
    // Ten years.
    let dir = folder(&[("t.csv", "5,R,0,4096,1\n5,R,0,4096,315360000000000\n")]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_platter"));
    command.args(["trace", "replay", "t.csv", "--on", "null(1M)", "--json"]).current_dir(&dir);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The first line of progress.
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("IOPS"), "{line}");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (output.status.code(), &value["partial"], &value["ios"]),
        (Some(130), &true.into(), &1.into())
    );
}
