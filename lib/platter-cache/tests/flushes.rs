//! What frequent flushes cost. Alone in its process, whose service thread it watches.

use platter_cache::Settings;
use platter_disk::device::Device;
use platter_disk::open::DiskOptions;
use platter_disk::service;

const PAGE: usize = 4096;
const FLUSHES: u64 = 300;

/// A cache over a file.
fn open(path: &std::path::Path) -> Device {
    let below = Device::open(path, DiskOptions::read_write()).unwrap();
    let settings = Settings { size: 4 << 20, ..Settings::default() };
    Device::new(platter_cache::new(below.backend().clone(), &settings).unwrap())
}

/// Threads write and flush in turn. Dirty pages come and go with each flush, and a sleeping caller carries out its
/// own, so the service thread has nothing to do but look once an interval.
#[test]
fn flushes_of_sleeping_callers_leave_the_service_thread_alone() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(1 << 20).unwrap();
    let device = open(file.path());
    let before = service::rounds();
    let work = |thread: u64| {
        for flush in 0..FLUSHES {
            for at in 0..3 {
                let pos = (thread * 32 + (flush * 3 + at) * 7 % 32) * PAGE as u64;
                device.write_at(&[flush as u8; PAGE], pos).unwrap();
            }
            device.flush().unwrap();
        }
    };
    std::thread::scope(|scope| {
        (0..4).for_each(|thread| drop(scope.spawn(move || work(thread))));
    });
    let rounds = service::rounds() - before;
    assert!(
        rounds < FLUSHES / 4,
        "{rounds} rounds of the service thread for {FLUSHES} flushes of each thread"
    );
    // What was flushed last is in the file.
    let contents = std::fs::read(file.path()).unwrap();
    for thread in 0..4usize {
        for at in 0..3 {
            let page = thread * 32 + ((FLUSHES as usize - 1) * 3 + at) * 7 % 32;
            assert_eq!(contents[page * PAGE], (FLUSHES - 1) as u8, "page {page}");
        }
    }
}
