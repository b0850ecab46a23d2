//! Rings on a kernel that refuses calls.

use super::kernel::{Kernel, Setup};
use super::{Uring, UringOptions, probe, setup};
use crate::drivers::testing::{Bench, Rig, errno, transfer};
use crate::wake::{Ended, Sleeper};
use platter_block::backend::LaneUse;
use platter_block::bio::{Bio, Class, Flags, IoPrio, Op};
use platter_block::driver::{Completion, Driver};
use platter_block::fault::Kind;
use platter_block::lane::Lane;
use platter_block::time::Span;
use std::sync::Arc;

/// Whether io_uring is available here; a container may forbid it.
fn is_here() -> bool {
    probe().map_err(|why| eprintln!("skipped: {why}")).is_ok()
}

const WAYS: [LaneUse; 3] = [LaneUse::Exclusive, LaneUse::Synchronous, LaneUse::Shared];

fn ring(rig: &Rig, kernel: &Kernel, lane_use: LaneUse) -> Bench<Uring> {
    let options = UringOptions {
        exclusive: lane_use == LaneUse::Exclusive,
        waits: lane_use == LaneUse::Synchronous,
        ..UringOptions::default()
    };
    let (target, workers) = (Arc::clone(&rig.target), Arc::clone(&rig.workers));
    rig.bench(Uring::on(kernel.clone(), target, 8, options, workers).unwrap(), 8)
}

fn answer(kernel: &Kernel, errnos: &[i32]) {
    let mut script = kernel.script.lock().unwrap();
    script.entries = errnos.iter().copied().collect();
    script.answered = 0;
}

fn answered(kernel: &Kernel) -> usize {
    kernel.script.lock().unwrap().answered
}

fn write(block: u64, byte: u8) -> Bio {
    transfer(Op::Write, block * 4096, 4096, byte)
}

const PASSING: [i32; 4] = [libc::EAGAIN, libc::ENOMEM, libc::EBUSY, libc::EINTR];

#[test]
fn what_the_kernel_has_no_resources_for_is_submitted_again_after_a_pause() {
    if !is_here() {
        return;
    }
    for (errno, lane_use) in PASSING.into_iter().flat_map(|errno| WAYS.map(|way| (errno, way))) {
        let (rig, kernel) = (Rig::new(), Kernel::default());
        let mut bench = ring(&rig, &kernel, lane_use);
        answer(&kernel, &[errno; 3]);
        bench.submit(write(1, 7));
        assert_eq!((bench.run(), answered(&kernel)), (0, 1));
        // A sleeping thread is told when to come back, although nothing in flight could wake it.
        let mut pause = Span::from_micros(50);
        for tries in 2..=3 {
            assert_eq!(bench.lane.next_wakeup(), Some(bench.now + pause), "errno {errno}");
            bench.pass(Span(pause.0 - 1));
            bench.run();
            assert_eq!(answered(&kernel), tries - 1, "errno {errno}: not before the pause is over");
            bench.pass(Span(1));
            bench.run();
            assert_eq!(answered(&kernel), tries, "errno {errno}");
            pause = Span(pause.0 * 2);
        }
        assert!(!bench.driver().is_dead());
        bench.pass(pause);
        let done = bench.finish();
        assert_eq!((done.len(), done[0].status()), (1, Ok(())), "errno {errno}");
        assert!(rig.contents()[4096..8192].iter().all(|byte| *byte == 7));
        assert_eq!(bench.lane.next_wakeup(), None);
    }
}

/// A wait on a ring whose entries the kernel does not take ends with the pause, even if the caller would wait longer.
#[test]
fn a_wait_without_resources_ends_and_loses_nothing() {
    if !is_here() {
        return;
    }
    for (errno, lane_use) in PASSING.into_iter().flat_map(|errno| WAYS.map(|way| (errno, way))) {
        let (rig, kernel) = (Rig::new(), Kernel::default());
        let mut bench = ring(&rig, &kernel, lane_use);
        // Some that the kernel has, and some that it does not take.
        (0..4).for_each(|block| bench.submit(write(block, 1)));
        bench.run();
        answer(&kernel, &[errno; 5]);
        (4..8).for_each(|block| bench.submit(write(block, 1)));
        let done = bench.finish();
        assert_eq!(done.len(), 8, "errno {errno}");
        assert!(done.iter().all(|bio| bio.status().is_ok()), "errno {errno}");
        assert_eq!(answered(&kernel), 5, "errno {errno}");
    }
}

