//! Files whose size is no multiple of the block.

use platter_disk::device::Device;
use platter_disk::drivers::Choice;
use platter_disk::open::DiskOptions;
use std::fs;

const SIZE: usize = 3 * 4096 + 777;

fn pattern(seed: u8) -> Vec<u8> {
    (0..SIZE).map(|i| (i * 31 % 251) as u8 ^ seed).collect()
}

#[test]
fn the_tail_of_a_file_is_read_and_written_exactly() {
    let dir = tempfile::tempdir_in(".").unwrap();
    for driver in ["uring", "aio", "threads"] {
        let path = dir.path().join(driver);
        fs::write(&path, pattern(0)).unwrap();
        let mut options = DiskOptions::read_write();
        options.file.driver = driver.parse::<Choice>().unwrap();
        let disk = match Device::open(&path, options) {
            Ok(disk) => disk,
            Err(error) => {
                eprintln!("skipped {driver}: {error}");
                continue;
            }
        };
        assert_eq!(disk.size(), SIZE as u64);
        let mut all = vec![0; SIZE];
        disk.read_at(&mut all, 0).unwrap();
        assert!(all == pattern(0), "{driver}: whole file");
        let mut end = vec![0; 1000];
        disk.read_at(&mut end, (SIZE - 1000) as u64).unwrap();
        assert!(end == pattern(0)[SIZE - 1000..], "{driver}: the end, misaligned");
        // Over the whole, over the tail alone, and inside the tail.
        for (at, len) in [(0, SIZE), (3 * 4096, 777), (3 * 4096 + 100, 50), (5000, SIZE - 5000)] {
            let seed = (at % 255) as u8 ^ 0x5a;
            disk.write_at(&pattern(seed)[at..at + len], at as u64).unwrap();
            let mut back = vec![0; len];
            disk.read_at(&mut back, at as u64).unwrap();
            assert!(back == pattern(seed)[at..at + len], "{driver}: {len} bytes at {at}");
        }
        assert!(disk.read_at(&mut [0; 2], SIZE as u64 - 1).is_err());
        disk.flush().unwrap();
        drop(disk);
        assert_eq!(fs::metadata(&path).unwrap().len(), SIZE as u64, "{driver}: the size stays");
    }
}
