//! `platter copy --rescue`: past unreadable ranges, with a map.

use crate::copy::noise;
use crate::run::{fails_saying, json, platter, stderr, text};
use crate::signals::hangup;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::{TempDir, tempdir};

/// A source file, a destination and a map that are not there yet.
struct Rig {
    dir: TempDir,
    content: Vec<u8>,
    from: PathBuf,
    to: PathBuf,
    map: PathBuf,
}

impl Rig {
    fn new(size: usize) -> Rig {
        let dir = tempdir().unwrap();
        let [from, to, map] = ["from", "to", "map"].map(|name| dir.path().join(name));
        let content = noise(size);
        fs::write(&from, &content).unwrap();
        Rig { dir, content, from, to, map }
    }

    /// The source with ranges that cannot be read.
    fn bad(&self, ranges: &[(usize, usize)]) -> String {
        ranges.iter().fold(text(&self.from).to_owned(), |below, (at, len)| {
            format!("error(op=read, offset={at}, length={len}, {below})")
        })
    }

    /// Rescues from a source, with exit status and JSON.
    fn rescue(&self, source: &str, more: &[&str]) -> (Option<i32>, Value, String) {
        let mut command = platter();
        command.args(["copy", "--json", "--rescue", text(&self.map), source, text(&self.to)]).args(more);
        let output = command.output().unwrap();
        let said = stderr(&output);
        let result = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
        (output.status.code(), result, said)
    }

    /// The destination has everything but these ranges, which are zero.
    #[track_caller]
    fn has_all_but(&self, ranges: &[(usize, usize)]) {
        let mut expected = self.content.clone();
        ranges.iter().for_each(|&(at, len)| expected[at..at + len].fill(0));
        assert!(fs::read(&self.to).unwrap() == expected, "{ranges:?}");
    }

    fn map_text(&self) -> String {
        fs::read_to_string(&self.map).unwrap()
    }
}

