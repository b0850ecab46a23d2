//! Files that another program truncates.

use crate::bench::{BLOCK, Bench, Disk, Pages, SIZE, disks, transfer};
use platter_block::backend::LaneUse;
use platter_block::bio::{Bio, Op};
use platter_block::fault::Kind;
use platter_block::time::Span;
use platter_disk::drivers::FileDisk;

const USES: [LaneUse; 3] = [LaneUse::Exclusive, LaneUse::Shared, LaneUse::Synchronous];

/// Runs a test on a fresh file of each driver, in each use of a lane.
fn on_files(test: impl Fn(&str, &FileDisk, &std::fs::File, Bench)) {
    for lane_use in USES {
        for (name, disk) in disks(4) {
            let bench = disk.lane(4, lane_use);
            if let Disk::File(disk, Some(file)) = &disk {
                test(&format!("{name} {lane_use:?}"), disk, file.as_file(), bench);
            }
        }
    }
}

fn write(block: u64) -> Bio {
    transfer(Op::Write, block * BLOCK as u64, Pages::new(1, 7), &[])
}

fn kind(bio: Bio) -> Option<Kind> {
    bio.status().err().map(|fault| fault.kind)
}

/// The size was checked just before the file shrank, so a write past its new end still makes it longer. The flush
/// after it fails nevertheless, and from then on so does I/O beyond that end.
#[test]
fn a_flush_after_a_write_into_what_was_cut_off_fails() {
    on_files(|name, disk, file, mut bench| {
        assert_eq!(kind(bench.one(write(0))), None, "{name}");
        assert_eq!(disk.shrunk_to(), None, "{name}");
        file.set_len(8192).unwrap();
        assert_eq!(kind(bench.one(write(100))), None, "{name}: within the interval");
        assert_eq!(kind(bench.one(Bio::flush())), Some(Kind::Gone), "{name}");
        assert_eq!(disk.shrunk_to(), Some(101 * BLOCK as u64), "{name}");
        assert_eq!(kind(bench.one(write(101))), Some(Kind::Gone), "{name}");
        let past_it = bench.one(transfer(Op::Read, 102 * BLOCK as u64, Pages::new(1, 1), &[]));
        assert_eq!(kind(past_it), Some(Kind::Short), "{name}");
        // The flush fails as long as the disk is larger than the file, even if the failure is acknowledged.
        bench.lane.queue.acknowledge_flush_failure();
        assert_eq!(kind(bench.one(Bio::flush())), Some(Kind::Gone), "{name}");
        let fact = disk.facts().into_iter().find(|(name, _)| *name == "file shrank");
        assert!(fact.is_some_and(|(_, text)| text.contains(&format!("from {SIZE} to {}", 101 * BLOCK))));
        // Given its new size, it works again.
        disk.set_size(disk.current_size().unwrap()).unwrap();
        bench.lane.queue.acknowledge_flush_failure();
        assert_eq!(kind(bench.one(Bio::flush())), None, "{name}");
        assert_eq!(kind(bench.one(write(100))), None, "{name}");
        assert_eq!(disk.shrunk_to(), None, "{name}");
    });
}

#[test]
fn a_shrink_is_found_within_an_interval_of_changes_without_a_flush() {
    on_files(|name, disk, file, mut bench| {
        assert_eq!(kind(bench.one(write(0))), None, "{name}");
        file.set_len(8192).unwrap();
        assert_eq!(kind(bench.one(write(100))), None, "{name}: within the interval");
        bench.pass(Span::from_millis(3));
        // A read is enough: the range that was cut off must not read as zeroes.
        let past_it = bench.one(transfer(Op::Read, 101 * BLOCK as u64, Pages::new(1, 1), &[]));
        assert_eq!(kind(past_it), Some(Kind::Short), "{name}");
        assert_eq!(disk.shrunk_to(), Some(101 * BLOCK as u64), "{name}");
    });
}

/// The new end is inside a block, and the disk has not been given its new size. What is left of a transfer that direct I/O
/// cannot do goes through the page cache.
#[test]
fn a_file_that_ends_inside_a_block_is_read_up_to_there() {
    const END: u64 = 2 * BLOCK as u64 + 100;
    on_files(|name, disk, file, mut bench| {
        assert_eq!(kind(bench.one(write(2))), None, "{name}");
        file.set_len(END).unwrap();
        assert_eq!(disk.current_size().unwrap(), END, "{name}");
        assert_eq!(disk.shrunk_to(), Some(END), "{name}");
        for pos in [0, BLOCK as u64, 2 * BLOCK as u64] {
            let over_the_end = bench.one(transfer(Op::Read, pos, Pages::new(3, 1), &[]));
            assert_eq!(kind(over_the_end), Some(Kind::Short), "{name} {pos}");
        }
        assert_eq!(kind(bench.one(write(2))), Some(Kind::Gone), "{name}");
        assert_eq!(file.metadata().unwrap().len(), END, "{name}");
    });
}

/// A thousand changes within one interval cost one check of the size; changes that reach the end cost one each.
#[test]
fn the_size_is_looked_at_once_in_an_interval() {
    on_files(|name, disk, _, mut bench| {
        for round in 0..1000u64 {
            bench.submit(write(round % 200));
            bench.run();
        }
        let done = bench.finish();
        assert!(done.len() == 1000 && done.iter().all(|bio| bio.status().is_ok()), "{name}");
        let looks = disk.looks_at_size();
        assert!(looks <= 2, "{name}: {looks} looks");
        assert_eq!(kind(bench.one(write(SIZE / BLOCK as u64 - 1))), None, "{name}");
        assert_eq!(disk.looks_at_size(), looks + 1, "{name}");
    });
}