/// An error that no ring survives: requests that the kernel has complete, the others fail, and the owner can see that
/// the channel is unusable.
#[test]
fn a_ring_that_cannot_be_entered_any_more_is_dead() {
    if !is_here() {
        return;
    }
    for lane_use in WAYS {
        let (rig, kernel) = (Rig::new(), Kernel::default());
        let mut bench = ring(&rig, &kernel, lane_use);
        (0..3).for_each(|block| bench.submit(write(block, 1)));
        bench.run();
        answer(&kernel, &[libc::EBADF; 1000]);
        (3..6).for_each(|block| bench.submit(write(block, 1)));
        bench.submit(Bio::flush());
        let done = bench.finish();
        assert_eq!(done.len(), 7);
        assert!(bench.driver().is_dead());
        for bio in &done {
            let refused = bio.op() == Op::Flush || bio.pos() - bio.done() >= 3 * 4096;
            // Completions that only the owner of the ring can fetch are lost with it.
            match (refused, lane_use == LaneUse::Exclusive) {
                (true, _) => assert_eq!(errno(bio), libc::EBADF, "{bio:?}"),
                (false, true) => assert!([0, libc::EBADF].contains(&errno(bio)), "{bio:?}"),
                (false, false) => assert_eq!(errno(bio), 0, "{bio:?}"),
            }
        }
        // A dead channel has a descriptor that always wakes, and fails every request.
        let mut handles = Vec::new();
        assert!(bench.lane.wait_handles(&mut handles) && handles.len() == 1);
        bench.submit(write(7, 1));
        assert_eq!(errno(&bench.finish()[0]), libc::EBADF);
    }
}

/// A filter of system calls that comes into force later is no sign of a read-only device.
#[test]
fn a_ring_that_may_not_be_entered_any_more_is_not_permitted_rather_than_read_only() {
    if !is_here() {
        return;
    }
    for lane_use in WAYS {
        let (rig, kernel) = (Rig::new(), Kernel::default());
        let mut bench = ring(&rig, &kernel, lane_use);
        answer(&kernel, &[libc::EPERM; 1000]);
        bench.submit(write(0, 1));
        bench.submit(transfer(Op::Read, 4096, 4096, 0));
        let done = bench.finish();
        assert_eq!(done.len(), 2);
        for bio in done {
            assert_eq!(bio.status().unwrap_err().kind, Kind::Refused, "{bio:?}");
        }
        assert!(bench.driver().is_dead());
    }
}

/// The disk still has a request of a dead ring. The lane sleeps until it answers.
#[test]
fn a_dead_ring_sleeps_while_the_disk_has_a_request() {
    if !is_here() {
        return;
    }
    for lane_use in WAYS {
        let (rig, kernel) = (Rig::new(), Kernel::default());
        let mut bench = ring(&rig, &kernel, lane_use);
        answer(&kernel, &[libc::EBADF; 1000]);
        bench.submit(write(0, 1));
        assert_eq!(errno(&bench.finish()[0]), libc::EBADF);
        let driver = bench.driver();
        assert!(driver.is_dead());
        // As if it had one that does not come back.
        driver.taken = 1;
        assert_eq!(driver.next_event(), None);
        if driver.ring.is_some() {
            let handle = driver.wait_handle().unwrap();
            assert!(!crate::drivers::testing::is_readable(handle));
        }
        driver.ready.push(Completion { tag: 0, result: 0 });
        assert!(driver.next_event().is_some());
        (driver.taken, driver.ready) = (0, Vec::new());
    }
}

/// Features that kernels before 5.18, 5.19, 6.1 and 6.6 refuse.
fn old_kernels() -> [fn(&Setup) -> bool; 4] {
    [
        |setup| setup.submit_all || setup.cooperative || setup.deferred || setup.no_array,
        |setup| setup.cooperative || setup.deferred || setup.no_array,
        |setup| setup.deferred || setup.no_array,
        |setup| setup.no_array,
    ]
}

#[test]
fn rings_work_without_what_older_kernels_lack() {
    if !is_here() {
        return;
    }
    for (age, refuses) in old_kernels().into_iter().enumerate() {
        for lane_use in WAYS {
            let (rig, kernel) = (Rig::new(), Kernel::default());
            kernel.script.lock().unwrap().refuses = Some(refuses);
            let mut bench = ring(&rig, &kernel, lane_use);
            for block in 0..32 {
                let mut bio = write(block, block as u8 + 1);
                bio.add_flags(Flags::NOMERGE);
                if block % 5 == 2 {
                    // No class, but a level: an entry that the kernel refuses as a whole.
                    bio.set_ioprio(IoPrio::new(Class::None, 3));
                }
                bench.submit(bio);
            }
            let done = bench.finish();
            assert_eq!(done.len(), 32, "kernel {age}");
            for bio in &done {
                let block = (bio.pos() - bio.done()) / 4096;
                let expected = if block % 5 == 2 { libc::EINVAL } else { 0 };
                assert_eq!(errno(bio), expected, "kernel {age}, block {block}");
            }
            bench.submit(Bio::flush());
            assert_eq!(bench.finish()[0].status(), Ok(()));
            assert_eq!(rig.contents()[4096], 2, "kernel {age}");
        }
    }
}

