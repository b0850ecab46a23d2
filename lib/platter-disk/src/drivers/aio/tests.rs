//! Native AIO on a kernel without resources, and its counts.

use super::{Aio, Driver, probe};
use crate::drivers::testing::{Bench, Rig, transfer};
use platter_block::bio::{Bio, Op};
use platter_block::lane::Lane;
use platter_block::time::Span;
use std::sync::Arc;

fn is_here() -> bool {
    probe().map_err(|why| eprintln!("skipped: {why}")).is_ok()
}

fn aio(rig: &Rig) -> Bench<Aio> {
    rig.bench(Aio::new(Arc::clone(&rig.target), 8, Arc::clone(&rig.workers)).unwrap(), 8)
}

fn answer(bench: &mut Bench<Aio>, errnos: &[i32]) {
    *bench.driver().context.script.lock().unwrap() = errnos.iter().copied().collect();
}

#[test]
fn what_the_kernel_has_no_resources_for_is_submitted_again_after_a_pause() {
    if !is_here() {
        return;
    }
    for errno in [libc::EAGAIN, libc::ENOMEM] {
        let rig = Rig::new();
        let mut bench = aio(&rig);
        let handle = bench.driver().wait_handle().unwrap();
        answer(&mut bench, &[errno; 2]);
        bench.submit(transfer(Op::Write, 4096, 4096, 7));
        assert_eq!(bench.run(), 0);
        // Threads that sleep on the descriptor are woken, so that they wake without it after the pause.
        assert!(crate::drivers::testing::is_readable(handle));
        assert_eq!(bench.lane.next_wakeup(), Some(bench.now + Span::from_micros(50)), "errno {errno}");
        bench.pass(Span::from_micros(50));
        bench.run();
        assert_eq!(bench.lane.next_wakeup(), Some(bench.now + Span::from_micros(100)), "errno {errno}");
        let done = bench.finish();
        assert_eq!((done.len(), done[0].status()), (1, Ok(())), "errno {errno}");
        assert_eq!(bench.lane.next_wakeup(), None);
        assert!(rig.contents()[4096..8192].iter().all(|byte| *byte == 7));
    }
}

#[test]
fn an_interrupted_submission_is_made_again_at_once() {
    if !is_here() {
        return;
    }
    let rig = Rig::new();
    let mut bench = aio(&rig);
    answer(&mut bench, &[libc::EINTR; 3]);
    bench.submit(transfer(Op::Read, 0, 4096, 0));
    bench.run();
    assert!(bench.driver().context.script.lock().unwrap().is_empty());
    assert_eq!(bench.lane.next_wakeup(), None);
    assert_eq!(bench.finish()[0].status(), Ok(()));
}

/// A write into a hole is carried out by a thread, because the submission would wait for the file system to allocate
/// space.
#[test]
fn writes_that_would_block_the_submitter_are_done_by_threads() {
    if !is_here() {
        return;
    }
    let rig = Rig::sparse();
    let mut bench = aio(&rig);
    for round in 0..2u8 {
        for block in 0..32 {
            bench.submit(transfer(Op::Write, block * 8192, 4096, round + 1));
        }
        let done = bench.finish();
        assert!(done.len() == 32 && done.iter().all(|bio| bio.status().is_ok()));
    }
    bench.submit(Bio::flush());
    assert_eq!(bench.finish()[0].status(), Ok(()));
    let contents = rig.contents();
    assert!((0..32).all(|block| contents[block * 8192] == 2 && contents[block * 8192 + 4096] == 0));
}

/// A reused context keeps nothing of its last user, even if that listened to threads.
#[test]
fn a_channel_that_is_dropped_leaves_a_clean_context() {
    if !is_here() {
        return;
    }
    let rig = Rig::new();
    for _ in 0..8 {
        let mut bench = aio(&rig);
        bench.submit(Bio::new(Op::Discard, 0, 65536));
        bench.submit(transfer(Op::Read, 0, 65536, 0));
        bench.run();
        drop(bench);
        let mut bench = aio(&rig);
        bench.submit(transfer(Op::Read, 65536, 4096, 0));
        let done = bench.finish();
        assert_eq!((done.len(), done[0].status()), (1, Ok(())));
    }
}

