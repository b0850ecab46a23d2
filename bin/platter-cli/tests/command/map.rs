//! `platter map`.

use crate::run::{fails_saying, json, ok};
use std::os::unix::fs::FileExt;
use tempfile::tempdir;

#[test]
fn holes_of_an_array_of_files_are_found() {
    let dir = tempdir().unwrap();
    for name in ["a", "b"] {
        let file = std::fs::File::create(dir.path().join(name)).unwrap();
        file.set_len(1 << 20).unwrap();
        if name == "b" {
            file.write_all_at(&[1; 65536], 65536).unwrap();
        }
    }
    let spec = format!("raid0(chunk=64K, {0}/a, {0}/b)", dir.path().display());
    let map = json(&["map", &spec]);
    assert_eq!(map["size"], 2 << 20);
    let sum = map["data_bytes"].as_u64().unwrap() + map["hole_bytes"].as_u64().unwrap();
    assert_eq!(sum, 2 << 20);
    let extents = map["extents"].as_array().unwrap();
    let data: Vec<_> = extents.iter().filter(|extent| extent["type"] == "data").collect();
    if map["hole_bytes"] == 0 {
        eprintln!("skipped: the file system of {} has no holes", dir.path().display());
        return;
    }
    assert_eq!(data.len(), 1, "{map}");
    assert_eq!((data[0]["offset"].as_u64(), data[0]["bytes"].as_u64()), (Some(3 * 65536), Some(65536)));
    assert!(ok(&["map", &spec]).contains("65,536 of 2,097,152 bytes are data"));
}

#[test]
fn a_device_that_is_missing_has_no_map() {
    fails_saying(3, &["map", "/nonexistent/disk.img"], &["/nonexistent/disk.img"]);
}
