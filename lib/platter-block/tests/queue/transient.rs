//! Errors that say nothing about the disk.

use crate::flush::{BACK, THROUGH};
use crate::rig::{Io, Rig, elevators};
use platter_block::bio::{Flags, Op};
use platter_block::driver::Completion;
use platter_block::fault::Kind;
use platter_block::lane::{Cancel, Lane};
use platter_block::queue::{FIRST_PAUSE, RETRIES, Settings};
use platter_block::time::Span;

const EINTR: i64 = 4;
const EAGAIN: i64 = 11;
const ENOMEM: i64 = 12;
const ECANCELED: i64 = 125;
const ALL: [i64; 4] = [EINTR, EAGAIN, ENOMEM, ECANCELED];

/// Starts the queued requests; the disk then has one.
fn start(rig: &mut Rig) {
    rig.lane.queue.unplug_for_waiter(rig.now);
    rig.run();
    assert_eq!(rig.disk().held.len(), 1);
}

#[test]
fn an_error_that_passes_is_tried_again_after_a_pause() {
    for elevator in elevators() {
        for errno in ALL {
            for io in [Io::read(0, 4096), Io::write(0, 4096), Io::new(Op::Discard, 0, 4096), Io::flush()] {
                let mut rig = Rig::manual(elevator, Settings::default(), BACK);
                let token = rig.submit(io);
                start(&mut rig);
                rig.disk().finish_with(0, -errno);
                rig.run();
                assert!(!rig.is_done(token) && rig.disk().held.is_empty(), "{elevator} {errno}");
                assert_eq!(rig.lane.next_wakeup(), Some(rig.now + FIRST_PAUSE));
                rig.pass();
                assert_eq!(rig.disk().held.len(), 1, "{elevator} {errno}");
                rig.drain();
                assert_eq!(rig.result(token), Ok(()), "{elevator} {errno}");
                assert_eq!(rig.lane.queue.flush_failure(), None);
            }
        }
    }
}

#[test]
fn attempts_are_bounded_in_number_and_time() {
    for (io, kind) in [(Io::read(0, 4096), Kind::NoMemory), (Io::flush(), Kind::NoMemory)] {
        let mut rig = Rig::manual("none", Settings::default(), BACK);
        let begin = rig.now;
        let token = rig.submit(io.clone());
        rig.run();
        let mut attempts = 0;
        while !rig.is_done(token) {
            assert_eq!(rig.lane.queue.flush_failure(), None, "not before the bound");
            rig.disk().finish_with(0, -ENOMEM);
            attempts += 1;
            rig.run();
            if !rig.is_done(token) {
                rig.pass();
            }
        }
        assert_eq!((attempts, rig.failure(token)), (u32::from(RETRIES) + 1, Some(kind)));
        assert_eq!(rig.now, begin + Span(FIRST_PAUSE.0 * ((1 << RETRIES) - 1)), "pauses double");
        assert_eq!(rig.lane.queue.flush_failure().is_some(), io.op == Op::Flush);
        rig.check_idle();
    }
}

/// What the device does not begin, because a request that it must follow has failed on a queue that does not know yet,
/// is sent again for as long as a barrier waits, with pauses that stay short, and then fails as a barrier does.
#[test]
fn what_waits_for_another_queue_is_tried_as_long_as_a_barrier_waits() {
    for (elevator, whole) in
        elevators().into_iter().flat_map(|name| [50, 30_000, 3_600_000].map(|ms| (name, ms)))
    {
        let whole = Span::from_millis(whole);
        let settings = Settings { barrier_timeout: whole, ..Settings::default() };
        let mut rig = Rig::manual(elevator, settings, THROUGH);
        let begin = rig.now;
        let token = rig.submit(Io::write(0, 4096));
        start(&mut rig);
        while !rig.is_done(token) {
            rig.disk().finish_with(0, Completion::ABORTED);
            let before = rig.now;
            rig.run();
            if !rig.is_done(token) {
                rig.pass();
                let most = FIRST_PAUSE.0.max(whole.0 / 100);
                assert!(rig.now.since(before).0 <= most, "{elevator}: {:?}", rig.now.since(before));
            }
        }
        let waited = rig.now.since(begin);
        assert_eq!(rig.failure(token), Some(Kind::Unsettled), "{elevator}");
        assert!(waited >= whole && waited.0 <= whole.0 + whole.0 / 50, "{elevator}: {waited:?} of {whole:?}");
        rig.check_idle();
    }
}

