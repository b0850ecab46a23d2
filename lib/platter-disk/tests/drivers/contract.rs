//! The contract of every driver.

use crate::bench::{
    BLOCK, Bench, Disk, Pages, SIZE, check, flags, on_all, on_files, on_uses, pages, transfer,
};
use platter_block::backend::LaneUse;
use platter_block::bio::{Bio, Flags, Op};
use platter_block::fault::Kind;
use platter_block::time::Time;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use std::cell::RefCell;

fn below(random: &mut impl RngCore, n: u64) -> u64 {
    random.next_u64() % n
}

/// Where segments may end: what the disk asks for, and at least 512 bytes.
fn unit(disk: &Disk) -> usize {
    disk.geometry().limits.length_align.max(512) as usize
}

/// Cuts of a transfer of `blocks` blocks into segments, at multiples of `unit` bytes.
fn cuts(random: &mut impl RngCore, blocks: usize, unit: usize) -> Vec<usize> {
    let units = (blocks * BLOCK / unit) as u64;
    let mut cuts: Vec<usize> = (0..below(random, 6)).map(|_| below(random, units) as usize * unit).collect();
    cuts.retain(|cut| *cut > 0);
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

#[test]
fn what_is_written_is_read_with_any_segments_at_depth() {
    const DEPTH: u32 = 8;
    on_all(DEPTH, |name, disk, lane_use| {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(0x9d7);
        let mut model = vec![0u8; SIZE as usize];
        let mut bench = disk.lane(DEPTH, lane_use);
        for round in 0..40u64 {
            // Each round gives every bio a range of its own, so that the model knows the outcome.
            for stretch in 0..16 {
                let (blocks, slack) = (1 + below(&mut random, 4), below(&mut random, 12));
                let pos = (stretch * 16 + slack) * BLOCK as u64;
                let cuts = cuts(&mut random, blocks as usize, unit(disk));
                let range = pos as usize..pos as usize + blocks as usize * BLOCK;
                let byte = (round * 16 + stretch) as u8 | 1;
                let mut bio = match below(&mut random, 5) {
                    0 | 1 => {
                        model[range].fill(byte);
                        transfer(Op::Write, pos, Pages::new(blocks as usize, byte), &cuts)
                    }
                    2 => {
                        model[range].fill(byte);
                        flags(transfer(Op::Write, pos, Pages::new(blocks as usize, byte), &cuts), Flags::FUA)
                    }
                    3 => {
                        model[range].fill(0);
                        Bio::new(Op::WriteZeroes, pos, blocks * BLOCK as u64)
                    }
                    _ => transfer(Op::Read, pos, Pages::new(blocks as usize, 0xee), &cuts),
                };
                bio.set_token(pos);
                bench.submit(bio);
            }
            let done = bench.finish();
            assert_eq!(done.len(), 16, "{name}");
            for bio in done {
                check(name, bio, &model);
            }
        }
        let whole = bench.one(transfer(Op::Read, 0, Pages::new(SIZE as usize / BLOCK, 0xee), &[]));
        check(name, whole, &model);
    });
}

#[test]
fn bytes_stay_in_order_over_segments() {
    on_all(4, |name, disk, lane_use| {
        let mut bench = disk.lane(4, lane_use);
        let mut pattern = Pages::new(4, 0);
        (0..pattern.len()).for_each(|at| pattern.set(at, (at / 512) as u8 ^ at as u8));
        let may = |cuts: &[usize]| -> Vec<usize> {
            cuts.iter().copied().filter(|cut| cut.is_multiple_of(unit(disk))).collect()
        };
        let write = transfer(Op::Write, 8192, pattern, &may(&[512, 1024, 4096, 5120, 12288]));
        assert_eq!(bench.one(write).status(), Ok(()), "{name}");
        let mut read = bench.one(transfer(Op::Read, 8192, Pages::new(4, 1), &may(&[1536, 8192, 15872])));
        let back = pages(&mut read);
        assert!((0..back.len()).all(|at| back.byte(at) == (at / 512) as u8 ^ at as u8), "{name}");
    });
}

#[test]
fn many_segments_are_one_request() {
    on_all(4, |name, disk, lane_use| {
        let mut bench = disk.lane(4, lane_use);
        let (unit, limits) = (unit(disk), disk.geometry().limits);
        let most = usize::from(limits.max_segments).min(limits.max_transfer as usize / unit).min(256);
        assert!(most == 256 || matches!(disk, Disk::Node(_)), "{name}: {limits:?}");
        let pages = most * unit / BLOCK;
        let cuts: Vec<usize> = (1..pages * BLOCK / unit).map(|i| i * unit).collect();
        let write = transfer(Op::Write, 0, Pages::new(pages, 7), &cuts);
        assert_eq!(bench.one(write).status(), Ok(()), "{name}");
        assert_eq!(bench.lane.counters().dispatches.get(), 1, "{name}");
    });
}

/// A discarded block of a device reads as zeroes or as before. Takes over which.
fn discarded(name: &str, mut read: Bio, before: u8, model: &mut [u8]) {
    assert_eq!(read.status(), Ok(()), "{name}");
    let end = read.pos() as usize;
    let back = pages(&mut read);
    for at in 0..back.len() {
        let byte = back.byte(at);
        assert!(byte == 0 || byte == before, "{name}: {byte} at {at}");
        model[end - back.len() + at] = byte;
    }
}

#[test]
fn flush_discard_and_write_zeroes_work_where_they_are_offered() {
    on_all(4, |name, disk, lane_use| {
        let limits = disk.geometry().limits;
        let mut bench = disk.lane(4, lane_use);
        let written = bench.one(transfer(Op::Write, 0, Pages::new(64, 5), &[]));
        assert_eq!(written.status(), Ok(()), "{name}");
        assert_eq!(bench.one(Bio::flush()).status(), Ok(()), "{name}");
        let is_node = matches!(disk, Disk::Node(_));
        assert!(limits.write_zeroes, "{name}");
        assert!(is_node || limits.discard_granularity > 0, "{name}");
        assert_eq!(bench.one(Bio::new(Op::WriteZeroes, 8192, 65536)).status(), Ok(()), "{name}");
        let mut model = vec![5u8; 64 * BLOCK];
        model[8192..8192 + 65536].fill(0);
        if limits.discard_granularity > 0 {
            assert_eq!(bench.one(Bio::new(Op::Discard, 131_072, 65536)).status(), Ok(()), "{name}");
            model[131_072..131_072 + 65536].fill(0);
            if is_node {
                discarded(
                    name,
                    bench.one(transfer(Op::Read, 131_072, Pages::new(16, 1), &[])),
                    5,
                    &mut model,
                );
            }
        }
        check(name, bench.one(transfer(Op::Read, 0, Pages::new(64, 1), &[])), &model);
    });
}

#[test]
fn each_bio_completes_once_with_many_more_than_the_depth() {
    on_all(4, |name, disk, lane_use| {
        let mut bench = disk.lane(4, lane_use);
        for token in 0..500u64 {
            let mut bio = transfer(Op::Read, token % 256 * BLOCK as u64, Pages::new(1, 0), &[]);
            bio.set_token(token);
            bench.submit(flags(bio, Flags::NOMERGE));
        }
        let mut tokens: Vec<u64> = bench.finish().iter().map(Bio::token).collect();
        tokens.sort_unstable();
        assert!(tokens.iter().copied().eq(0..500), "{name}");
    });
}

/// A queue that assumes a larger depth than the driver has: refusals lose nothing.
#[test]
fn a_full_driver_refuses_and_loses_nothing() {
    on_all(2, |name, disk, lane_use| {
        let mut bench = Bench::new(disk.geometry(), 64, disk.channel(2, lane_use));
        for token in 0..64u64 {
            bench.submit(flags(
                transfer(Op::Write, token * BLOCK as u64, Pages::new(1, token as u8), &[]),
                Flags::NOMERGE,
            ));
        }
        bench.run();
        assert!(bench.lane.queue.in_flight() <= 2, "{name}");
        assert_eq!(bench.finish().len(), 64, "{name}");
        assert!(bench.lane.counters().requeues.get() > 0, "{name}");
        let model: Vec<u8> = (0..64 * BLOCK).map(|at| (at / BLOCK) as u8).collect();
        check(name, bench.one(transfer(Op::Read, 0, Pages::new(64, 1), &[])), &model);
    });
}

#[test]
fn dropping_a_busy_driver_waits_for_the_device() {
    on_all(32, |_, disk, lane_use| {
        for _ in 0..4 {
            let mut bench = disk.lane(32, lane_use);
            for token in 0..32u64 {
                bench.submit(transfer(Op::Read, token * 8192, Pages::new(2, 0), &[512]));
            }
            bench.run();
            // If the memory were still in use, the allocator or the next read would show it.
            drop(bench);
            let mut bench = disk.lane(32, lane_use);
            bench.submit(Bio::new(Op::Discard, 0, 65536));
            bench.submit(Bio::flush());
            bench.run();
            drop(bench);
        }
    });
}

#[test]
fn a_lane_dropped_on_another_thread_waits_too() {
    on_all(8, |name, disk, lane_use| {
        let mut bench = disk.lane(8, lane_use);
        assert_eq!(bench.one(transfer(Op::Write, 0, Pages::new(1, 3), &[])).status(), Ok(()), "{name}");
        for token in 0..8u64 {
            bench.submit(transfer(Op::Write, token * 65536, Pages::new(16, 3), &[]));
        }
        bench.run();
        std::thread::scope(|scope| scope.spawn(move || drop(bench)).join().unwrap());
    });
}

/// A shared lane passes from thread to thread, and the threads exit while their requests are in flight.
#[test]
fn a_shared_lane_survives_the_threads_that_used_it() {
    on_uses(32, &[LaneUse::Shared], |name, disk, lane_use| {
        let mut bench = disk.lane(32, lane_use);
        for round in 0..8u64 {
            std::thread::scope(|scope| {
                let bench = &mut bench;
                scope.spawn(move || {
                    for token in 0..8 {
                        let pos = (round * 8 + token) * 8192;
                        bench.submit(transfer(Op::Write, pos, Pages::new(2, round as u8), &[4096]));
                    }
                    // Slow requests: most have not started when the thread exits.
                    for block in 0..24 {
                        let pos = SIZE - (block + 1) * 8192;
                        bench.submit(flags(Bio::new(Op::WriteZeroes, pos, 4096), Flags::NOMERGE));
                    }
                    bench.submit(Bio::flush());
                    bench.run();
                });
            });
        }
        let done = bench.finish();
        assert_eq!(done.len(), 8 * 33, "{name}");
        done.into_iter().for_each(|bio| assert_eq!(bio.status(), Ok(()), "{name} {bio:?}"));
        let model: Vec<u8> = (0..SIZE / 2).map(|at| (at / 65_536) as u8).collect();
        check(name, bench.one(transfer(Op::Read, 0, Pages::new(128, 9), &[])), &model);
    });
}

/// The wait handle of a driver signals when there is something to reap, also for requests that were in flight
/// before the handle was requested, and for those of the threads besides the ring.
#[test]
fn the_wait_handle_becomes_readable() {
    on_all(8, |name, disk, lane_use| {
        let mut bench = disk.lane(8, lane_use);
        bench.submit(transfer(Op::Read, 0, Pages::new(16, 0), &[]));
        bench.run();
        let mut handles = Vec::new();
        let waits = platter_block::lane::Lane::wait_handles(&bench.lane, &mut handles);
        assert_eq!(waits, handles.len() == 1, "{name}");
        for pos in 0..32u64 {
            let pos = pos * 8192;
            bench.submit(transfer(Op::Write, pos, Pages::new(2, 1), &[]));
            bench.submit(Bio::new(Op::Discard, pos, 4096));
            bench.run();
            while !platter_block::lane::Lane::is_idle(&bench.lane) {
                if let Some(handle) = handles.first() {
                    assert!(readable(*handle), "{name}: nothing came of {:?}", bench.lane.queue.in_flight());
                }
                bench.run();
            }
        }
        assert_eq!(bench.done.len(), 65, "{name}");
    });
}

/// Waits for a descriptor, with a long timeout.
fn readable(fd: i32) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let fd = borrow(fd);
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: 20, tv_nsec: 0 })).unwrap() == 1
}

