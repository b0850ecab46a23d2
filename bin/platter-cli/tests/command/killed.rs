//! The effects of a process that was killed.

use crate::copy::noise;
use crate::run::{fails_saying, json, platter, text};
use crate::running::Running;
use rustix::process::Signal;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use tempfile::tempdir;

/// A process that has a disk of 2 MiB open for writing and never ends by itself.
fn user_of(disk: &str) -> Running {
    let mut user = Running::start(
        platter()
            .args(["copy", "--sparse", "never", "delay(read=3600s, ram(1M))", disk])
            .stderr(Stdio::piped())
            .stdout(Stdio::null()),
    );
    let mut note = String::new();
    // Written when both devices are open.
    BufReader::new(user.stderr.take().unwrap()).read_line(&mut note).unwrap();
    assert!(note.contains("larger than the source"), "{note}");
    user
}

#[test]
fn a_disk_can_be_opened_again_at_once_after_its_user_was_killed() {
    let dir = tempdir().unwrap();
    let disk = dir.path().join("disk");
    fs::write(&disk, noise(2 << 20)).unwrap();
    for _ in 0..8 {
        let user = user_of(text(&disk));
        let holder = format!("process {} (platter)", user.id());
        fails_saying(3, &["copy", "ram(1M)", text(&disk)], &["open already", &holder]);
        assert_eq!(user.end(Signal::KILL).signal(), Some(libc::SIGKILL));
        json(&["copy", "ram(1M)", text(&disk)]);
    }
}