#[test]
fn all_that_can_be_read_is_copied_and_only_the_rest_is_tried_again() {
    let rig = Rig::new((3 << 20) + 100);
    let bad = [(700_416, 512), (2 << 20, 8192)];
    let (status, result, said) = rig.rescue(&rig.bad(&bad), &["--bs", "256K", "--verify"]);
    assert_eq!(status, Some(1), "{said}");
    assert_eq!((&result["bytes_bad"], &result["complete"]), (&8704.into(), &false.into()));
    assert_eq!(result["bad"][0]["offset"], 700_416, "{result}");
    assert_eq!((&result["bad"][1]["bytes"], &result["verified"]), (&8192.into(), &true.into()));
    assert_eq!((&result["resume_offset"], &result["flushed"]), (&700_416.into(), &true.into()));
    for word in ["8,704 bytes in 2 ranges", "512 at 700,416", "--retries"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    rig.has_all_but(&bad);
    let lines = ["0x000AB000  0x00000200  -", "0x00200000  0x00002000  -"];
    assert!(lines.iter().all(|line| rig.map_text().contains(line)), "{}", rig.map_text());

    // The disk is read again only in unreadable ranges, and only on request.
    let (status, result, _) = rig.rescue(text(&rig.from), &[]);
    assert_eq!((status, &result["bytes_written"]), (Some(1), &0.into()));
    let (status, result, said) = rig.rescue(text(&rig.from), &["--retries", "1"]);
    assert_eq!((status, &result["bytes_written"]), (Some(0), &8704.into()), "{said}");
    assert_eq!((&result["complete"], &result["bytes_bad"]), (&true.into(), &0.into()));
    rig.has_all_but(&[]);
    let (status, result, _) = rig.rescue(text(&rig.from), &[]);
    assert_eq!((status, &result["complete"], &result["bytes_written"]), (Some(0), &true.into(), &0.into()));
}

#[test]
fn bad_sectors_anywhere_cost_no_other_byte() {
    for seed in 1..=12u64 {
        let mut state = seed;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        let rig = Rig::new(512 * (100 + random(900) as usize) + random(512) as usize);
        let sectors = rig.content.len() / 512;
        let mut bad: Vec<usize> = (0..random(12)).map(|_| random(sectors as u64) as usize).collect();
        bad.sort_unstable();
        bad.dedup();
        let bad: Vec<(usize, usize)> = bad.into_iter().map(|sector| (sector * 512, 512)).collect();
        let depth = (1 + random(20)).to_string();
        let (status, result, said) = rig.rescue(&rig.bad(&bad), &["--bs", "8K", "--depth", &depth]);
        assert_eq!(status, Some(i32::from(!bad.is_empty())), "seed {seed}: {said}");
        assert_eq!(result["bytes_bad"], bad.len() * 512, "seed {seed}: {bad:?}");
        rig.has_all_but(&bad);
    }
}

#[test]
fn a_tail_that_cannot_be_read_is_in_the_map() {
    let rig = Rig::new(65536 + 100);
    let (status, result, said) = rig.rescue(&rig.bad(&[(65536, 100)]), &[]);
    assert_eq!((status, &result["bytes_bad"]), (Some(1), &100.into()), "{said}");
    rig.has_all_but(&[(65536, 100)]);
    assert!(rig.map_text().contains("0x00010000  0x00000064  -"), "{}", rig.map_text());
    let (status, result, said) = rig.rescue(text(&rig.from), &["--retries", "1"]);
    assert_eq!((status, &result["complete"]), (Some(0), &true.into()), "{said}");
    rig.has_all_but(&[]);
}

#[test]
fn a_disk_that_goes_away_ends_the_rescue_and_the_map_goes_on_from_there() {
    let rig = Rig::new(2 << 20);
    // 6 is ENXIO: the device is gone. All reads from the 11th on fail.
    let away = format!("error(op=read, nth=11, times=1, errno=6, {})", text(&rig.from));
    let (status, result, said) = rig.rescue(&away, &["--bs", "64K", "--depth", "4"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("errno 6") && said.contains("repeat the command"), "{said}");
    let first = result["bytes_written"].as_u64().unwrap();
    assert!(first > 0 && first < 2 << 20, "{result}");
    assert_eq!(result["bytes_bad"], 0, "a disk that is gone has no bad sectors");
    let (status, result, said) = rig.rescue(text(&rig.from), &["--bs", "64K"]);
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(result["bytes_written"].as_u64().unwrap() + first, 2 << 20);
    rig.has_all_but(&[]);
}

#[test]
fn reads_that_never_come_back_end_the_rescue_when_they_hold_all_memory() {
    let rig = Rig::new(512);
    // In virtual time: each read is stuck for an hour and times out after a second, and keeps its buffer.
    let stuck = "partition(length=1M, sim(ideal, stuck=1000000, aborts=0, timeout=1s))";
    let (status, result, said) = rig.rescue(stuck, &["--bs", "64K", "--depth", "4", "--sparse", "never"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("all buffers are with I/Os that timed out"), "{said}");
    assert_eq!((&result["bytes_bad"], &result["complete"]), (&(4 * 65536).into(), &false.into()));
}

#[test]
fn the_map_has_nothing_as_copied_that_no_flush_has_made_durable() {
    let rig = Rig::new(1 << 20);
    File::create(&rig.to).unwrap().set_len(1 << 20).unwrap();
    let to = format!("error(op=flush, {})", text(&rig.to));
    fails_saying(1, &["copy", "--rescue", text(&rig.map), text(&rig.from), &to], &["flush", "errno 5"]);
    assert!(!rig.map.exists() || !rig.map_text().lines().any(|line| line.ends_with("  +")));
}

#[test]
fn what_does_not_go_with_the_map_is_refused() {
    let rig = Rig::new(1 << 20);
    let (status, ..) = rig.rescue(text(&rig.from), &[]);
    assert_eq!(status, Some(0));
    let map = text(&rig.map);
    let other = rig.dir.path().join("other");
    fails_saying(
        4,
        &["copy", "--rescue", map, text(&rig.from), text(&other)],
        &["1,048,576 bytes as copied", "missing or empty"],
    );
    assert!(!other.exists());
    fails_saying(4, &["copy", "--rescue", map, "ram(2M)", "ram(2M)"], &["1048576 bytes", "2097152"]);
    fails_saying(4, &["copy", "--rescue", text(&rig.from), "ram(1M)", "ram(1M)"], &["not", "map"]);
    let nowhere = Path::new("/nowhere/at/all/map");
    fails_saying(
        4,
        &["copy", "--rescue", text(nowhere), "ram(1M)", "ram(1M)"],
        &["the directory /nowhere does not exist", "ENOENT", "mkdir"],
    );
    fails_saying(2, &["copy", "--retries", "1", "ram(1M)", "ram(1M)"], &["--rescue"]);
    fails_saying(4, &["copy", "--rescue", text(&other), text(&rig.from), text(&other)], &["destination"]);
    assert!(!other.exists());
}

#[test]
fn a_rescue_goes_on_although_the_destination_holds_a_file_system_by_now() {
    let rig = Rig::new(1 << 20);
    let mut content = fs::read(&rig.from).unwrap();
    content[4086..4096].copy_from_slice(b"SWAPSPACE2");
    fs::write(&rig.from, &content).unwrap();
    let (status, ..) = rig.rescue(&rig.bad(&[(65536, 512)]), &[]);
    assert_eq!(status, Some(1));
    let (status, _, said) = rig.rescue(text(&rig.from), &["--retries", "1"]);
    assert_eq!(status, Some(0), "{said}");
    assert!(fs::read(&rig.to).unwrap() == content);
    assert_eq!(json(&["copy", "--force", text(&rig.from), text(&rig.to)])["complete"], true);
}

#[test]
fn signals_end_a_rescue_with_its_map_saved() {
    for signal in [hangup(), Signal::INT] {
        let rig = Rig::new(4 << 20);
        let source = format!("delay(read=20ms, {})", text(&rig.from));
        let mut command = platter();
        command.args([
            "copy",
            "--json",
            "--bs",
            "4K",
            "--depth",
            "1",
            "--rescue",
            text(&rig.map),
            &source,
            text(&rig.to),
        ]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        while !fs::metadata(&rig.to).is_ok_and(|found| found.blocks() > 0) {
            assert_eq!(child.try_wait().unwrap(), None);
            std::thread::park_timeout(Duration::from_millis(2));
        }
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(128 + signal.as_raw()), "{}", stderr(&output));
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        let copied = result["resume_offset"].as_u64().unwrap();
        assert!(copied > 0 && copied < 4 << 20 && result["flushed"] == true, "{result}");
        assert!(rig.map_text().contains(&format!("0x00000000  0x{copied:08X}  +")), "{}", rig.map_text());
        let (status, result, said) = rig.rescue(text(&rig.from), &[]);
        assert_eq!((status, &result["complete"]), (Some(0), &true.into()), "{said}");
        rig.has_all_but(&[]);
    }
}

/// A map as ddrescue writes it, for the destination of a rig.
fn map_of_ddrescue(rig: &Rig, lines: &str) -> String {
    format!(
        "# Mapfile. Created by GNU ddrescue version 1.27\n# Command line: ddrescue -s 256Ki from {} map\n\
         # current_pos  current_status  current_pass\n0x00030000     +               1\n#      pos        size  status\n{lines}",
        text(&rig.to)
    )
}

#[test]
fn a_run_of_ddrescue_is_continued() {
    let size = (1 << 20) + 100;
    for lines in [
        // What ddrescue 1.27 writes for -s 256Ki of a source whose size it knows.
        "0x00000000  0x00040000  +\n0x00040000  0x000C0064  ?\n",
        "0x00000000  0x00040000  + # copied yesterday\n\n# the rest\n0x00040000  0x00001000  -\n",
        "0x00000000  0x00040000  +\n0x00040000  0x7FFFFFFFFFFBFFFF  ?\n",
        "0x00020000  0x00020000  +\n",
    ] {
        let rig = Rig::new(size);
        // The destination is as large as what has been copied, and holds a file system.
        let mut content = rig.content.clone();
        content[4086..4096].copy_from_slice(b"SWAPSPACE2");
        fs::write(&rig.from, &content).unwrap();
        fs::write(&rig.to, &content[..0x40000]).unwrap();
        fs::write(&rig.map, map_of_ddrescue(&rig, lines)).unwrap();
        let (status, result, said) = rig.rescue(text(&rig.from), &["--retries", "1", "--verify"]);
        assert_eq!((status, &result["verified"]), (Some(0), &true.into()), "{lines}: {said}");
        assert!(result["bytes_written"].as_u64().unwrap() < size as u64, "{lines}: {result}");
        assert!(fs::read(&rig.to).unwrap() == content, "{lines}");
    }
}

#[test]
fn a_map_of_ddrescue_that_cannot_be_of_this_source_is_refused() {
    let rig = Rig::new(1 << 20);
    fs::write(&rig.to, vec![0; 0x40000]).unwrap();
    for (lines, words) in [
        ("0x00000000  0x00100200  +\n", ["copied up to 1049088", "1048576 bytes"]),
        // Copied beyond the end of the destination.
        ("0x00000000  0x00040200  +\n", ["too small", "truncate -s 1048576"]),
    ] {
        fs::write(&rig.map, map_of_ddrescue(&rig, lines)).unwrap();
        fails_saying(4, &["copy", "--rescue", text(&rig.map), text(&rig.from), text(&rig.to)], &words);
        assert_eq!(fs::metadata(&rig.to).unwrap().len(), 0x40000);
    }
}

#[test]
fn a_run_of_the_program_ddrescue_is_continued() {
    let rig = Rig::new(1_000_000);
    let mut command = Command::new("ddrescue");
    command.args(["-q", "-s", "262144"]).args([&rig.from, &rig.to, &rig.map]);
    if !command.status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: there is no ddrescue");
        return;
    }
    let (status, result, said) = rig.rescue(text(&rig.from), &[]);
    assert_eq!((status, &result["bytes_written"]), (Some(0), &(1_000_000 - 262_144).into()), "{said}");
    rig.has_all_but(&[]);
}
