//! Completions wake those who sleep on a channel's descriptor, whatever carries the request out.

use crate::bench::{Bench, Pages, SIZE, file, file_options, is_here, open, transfer};
use crate::loops::{Loop, Shape};
use platter_block::backend::LaneUse;
use platter_block::bio::{Bio, Op};
use platter_block::lane::Lane;
use platter_block::time::Time;
use platter_disk::drivers::FileOptions;
use platter_disk::drivers::table::{Medium, TABLE};
use platter_disk::pool::{PAGE, Pool};
use platter_disk::sys::Direct;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::BorrowedFd;
use std::path::Path;

/// Time after which a wake-up counts as lost.
const LOST: Timespec = Timespec { tv_sec: 20, tv_nsec: 0 };

/// All ways to use a file or block device.
fn ways() -> Vec<(String, FileOptions)> {
    let mut ways = Vec::new();
    for row in TABLE.iter().filter(|row| row.medium == Medium::Path && is_here(row)) {
        ways.push((row.name.to_owned(), file_options(row, 16)));
        if row.name == "uring" {
            ways.push(("uring sqpoll".to_owned(), file_options(row, 16).with_sqpoll(true)));
        }
    }
    ways
}

/// Sleeps on the lane's descriptor alone, as exports do, until everything is done.
fn sleep_out(name: &str, bench: &mut Bench) {
    let start = std::time::Instant::now();
    loop {
        bench.run();
        if bench.lane.is_idle() {
            break;
        }
        let mut handles = Vec::new();
        if !bench.lane.wait_handles(&mut handles) {
            continue;
        }
        #[allow(unsafe_code)]
        // SAFETY: the driver keeps its descriptor open, and is not used during the call.
        let fd = unsafe { BorrowedFd::borrow_raw(handles[0]) };
        let mut timer = LOST;
        if let Some(at) = bench.lane.next_wakeup() {
            bench.pass(at.since(Time(0)));
            timer = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        }
        let woken = poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&timer)).unwrap_or(1);
        assert!(woken > 0 || timer.tv_sec == 0, "{name}: nothing wakes the sleeper");
        assert!(start.elapsed().as_secs() < 60, "{name}: woken again and again, and nothing is done");
    }
    for bio in std::mem::take(&mut bench.done) {
        assert_eq!(bio.status(), Ok(()), "{name} {bio:?}");
    }
}

fn check(path: &Path, direct: Direct, round: &dyn Fn(&mut Bench, u64)) {
    for (name, options) in ways() {
        for lane_use in [LaneUse::Exclusive, LaneUse::Synchronous, LaneUse::Shared] {
            let name = format!("{} {name} {direct:?} {lane_use:?}", path.display());
            let disk = open(path, options, direct);
            let mut bench = Bench::new(*disk.geometry(), 16, disk.channel(lane_use).unwrap());
            for number in 0..12 {
                round(&mut bench, number);
                // A caller that waits in the channel in between must not take the wake-up of the next sleep.
                if number % 4 == 3 {
                    bench.run();
                    bench.lane.wait(Time(0), None);
                }
                sleep_out(&name, &mut bench);
            }
        }
    }
}

#[test]
fn transfers_of_the_odd_end_of_a_file_wake_a_sleeper() {
    let file = file(SIZE + 512 + 100);
    for direct in [Direct::Prefer, Direct::Off] {
        check(file.path(), direct, &|bench, number| {
            // All of it in the page that contains the end.
            let buffer = Pool::new(1, 512, PAGE).unwrap().take().unwrap();
            bench.submit(match number % 2 {
                0 => Bio::write(SIZE, buffer).unwrap(),
                _ => Bio::read(SIZE, buffer).unwrap(),
            });
        });
    }
}

#[test]
fn discards_and_zeroes_of_a_block_device_wake_a_sleeper() {
    for shape in [
        Shape::PLAIN,
        Shape { block: 4096, ..Shape::PLAIN },
        Shape { direct: true, ..Shape::PLAIN },
        Shape { partitioned: true, ..Shape::PLAIN },
    ] {
        let file = file(SIZE);
        let Some(node) = Loop::over(file.path(), shape) else { return };
        for direct in [Direct::Prefer, Direct::Off] {
            check(&node.path, direct, &|bench, number| {
                bench.submit(Bio::new(Op::Discard, number * 65536, 65536));
                if number % 3 == 1 {
                    bench.submit(transfer(Op::Write, 8192, Pages::new(1, 7), &[]));
                }
                if number % 3 == 2 {
                    bench.submit(Bio::new(Op::WriteZeroes, 0, 65536));
                    bench.submit(Bio::flush());
                }
            });
        }
    }
}