/// A completed part is progress: the rest gets all its attempts again.
#[test]
fn progress_begins_the_count_anew() {
    let mut rig = Rig::manual("none", Settings::default(), THROUGH);
    let token = rig.submit(Io::read(0, 4096));
    rig.run();
    for round in 0..3 {
        for _ in 0..RETRIES {
            rig.disk().finish_with(0, -EINTR);
            rig.run();
            rig.pass();
        }
        let left = 4096 - round * 512;
        assert_eq!(rig.disk().held[0].len, left);
        rig.disk().finish_with(0, 512);
        rig.run();
    }
    rig.drain();
    assert_eq!(rig.result(token), Ok(()));
}

/// Each bio of a merged request is retried alone, at once; only a bio that fails alone pauses.
#[test]
fn a_merged_request_is_tried_bio_by_bio() {
    for elevator in elevators() {
        let mut rig = Rig::manual(elevator, Settings::default(), THROUGH);
        let tokens: Vec<u64> = (0..4).map(|i| rig.submit(Io::write(i * 512, 512))).collect();
        start(&mut rig);
        rig.disk().finish_with(0, -EINTR);
        rig.run();
        assert_eq!(rig.disk().held.len(), 4, "{elevator}");
        rig.disk().finish_with(1, -EINTR);
        rig.disk().finish_all();
        rig.run();
        let done: Vec<bool> = tokens.iter().map(|&token| rig.is_done(token)).collect();
        assert_eq!(done, [true, false, true, true], "{elevator}");
        rig.drain();
    }
}

#[test]
fn readahead_would_rather_fail_than_wait() {
    let mut rig = Rig::manual("none", Settings::default(), THROUGH);
    let token = rig.submit(Io::read(0, 4096).with(Flags::READAHEAD));
    rig.run();
    rig.disk().finish_with(0, -EAGAIN);
    rig.run();
    assert_eq!(rig.failure(token), Some(Kind::WouldBlock));
}

#[test]
fn a_bio_that_pauses_holds_up_a_barrier() {
    for elevator in elevators() {
        let mut rig = Rig::manual(elevator, Settings::default(), THROUGH);
        let pausing = rig.submit(Io::read(0, 4096));
        let late = rig.submit(Io::read(16384, 4096));
        rig.lane.queue.unplug_for_waiter(rig.now);
        while rig.disk().held.len() < 2 {
            rig.run();
        }
        for _ in 0..2 {
            rig.disk().finish_with(0, -EAGAIN);
        }
        let barrier = rig.submit(Io::flush().with(Flags::HARD_BARRIER));
        rig.run();
        assert!(!rig.is_done(barrier) && !rig.lane.queue.is_settled(), "{elevator}");
        rig.late(late);
        rig.run();
        assert_eq!(rig.failure(late), Some(Kind::TimedOut), "{elevator}");
        assert!(!rig.is_done(barrier));
        rig.drain();
        assert_eq!((rig.result(pausing), rig.result(barrier)), (Ok(()), Ok(())));
    }
}

/// A cancelled bio is not retried, and neither is one that a barrier has counted as complete.
#[test]
fn a_bio_with_a_last_attempt_gets_no_other() {
    for elevator in elevators() {
        for result in [-ECANCELED, -EINTR, 512, -5] {
            for counted in [false, true] {
                let mut rig = Rig::manual(elevator, Settings::default(), THROUGH);
                let token = rig.submit(Io::read(0, 4096));
                start(&mut rig);
                match counted {
                    true => rig.lane.queue.count_as_complete(),
                    false => rig.lane.cancel(rig.now, &Cancel::token(token)),
                }
                rig.run();
                assert!(!rig.is_done(token));
                rig.disk().finish_with(0, result);
                rig.run();
                let kind = match result {
                    -125 => Kind::Cancelled,
                    512 => Kind::Short,
                    _ => Kind::Io,
                };
                assert_eq!(rig.failure(token), Some(kind), "{elevator}");
                rig.check_idle();
            }
        }
    }
}

/// A merged request that a barrier has counted fails as a whole: none of its bios may be retried.
#[test]
fn a_merged_request_that_was_counted_is_not_taken_apart() {
    let mut rig = Rig::manual("none", Settings::default(), THROUGH);
    let tokens: Vec<u64> = (0..4).map(|i| rig.submit(Io::read(i * 512, 512))).collect();
    start(&mut rig);
    rig.lane.queue.count_as_complete();
    rig.disk().finish_with(0, 1024);
    rig.run();
    let kinds: Vec<Option<Kind>> = tokens.iter().map(|&token| rig.failure(token)).collect();
    assert_eq!(kinds, [None, None, Some(Kind::Short), Some(Kind::Short)]);
    rig.check_idle();
}
