//! `platter snapshot merge`, and the status of layers in `platter info`.

use crate::run::{fails_saying, json, ok, platter};
use crate::running::Running;
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
fn info_has_the_status_of_layers() {
    let dir = tempdir().unwrap();
    let disk = dir.path().join("disk").display().to_string();
    std::fs::write(&disk, vec![1; SIZE]).unwrap();
    let info = json(&["info", &format!("cache(size=1M, {disk})")]);
    assert_eq!((item(&info, "cache_pages"), item(&info, "dirty_bytes")), (256.into(), 0.into()));
    let params = info[0]["layers"][0]["params"].as_array().unwrap();
    let dirty = params.iter().find(|param| param["name"] == "dirty").unwrap();
    assert_eq!((&dirty["value"], &dirty["min"], &dirty["max"]), (&20.into(), &1.into(), &100.into()));
    assert_eq!(json(&["info", &disk])[0]["layers"], serde_json::json!([]));
}

#[test]
fn a_snapshot_is_merged_and_has_ended() {
    let (dir, disk, store) = changed();
    let view = format!("snapshot({disk}, {store})");
    let new = dir.path().join("new").display().to_string();
    let other = dir.path().join("other").display().to_string();
    std::fs::write(&other, vec![1; SIZE]).unwrap();
    fails_saying(4, &["snapshot", "merge", &other, &store], &["another origin file", "moved=on"]);
    fails_saying(4, &["snapshot", "merge", &disk, &other], &["holds no snapshot"]);
    fails_saying(3, &["snapshot", "merge", &disk, &disk], &[&disk, "open already, by this process"]);
    fails_saying(3, &["snapshot", "merge", &disk, "/nonexistent/store"], &["/nonexistent/store"]);
    assert!(is_all(&disk, 1));
    let result = json(&["snapshot", "merge", &disk, &store]);
    assert_eq!(
        (result["merged"].as_bool(), result["merged_bytes"].as_u64()),
        (Some(true), Some(SIZE as u64))
    );
    assert!(is_all(&disk, 2));
    fails_saying(3, &["copy", "--quiet", &new, &view], &["was merged into its origin"]);
    assert!(ok(&["snapshot", "merge", &disk, &store]).contains("merged"), "there is nothing left to do");
}

#[test]
fn an_interrupted_merge_continues() {
    let (dir, disk, store) = changed();
    let mut merge = Running::start(
        platter().args(["snapshot", "merge", "--json", "--rate", "1M", &disk, &store]).stdout(Stdio::piped()),
    );
    // It has begun when the origin changes.
    while is_all(&disk, 1) {
        assert!(merge.try_wait().unwrap().is_none(), "it ended before it began");
        std::thread::yield_now();
    }
    merge.signal(rustix::process::Signal::INT);
    let output = merge.output();
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    if output.status.success() {
        eprintln!("skipped: the machine was so slow that the merge had ended");
        return;
    }
    assert_eq!(output.status.code(), Some(130), "{result}");
    assert_eq!(result["merged"], false);
    assert!(Path::new(&disk).exists() && !is_all(&disk, 2));
    let (new, view) = (dir.path().join("new").display().to_string(), format!("snapshot({disk}, {store})"));
    fails_saying(3, &["copy", "--quiet", &new, &view], &["continue with snapshot-merge"]);
    ok(&["snapshot", "merge", &disk, &store]);
    assert!(is_all(&disk, 2));
}
