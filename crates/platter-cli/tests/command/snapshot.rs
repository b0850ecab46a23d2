//! `platter snapshot merge`, and the status of a snapshot in `platter info`.

use crate::run::{fails_saying, json, ok, platter};
use std::path::Path;
use std::process::Stdio;
use tempfile::{TempDir, tempdir};

const SIZE: usize = 4 << 20;

/// A disk of ones whose snapshot holds twos, and its store.
fn changed() -> (TempDir, String, String) {
    let dir = tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (disk, store, new) = (path("disk"), path("store"), path("new"));
    std::fs::write(&disk, vec![1; SIZE]).unwrap();
    std::fs::write(&store, vec![0; SIZE + (1 << 20)]).unwrap();
    std::fs::write(&new, vec![2; SIZE]).unwrap();
    ok(&["copy", "--quiet", &new, &format!("snapshot({disk}, {store})")]);
    (dir, disk, store)
}

fn is_all(path: &str, byte: u8) -> bool {
    std::fs::read(path).unwrap() == vec![byte; SIZE]
}

fn item(info: &serde_json::Value, name: &str) -> serde_json::Value {
    let items = info[0]["layers"][0]["status"].as_array().unwrap();
    items.iter().find(|item| item["name"] == name).unwrap_or_else(|| panic!("{name}: {info}"))["value"]
        .clone()
}

#[test]
fn a_snapshot_is_merged_and_has_ended() {
    let (dir, disk, store) = changed();
    let view = format!("snapshot({disk}, {store})");
    let info = json(&["info", &view]);
    assert_eq!(item(&info, "snapshot"), "valid");
    assert_eq!(item(&info, "snapshot_store_used"), SIZE);
    let other = dir.path().join("other").display().to_string();
    std::fs::write(&other, vec![1; SIZE]).unwrap();
    fails_saying(4, &["snapshot", "merge", &other, &store], &["another origin file", "moved=on"]);
    fails_saying(4, &["snapshot", "merge", &disk, &other], &["holds no snapshot"]);
    fails_saying(4, &["snapshot", "merge", &disk, &disk], &[&disk]);
    fails_saying(3, &["snapshot", "merge", &disk, "/nonexistent/store"], &["/nonexistent/store"]);
    assert!(is_all(&disk, 1));
    let result = json(&["snapshot", "merge", &disk, &store]);
    assert_eq!(
        (result["merged"].as_bool(), result["merged_bytes"].as_u64()),
        (Some(true), Some(SIZE as u64))
    );
    assert!(is_all(&disk, 2));
    fails_saying(3, &["info", &view], &["was merged into its origin"]);
    assert!(ok(&["snapshot", "merge", &disk, &store]).contains("merged"), "there is nothing left to do");
}

#[test]
fn an_interrupted_merge_continues() {
    let (_dir, disk, store) = changed();
    let mut merge = platter()
        .args(["snapshot", "merge", "--json", "--rate", "1M", &disk, &store])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // It has begun when the origin changes.
    while is_all(&disk, 1) {
        assert!(merge.try_wait().unwrap().is_none(), "it ended before it began");
        std::thread::yield_now();
    }
    let pid = rustix::process::Pid::from_child(&merge);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = merge.wait_with_output().unwrap();
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    if output.status.success() {
        eprintln!("skipped: the machine was so slow that the merge had ended");
        return;
    }
    assert_eq!(output.status.code(), Some(130), "{result}");
    assert_eq!(result["merged"], false);
    assert!(Path::new(&disk).exists() && !is_all(&disk, 2));
    fails_saying(3, &["info", &format!("snapshot({disk}, {store})")], &["continue with snapshot-merge"]);
    ok(&["snapshot", "merge", &disk, &store]);
    assert!(is_all(&disk, 2));
}