#[allow(unsafe_code)]
fn borrow(fd: i32) -> std::os::fd::BorrowedFd<'static> {
    // SAFETY: the driver that it belongs to outlives the call.
    unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) }
}

#[test]
fn waiting_with_nothing_to_wait_for_returns() {
    on_files(4, |_, disk, lane_use| {
        // SAFETY: it gets no request.
        let mut driver = unsafe { disk.channel(4, lane_use).into_driver() };
        driver.wait(Time(0), None);
        driver.submit(Time(0));
        let mut done = Vec::new();
        driver.reap(Time(0), &mut done);
        assert!(done.is_empty());
    });
}

#[test]
fn a_file_that_shrank_gives_a_short_read_not_old_bytes() {
    on_files(4, |name, disk, lane_use| {
        let Disk::File(_, Some(file)) = disk else { return };
        let mut bench = disk.lane(4, lane_use);
        file.as_file().set_len(8192).unwrap();
        let over_the_end = bench.one(transfer(Op::Read, 0, Pages::new(4, 1), &[]));
        assert_eq!(over_the_end.done(), 8192, "{name}");
        assert_eq!(over_the_end.status().unwrap_err().kind, Kind::Short, "{name}");
        let past_it = bench.one(transfer(Op::Read, 65536, Pages::new(1, 1), &[]));
        assert_eq!(past_it.status().unwrap_err().kind, Kind::Short, "{name}");
    });
}

#[test]
fn a_priority_that_is_not_allowed_or_known_fails_alike() {
    use platter_block::bio::{Class, IoPrio};
    let outcomes = RefCell::new(Vec::new());
    on_uses(4, &[LaneUse::Shared], |name, disk, lane_use| {
        let mut bench = disk.lane(4, lane_use);
        let mut bio = transfer(Op::Read, 0, Pages::new(1, 1), &[]);
        bio.set_ioprio(IoPrio::new(Class::Idle, 7));
        assert_eq!(bench.one(bio).status(), Ok(()), "{name}");
        let mut bio = transfer(Op::Read, 0, Pages::new(1, 1), &[]);
        bio.set_ioprio(IoPrio::new(Class::RealTime, 0));
        let status = bench.one(bio).status();
        if !matches!(disk, Disk::Ram(_)) {
            outcomes.borrow_mut().push((name.to_owned(), status));
        }
    });
    let outcomes = outcomes.take();
    let first = outcomes[0].1;
    assert!(outcomes.iter().all(|(_, status)| *status == first), "{outcomes:?}");
}
