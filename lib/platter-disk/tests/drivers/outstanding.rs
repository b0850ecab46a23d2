//! How other threads see a channel's requests.

use crate::bench::{BLOCK, Disk, Pages, SIZE, flags, on_all, transfer};
use platter_block::backend::LaneUse;
use platter_block::bio::{Flags, Op};
use platter_block::driver::{Driver, Outstanding};
use platter_block::lane::Lane;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

const DEPTH: u32 = 16;

/// Rings that post completions only to their owner cannot be seen; everything else can.
fn is_seen(name: &str, lane_use: LaneUse, outstanding: &Option<Arc<dyn Outstanding>>) -> bool {
    let owner_only = name.starts_with("uring") && !name.contains("sqpoll") && lane_use == LaneUse::Exclusive;
    assert!(outstanding.is_some() || owner_only, "{name}");
    outstanding.is_some()
}

/// Gives a file space for all writes: otherwise some may have to move to a thread, which only the channel's owner does.
fn allocate(disk: &Disk) {
    if let Disk::File(_, Some(file)) = disk {
        file.as_file().write_all_at(&[0; SIZE as usize], 0).unwrap();
    }
}

/// Writes to a file with holes may need the owner to complete. A driver with such writes must not show them at all:
/// others would wait for a completion that is never seen.
#[test]
fn requests_that_only_their_owner_can_complete_are_not_shown() {
    on_all(DEPTH, |name, disk, lane_use| {
        let mut bench = disk.lane(DEPTH, lane_use);
        let Some(outstanding) = bench.lane.driver().outstanding() else { return };
        for block in 0..u64::from(DEPTH) {
            let bio = transfer(Op::Write, block * 2 * BLOCK as u64, Pages::new(1, 1), &[]);
            bench.submit(flags(bio, Flags::NOMERGE));
        }
        bench.run();
        let began = Instant::now();
        while outstanding.outstanding() > 0 {
            assert!(began.elapsed() < Duration::from_secs(30), "{name}: they are shown and not complete");
            std::thread::yield_now();
        }
        assert!(bench.finish().iter().all(|bio| bio.status().is_ok()), "{name}");
    });
}

/// Completions of the device are visible although no thread reaps them.
#[test]
fn requests_that_nobody_reaps_are_seen_to_be_done() {
    on_all(DEPTH, |name, disk, lane_use| {
        allocate(disk);
        let mut bench = disk.lane(DEPTH, lane_use);
        let outstanding = bench.lane.driver().outstanding();
        if !is_seen(name, lane_use, &outstanding) {
            return;
        }
        let outstanding = outstanding.unwrap();
        for round in 0..20u64 {
            assert_eq!(outstanding.outstanding(), 0, "{name}");
            for block in 0..u64::from(DEPTH) {
                let op = if (block + round) % 3 == 0 { Op::Read } else { Op::Write };
                let bio = transfer(op, (block * 2 + round % 2) * BLOCK as u64, Pages::new(1, 1), &[]);
                bench.submit(flags(bio, Flags::NOMERGE));
            }
            bench.run();
            while outstanding.outstanding() > 0 {
                std::thread::yield_now();
            }
            // What a driver carries out itself is reaped in the round that starts it.
            let left = if bench.lane.driver().is_prompt() { 0 } else { DEPTH };
            assert_eq!(bench.lane.in_flight(), left, "{name}");
            let done = bench.finish();
            assert!(done.iter().all(|bio| bio.status().is_ok()), "{name}");
        }
    });
}

/// Ends the other thread also when the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Another thread asks all the time. Whenever it sees no outstanding requests, the next reaps must return all requests
/// that had been queued before it asked: as many reaps as there are until one returns nothing, because a driver may
/// return a part at a time.
#[test]
fn what_is_outstanding_is_never_too_low() {
    on_all(DEPTH, |name, disk, lane_use| {
        allocate(disk);
        let mut bench = disk.lane(DEPTH, lane_use);
        let outstanding = bench.lane.driver().outstanding();
        if !is_seen(name, lane_use, &outstanding) {
            return;
        }
        let outstanding = outstanding.unwrap();
        let (queued, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        let (claims, heard) = channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::SeqCst) {
                    let before = queued.load(Ordering::SeqCst);
                    if outstanding.outstanding() == 0 {
                        claims.send(before).unwrap();
                    }
                    std::thread::yield_now();
                }
            });
            let _stop = Stop(&stop);
            let (mut count, mut completed) = (0u64, 0u64);
            for round in 0..400u64 {
                for block in 0..round % 7 {
                    let pos = (round + block * 31) % 200 * BLOCK as u64;
                    let op = if round % 2 == 0 { Op::Read } else { Op::Write };
                    bench.submit(flags(transfer(op, pos, Pages::new(1, 1), &[]), Flags::NOMERGE));
                    count += 1;
                }
                if bench.lane.in_flight() < DEPTH {
                    bench.run();
                }
                // Requests with the driver; the queue holds the rest.
                queued.store(
                    completed + bench.done.len() as u64 + u64::from(bench.lane.in_flight()),
                    Ordering::SeqCst,
                );
                let claimed: Option<u64> = heard.try_iter().max();
                if let Some(before) = claimed {
                    let mut reaped = usize::MAX;
                    while reaped != bench.done.len() {
                        reaped = bench.done.len();
                        bench.run();
                    }
                    let seen = completed + bench.done.len() as u64;
                    assert!(seen >= before, "{name}: {seen} completed of {before} that were said to be");
                }
            }
            completed += bench.finish().len() as u64;
            assert_eq!(completed, count, "{name}");
        });
        assert_eq!(outstanding.outstanding(), 0, "{name}");
    });
}