/// The poll request for a first request of the threads was made before any thread slept on the handle, so its end does not show
/// there, and it is still out when that request is over. It then is the only one for the next request too, for which a thread
/// sleeps: that one is looked for in time.
#[test]
fn a_request_for_the_threads_behind_a_poll_that_does_not_signal_is_looked_for() {
    if !is_here() {
        return;
    }
    let rig = Rig::new();
    let mut bench = aio(&rig);
    bench.submit(Bio::new(Op::Discard, 0, 65536));
    assert_eq!(bench.run(), 0);
    let (now, mut completions) = (bench.now, Vec::new());
    while bench.driver().side.in_flight() > 0 {
        bench.driver().side.reap(now, &mut completions);
        std::thread::yield_now();
    }
    assert!(bench.driver().side.is_listening() && bench.driver().unwatched == 1);
    for completion in completions {
        assert_eq!(bench.lane.queue.complete(now, completion), Ok(()));
    }
    assert_eq!(bench.lane.queue.in_flight(), 0);
    bench.driver().wait_handle().unwrap();
    assert_eq!(bench.lane.next_wakeup(), None, "nothing is in flight");
    bench.submit(Bio::new(Op::Discard, 65536, 65536));
    bench.run();
    assert_eq!(bench.lane.next_wakeup(), Some(bench.now + Span::from_micros(50)));
    assert!(bench.finish().iter().all(|bio| bio.status().is_ok()));
}

/// The kernel's signals are counted, so that the handle is cleared as often as it must be, and no oftener.
#[test]
fn the_handle_is_unreadable_once_everything_has_been_reaped() {
    if !is_here() {
        return;
    }
    let rig = Rig::new();
    let mut bench = aio(&rig);
    let handle = bench.driver().wait_handle().unwrap();
    for _ in 0..50 {
        for block in 0..4 {
            bench.submit(transfer(Op::Read, block * 4096, 4096, 0));
        }
        assert_eq!(bench.finish().len(), 4);
        // The kernel signals after it has posted the event, so the last signal may still come.
        while bench.driver().signals.load(std::sync::atomic::Ordering::Relaxed) > 0 {
            let (now, mut done) = (bench.now, Vec::new());
            bench.driver().reap(now, &mut done);
            assert!(done.is_empty());
        }
        assert!(!crate::drivers::testing::is_readable(handle));
    }
}

/// An idle channel is not run, so asking for its handle must leave that unreadable: threads that sleep on it would
/// otherwise wake again and again.
#[test]
fn the_handle_of_an_idle_channel_is_unreadable() {
    if !is_here() {
        return;
    }
    let rig = Rig::new();
    let mut bench = aio(&rig);
    let handle = bench.driver().wait_handle().unwrap();
    assert!(!crate::drivers::testing::is_readable(handle));
    for block in 0..4 {
        bench.submit(transfer(Op::Read, block * 4096, 4096, 0));
    }
    assert_eq!(bench.finish().len(), 4);
    let mut asked = false;
    // A signal may come after its event was reaped.
    while !asked || bench.driver().signals.load(std::sync::atomic::Ordering::Relaxed) > 0 {
        bench.driver().wait_handle();
        asked = true;
    }
    assert!(!crate::drivers::testing::is_readable(handle));
}

/// A request was made before the handle was asked for, and does not signal it. While it takes, sleepers look for it now and
/// then, and do not spin.
#[test]
fn what_does_not_signal_the_handle_keeps_no_sleeper_awake() {
    if !is_here() {
        return;
    }
    let rig = Rig::new();
    let mut bench = aio(&rig);
    answer(&mut bench, &[libc::EAGAIN]);
    bench.submit(transfer(Op::Read, 0, 4096, 0));
    assert_eq!(bench.run(), 0);
    let handle = bench.driver().wait_handle().unwrap();
    assert!(crate::drivers::testing::is_readable(handle), "a thread that asks then runs the channel");
    assert_eq!(bench.run(), 0);
    assert!(!crate::drivers::testing::is_readable(handle));
    assert!(bench.driver().nap.until().is_some());
    assert!(bench.lane.next_wakeup().is_some_and(|at| at > bench.now));
    assert_eq!(bench.finish()[0].status(), Ok(()));
    assert_eq!(bench.lane.next_wakeup(), None);
    assert!(!crate::drivers::testing::is_readable(handle));
}
