//! Threads that cannot be started, and requests that are taken back.

use super::{Driver, Threads};
use crate::drivers::testing::{Bench, Rig, errno, transfer};
use crate::wake::ArmedDoorbell;
use platter_block::bio::{Bio, Op};
use platter_block::lane::{Cancel, Lane};
use platter_block::time::Span;
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn threads(rig: &Rig) -> Bench<Threads> {
    let (target, workers) = (Arc::clone(&rig.target), Arc::clone(&rig.workers));
    rig.bench(Threads::new(target, 8, workers, Arc::new(ArmedDoorbell::opened().unwrap())), 8)
}

#[test]
fn requests_wait_for_a_thread_that_the_system_cannot_give_at_the_moment() {
    let rig = Rig::new();
    let mut bench = threads(&rig);
    rig.workers.refusals.store(3, Ordering::Relaxed);
    bench.submit(transfer(Op::Write, 4096, 4096, 7));
    assert_eq!(bench.run(), 0);
    assert_eq!(bench.lane.next_wakeup(), Some(bench.now + Span::from_micros(50)));
    // Another channel of the disk may have asked in the meantime.
    bench.pass(Span::from_micros(49));
    bench.run();
    assert_eq!(rig.workers.refusals.load(Ordering::Relaxed), 2);
    let done = bench.finish();
    assert_eq!((done.len(), done[0].status()), (1, Ok(())));
    assert_eq!(rig.workers.refusals.load(Ordering::Relaxed), 0);
    assert_eq!(bench.lane.next_wakeup(), None);
    assert!(rig.contents()[4096..8192].iter().all(|byte| *byte == 7));
}

/// A thread that sleeps on the descriptor must learn of the pause, or it sleeps without a limit.
#[test]
fn a_pause_wakes_those_that_sleep() {
    let rig = Rig::new();
    let mut bench = threads(&rig);
    let handle = bench.driver().wait_handle().unwrap();
    rig.workers.refusals.store(1, Ordering::Relaxed);
    bench.submit(transfer(Op::Read, 0, 4096, 0));
    bench.run();
    assert!(crate::drivers::testing::is_readable(handle));
    assert_eq!(bench.finish().len(), 1);
}

#[test]
fn a_request_that_no_thread_has_begun_can_be_taken_back() {
    let rig = Rig::new();
    let mut bench = threads(&rig);
    // No request starts, because there is no thread.
    rig.workers.refusals.store(1000, Ordering::Relaxed);
    for block in 0..4 {
        let mut bio = transfer(Op::Write, block * 65536, 4096, 9);
        bio.set_token(block);
        bench.submit(bio);
    }
    bench.run();
    let (now, outstanding) = (bench.now, bench.driver().outstanding().unwrap());
    assert_eq!(outstanding.outstanding(), 4);
    // Through the queue, which would retry a request that is cancelled without its knowledge.
    bench.lane.cancel(now, &Cancel::token(1));
    assert_eq!(outstanding.outstanding(), 3);
    assert!(!bench.driver().cancel(now, 1), "it has been taken back");
    assert!(!bench.driver().cancel(now, 77), "there is no such request");
    rig.workers.refusals.store(0, Ordering::Relaxed);
    let mut done: Vec<Bio> = bench.finish();
    done.sort_by_key(Bio::token);
    let cancelled = done.iter().filter(|bio| errno(bio) == libc::ECANCELED).count();
    let whole = done.iter().filter(|bio| errno(bio) == 0).count();
    assert_eq!((done.len(), cancelled, whole), (4, 1, 3));
    assert_eq!(outstanding.outstanding(), 0);
    let written = (0..4).filter(|block| rig.contents()[block * 65536] == 9).count();
    assert_eq!(written, 3, "what was taken back is not written");
}