#[test]
fn a_probe_says_what_is_missing_and_since_when_it_is_there() {
    if !is_here() {
        return;
    }
    let missing: Vec<String> = old_kernels()
        .into_iter()
        .map(|refuses| {
            let kernel = Kernel::default();
            kernel.script.lock().unwrap().refuses = Some(refuses);
            let said = setup::probe(&kernel).unwrap().to_string();
            said.split_once("without ").map_or(String::new(), |(_, missing)| missing.to_owned())
        })
        .collect();
    assert!(missing[0].contains("batches past bad entries (Linux 5.18)"), "{missing:?}");
    assert!(missing[1].contains("completions without interrupts (Linux 5.19)"), "{missing:?}");
    assert!(missing[2].contains("deferred completions (Linux 6.1)"), "{missing:?}");
    assert!(missing[3].contains("no index array (Linux 6.6)"), "{missing:?}");
    let kernel = Kernel::default();
    kernel.script.lock().unwrap().refuses = Some(|_| true);
    assert_eq!(setup::probe(&kernel).unwrap_err().raw_os_error(), Some(libc::EINVAL));
}

/// A filter of system calls may let a program set up rings and not use them.
#[test]
fn a_probe_finds_that_rings_cannot_be_entered() {
    if !is_here() {
        return;
    }
    let kernel = Kernel::default();
    answer(&kernel, &[libc::EINTR, libc::EPERM]);
    assert_eq!(setup::probe(&kernel).unwrap_err().raw_os_error(), Some(libc::EPERM));
    assert_eq!(answered(&kernel), 2);
}

/// A polling ring accepts only direct I/O. Transfers through the page cache, in the page that contains the odd end of
/// a file, must not reach it.
#[test]
fn the_odd_end_of_a_file_goes_past_a_polling_ring() {
    if !is_here() {
        return;
    }
    let size = 8 * 4096 + 1024 + 100;
    let rig = Rig::of(size);
    if rig.target.is_cached() {
        return eprintln!("skipped: no direct I/O here");
    }
    let options = UringOptions { iopoll: true, ..UringOptions::default() };
    let (target, workers) = (Arc::clone(&rig.target), Arc::clone(&rig.workers));
    let mut bench = rig.bench(Uring::on(Kernel::default(), target, 8, options, workers).unwrap(), 8);
    bench.submit(transfer(Op::Write, 8 * 4096, 512, 5));
    bench.submit(transfer(Op::Write, 8 * 4096 + 1024, 100, 6));
    bench.submit(Bio::flush());
    let done = bench.finish();
    assert!(done.len() == 3 && done.iter().all(|bio| bio.status().is_ok()), "{done:?}");
    let contents = rig.contents();
    assert_eq!((contents.len() as u64, contents[8 * 4096], contents[8 * 4096 + 1024]), (size, 5, 6));
    // A request across the beginning of that page is cut there. Its direct part goes to the ring, and needs a device
    // that polls.
    bench.submit(transfer(Op::Read, 7 * 4096, 4096 + 512, 0));
    let crossing = bench.finish();
    assert!(crossing[0].status().is_ok() || errno(&crossing[0]) == libc::EOPNOTSUPP, "{crossing:?}");
}

/// What the threads do for a polling ring wakes those who sleep on its descriptor.
#[test]
fn threads_wake_who_watches_a_polling_ring() {
    if !is_here() {
        return;
    }
    for exclusive in [true, false] {
        let rig = Rig::new();
        let options = UringOptions { iopoll: true, exclusive, ..UringOptions::default() };
        let (target, workers) = (Arc::clone(&rig.target), Arc::clone(&rig.workers));
        let mut bench = rig.bench(Uring::on(Kernel::default(), target, 8, options, workers).unwrap(), 8);
        let mut sleeper = Sleeper::default();
        for round in 0..8 {
            bench.submit(Bio::new(Op::WriteZeroes, round * 4096, 4096));
            bench.submit(Bio::flush());
            while bench.run() < 2 {
                sleeper.handles.clear();
                assert!(bench.lane.wait_handles(&mut sleeper.handles));
                let ended = sleeper.sleep(true, Some(Span::from_secs(20)));
                assert_ne!(ended, Ended::TimedOut, "round {round}: nothing wakes the sleeper");
            }
            let done = bench.finish();
            assert!(done.len() == 2 && done.iter().all(|bio| bio.status().is_ok()), "{done:?}");
        }
        // Idle, it lets a sleeper sleep.
        sleeper.handles.clear();
        assert!(bench.lane.wait_handles(&mut sleeper.handles));
        while crate::drivers::testing::is_readable(sleeper.handles[0]) {
            sleeper.handles.clear();
            assert!(bench.lane.wait_handles(&mut sleeper.handles));
        }
    }
}
