//! Forbidden uses of a driver, and the driver's response.

use crate::bench::{Bench, Pages, SIZE, file, file_options, is_here, open, transfer};
use platter_block::backend::LaneUse;
use platter_block::bio::{Bio, Op};
use platter_disk::drivers::table::find;
use platter_disk::drivers::{FileDisk, FileOptions};
use platter_disk::sys::{Direct, OpenOptions};

/// A ring that belongs to one thread fails the requests of another; nothing hangs, and nothing is lost
/// silently.
#[test]
fn an_exclusive_ring_used_from_another_thread_fails_what_it_is_given() {
    let uring = find("uring").unwrap();
    if !is_here(uring) {
        return;
    }
    let file = file(SIZE);
    let disk = open(file.path(), file_options(uring, 8), Direct::Prefer);
    let mut bench = Bench::new(*disk.geometry(), 8, disk.channel(LaneUse::Exclusive).unwrap());
    assert_eq!(bench.one(transfer(Op::Write, 0, Pages::new(1, 7), &[])).status(), Ok(()));
    bench.submit(transfer(Op::Read, 0, Pages::new(16, 0), &[]));
    bench.run();
    let statuses = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            bench.submit(transfer(Op::Read, 65536, Pages::new(1, 0), &[]));
            let mut done = bench.finish();
            bench.submit(transfer(Op::Read, 131_072, Pages::new(1, 0), &[]));
            bench.submit(Bio::flush());
            done.extend(bench.finish());
            done.iter().map(|bio| bio.status().map_err(|fault| fault.errno())).collect::<Vec<_>>()
        });
        other.join().unwrap()
    });
    assert_eq!(statuses.len(), 4);
    // The first request was in flight when the owner stopped: it may have succeeded.
    assert!(statuses[1..].iter().all(|status| *status == Err(libc::EEXIST)), "{statuses:?}");
    // Another channel works as before.
    let mut bench = Bench::new(*disk.geometry(), 8, disk.channel(LaneUse::Exclusive).unwrap());
    assert_eq!(bench.one(transfer(Op::Read, 0, Pages::new(1, 0), &[])).status(), Ok(()));
}

#[test]
fn absurd_depths_are_refused_with_the_range() {
    for depth in [0, 16385, u32::MAX] {
        let file = file(SIZE);
        let opened = OpenOptions::read_write().open(file.path()).unwrap();
        let options = FileOptions::default().with_depth(depth);
        let error = FileDisk::new(opened, options).map(|_| ()).unwrap_err().to_string();
        assert!(
            error.contains(&format!("{depth} is out of range")) && error.contains("1 to 16384"),
            "{error}"
        );
    }
}

#[test]
fn the_largest_depth_works() {
    for name in ["uring", "threads"] {
        let row = find(name).unwrap();
        if !is_here(row) {
            continue;
        }
        let file = file(SIZE);
        let disk = open(file.path(), file_options(row, 16384), Direct::Prefer);
        let mut bench = Bench::new(*disk.geometry(), 16384, disk.channel(LaneUse::Shared).unwrap());
        assert_eq!(bench.one(transfer(Op::Read, 0, Pages::new(1, 0), &[])).status(), Ok(()), "{name}");
    }
}
