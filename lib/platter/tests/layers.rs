//! Snapshots and extents as specs, on files.

use platter::registry::{self, Access};
use tempfile::TempDir;

fn file(directory: &TempDir, name: &str, byte: u8, len: usize) -> String {
    let path = directory.path().join(name);
    std::fs::write(&path, vec![byte; len]).unwrap();
    path.display().to_string()
}

fn refusal(spec: &str, access: Access) -> String {
    registry::open(spec, access).err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn a_snapshot_of_a_file_outlives_its_process_and_goes_back() {
    let directory = tempfile::tempdir().unwrap();
    let (disk, store) = (file(&directory, "disk", 1, 1 << 20), file(&directory, "store", 0, 2 << 20));
    let write = Access { force: true, ..Access::read_write() };
    let origin = registry::open(&format!("snapshot-origin({disk}, {store}, chunk=16K)"), write).unwrap();
    origin.write_at(&[2; 4096], 8192).unwrap();
    origin.flush().unwrap();
    drop(origin);
    let view = registry::open(&format!("snapshot({disk}, {store})"), write).unwrap();
    let mut data = vec![0; 1 << 20];
    view.read_at(&mut data, 0).unwrap();
    assert!(data.iter().all(|&byte| byte == 1));
    drop(view);
    let other = file(&directory, "other", 1, 1 << 20);
    let text = refusal(&format!("snapshot({other}, {store})"), write);
    assert!(text.contains("the store is of another origin file") && text.contains("moved=on"), "{text}");
    let merge = registry::open(&format!("snapshot-merge({disk}, {store})"), write).unwrap();
    while merge.facts().iter().all(|(name, value)| *name != "snapshot" || value != "merged") {
        merge.read_at(&mut data[..512], 8192).unwrap();
    }
    drop(merge);
    assert!(std::fs::read(&disk).unwrap().iter().all(|&byte| byte == 1));
}

#[test]
fn extents_are_read_from_tables() {
    let directory = tempfile::tempdir().unwrap();
    let (one, two) = (file(&directory, "one", 1, 65536), file(&directory, "two", 2, 65536));
    let table = file(&directory, "table", 0, 0);
    std::fs::write(&table, "# two and one\n0 4K 1 8K\n4K 4K 0 0\n").unwrap();
    for argument in [format!("from={table}"), "table=\"0 8s 1 8K; 4K 4K 0 0\"".to_string()] {
        let device = registry::open(&format!("extents({argument}, {one}, {two})"), Access::read()).unwrap();
        let mut data = vec![0; 8192];
        device.read_at(&mut data, 0).unwrap();
        assert!(data[..4096] == [2; 4096] && data[4096..] == [1; 4096]);
    }
    let told = |spec: String| refusal(&spec, Access::read());
    assert!(told(format!("extents({one})")).contains("takes one of table=, from= and file="));
    assert!(told(format!("extents(table=\"0 1\", {one})")).contains("START LENGTH DEVICE OFFSET"));
    assert!(told(format!("extents(table=\"0 1M 0 0\", {one})")).contains("past the end of device 0"));
    // Its extents are those of another device, if its file system has any.
    let text = told(format!("extents(file={one}, {two})"));
    assert!(!text.is_empty(), "the device does not hold the file");
    let text = refusal(&format!("extents(file={one}, {two})"), Access::read_write());
    assert!(text.contains("to read only"), "{text}");
}
