//! Files whose size is no multiple of the block.

use platter_block::bio::Flags;
use platter_block::fault::Error;
use platter_disk::device::Device;
use platter_disk::drivers::Choice;
use platter_disk::open::DiskOptions;
use platter_disk::sync_io::IoOptions;
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

/// The block before the odd end, and blocks across the page that contains it, are written and read while another
/// thread writes the odd end itself. The ranges are disjoint, so every byte must be the one last written and no flush
/// may fail.
#[test]
fn writes_beside_the_odd_end_do_not_disturb_it() {
    const ROUNDS: u32 = 1500;
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for driver in ["uring", "aio", "threads"] {
        let size = 16 * 4096 + 3 * 512 + 100;
        let path = dir.path().join(driver);
        fs::write(&path, vec![0; size]).unwrap();
        let mut options = DiskOptions::read_write();
        options.file.driver = driver.parse::<Choice>().unwrap();
        let disk = match Device::open(&path, options) {
            Ok(disk) => disk,
            Err(error) => {
                eprintln!("skipped {driver}: {error}");
                continue;
            }
        };
        let durable = IoOptions::flags(Flags::FUA);
        let block = disk.limits_at(0).logical_block as usize;
        // In the page of the odd end, and from the page before into that page.
        let places = [(size - 100 - block, block), (size - 100 - 2 * block - 4096, 4096)];
        let outcome = std::thread::scope(|scope| {
            let tail = scope.spawn(|| {
                for round in 0..ROUNDS {
                    disk.write_at(&[round as u8; 100], size as u64 - 100)?;
                }
                Ok::<_, Error>(())
            });
            for round in 0..ROUNDS {
                for (at, len) in places {
                    let (byte, mut back) = (round as u8 | 1, vec![0; len]);
                    match round % 4 {
                        0 => disk.write_at_with(&vec![byte; len], at as u64, durable).unwrap(),
                        _ => disk.write_at(&vec![byte; len], at as u64).unwrap(),
                    }
                    disk.read_at(&mut back, at as u64).unwrap();
                    let old = back.iter().filter(|found| **found != byte).count();
                    assert_eq!(old, 0, "{driver}: old bytes at {at} in round {round}");
                }
                if round % 100 == 0 {
                    disk.flush().unwrap();
                }
            }
            tail.join().unwrap()
        });
        outcome.unwrap();
        disk.flush().unwrap();
        drop(disk);
        let end = fs::read(&path).unwrap();
        assert!(end.len() == size && end[size - 100..].iter().all(|byte| *byte == (ROUNDS - 1) as u8));
    }
}

/// More than a request takes, with an odd end, from and to memory of any alignment.
#[test]
fn a_large_file_with_an_odd_end_is_transferred_in_one_call() {
    const LARGE: usize = (9 << 20) + 100;
    let dir = tempfile::tempdir_in(".").unwrap();
    let data: Vec<u8> = (0..=LARGE).map(|i| (i * 31 % 251) as u8).collect();
    for driver in ["uring", "aio", "threads"] {
        let path = dir.path().join(driver);
        fs::write(&path, vec![0; LARGE]).unwrap();
        let mut options = DiskOptions::read_write();
        options.file.driver = driver.parse::<Choice>().unwrap();
        let disk = match Device::open(&path, options) {
            Ok(disk) => disk,
            Err(error) => {
                eprintln!("skipped {driver}: {error}");
                continue;
            }
        };
        let mut back = vec![0; LARGE + 1];
        for skip in [0, 1] {
            let (data, back) = (&data[skip..skip + LARGE], &mut back[skip..skip + LARGE]);
            disk.write_at(data, 0).unwrap();
            disk.read_at(back, 0).unwrap();
            assert!(back == data, "{driver}: memory at {:p}", back);
            assert!(fs::read(&path).unwrap() == data, "{driver}");
        }
    }
}
