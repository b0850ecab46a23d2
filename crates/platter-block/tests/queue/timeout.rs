//! Requests that take too long: the bio fails, and its memory stays with the driver.

use crate::disk::{FakeDisk, Mode};
use crate::flush::{BACK, THROUGH};
use crate::rig::{Io, Rig, elevators, make_elevator};
use platter_block::bio::{Flags, Op};
use platter_block::driver::Features;
use platter_block::fault::Kind;
use platter_block::limits::Limits;
use platter_block::queue::Settings;
use platter_block::time::Span;

/// The timeout, and the time at which it ends, as bios keep their deadlines in steps of 1,024 ns.
pub(crate) const SECOND: Span = Span::from_secs(1);
pub(crate) const LATE: Span = Span(SECOND.0 + 1024);

pub(crate) fn rig(elevator: &str, features: Features) -> Rig {
    let limits = Limits::unlimited(512).with_max_transfer(4096);
    let mut disk = FakeDisk::new(1 << 20, limits, features, 1);
    disk.mode = Mode::Manual;
    let settings = Settings { timeout: Some(SECOND), plug: None, ..Settings::default() };
    Rig::with(disk, settings, make_elevator(elevator))
}

/// Submits an I/O and starts it.
pub(crate) fn submit(rig: &mut Rig, io: Io) -> u64 {
    let token = rig.submit(io);
    rig.run();
    token
}

/// Lets the timeout pass; the bio must fail with it and its memory must still exist.
pub(crate) fn expire(rig: &mut Rig, token: u64) {
    let at = rig.lane.queue.next_wakeup().expect("a timeout");
    assert!(at <= rig.now + LATE);
    rig.now = at;
    rig.run();
    assert_eq!(rig.result(token).map_err(|fault| fault.kind), Err(Kind::TimedOut));
    assert!(rig.has_memory(token), "the driver still has the memory");
}

/// The disk completes all the requests that it holds.
pub(crate) fn settle(rig: &mut Rig) {
    rig.disk().finish_all();
    rig.drain();
}

#[test]
fn a_stuck_request_fails_and_keeps_its_memory() {
    for elevator in elevators() {
        for op in [Op::Read, Op::Write] {
            let mut rig = rig(elevator, THROUGH);
            let token = submit(&mut rig, Io::new(op, 0, 4096));
            expire(&mut rig, token);
            assert!(!rig.lane.queue.is_idle());
            // Other bios continue in the meantime.
            let other = submit(&mut rig, Io::new(op, 8192, 512).with(Flags::SYNC));
            rig.disk().finish(1);
            rig.run();
            assert_eq!(rig.result(other), Ok(()), "{elevator}");
            settle(&mut rig);
            assert!(!rig.has_memory(token), "{elevator}");
            assert_eq!(rig.counts().timeouts, 1);
        }
    }
}

#[test]
fn what_nobody_waits_for_is_not_resumed() {
    for result in [512, 0, -5] {
        let mut rig = rig("none", THROUGH);
        let token = submit(&mut rig, Io::write(0, 4096));
        expire(&mut rig, token);
        rig.disk().finish_with(0, result);
        settle(&mut rig);
        assert_eq!(rig.disk().starts().len(), 1);
        assert!(!rig.has_memory(token));
    }
}

#[test]
fn a_stuck_merged_request_fails_all_its_bios() {
    let mut rig = rig("noop", THROUGH);
    rig.lane.queue.freeze();
    let bios: Vec<_> = (0..4).map(|i| submit(&mut rig, Io::read(i * 1024, 1024))).collect();
    rig.lane.queue.unfreeze();
    rig.run();
    assert_eq!(rig.disk().held.len(), 1);
    rig.now += LATE;
    rig.run();
    for &token in &bios {
        assert_eq!(rig.result(token).map_err(|fault| fault.kind), Err(Kind::TimedOut));
        assert!(rig.has_memory(token));
    }
    rig.disk().finish_with(0, -5);
    rig.drain();
    assert!(bios.iter().all(|&token| !rig.has_memory(token)));
}

#[test]
fn borrowed_memory_is_not_given_up() {
    let mut rig = rig("none", THROUGH);
    let token = submit(&mut rig, Io::read(0, 12288).with(Flags::BORROWED));
    rig.now += Span::from_secs(60);
    rig.run();
    assert!(!rig.is_done(token));
    assert!(rig.has_memory(token));
    rig.drain();
    assert_eq!(rig.result(token), Ok(()));
    assert_eq!(rig.counts().timeouts, 0);
}

#[test]
fn a_split_with_a_stuck_piece_keeps_the_memory_of_the_whole() {
    for elevator in elevators() {
        for others_first in [true, false] {
            let mut rig = rig(elevator, THROUGH);
            let token = submit(&mut rig, Io::read(0, 16384));
            assert_eq!(rig.disk().held.len(), 4, "{elevator}");
            if others_first {
                for _ in 0..3 {
                    rig.disk().finish(1);
                }
            }
            rig.run();
            assert!(!rig.is_done(token));
            expire(&mut rig, token);
            if !others_first {
                rig.disk().finish(2);
                rig.run();
                assert!(rig.has_memory(token));
            }
            rig.drain();
            assert!(!rig.has_memory(token), "{elevator}");
        }
    }
}

#[test]
fn a_late_piece_that_comes_back_before_the_others_end_returns_the_memory() {
    let mut rig = rig("none", THROUGH);
    let token = submit(&mut rig, Io::read(0, 4096));
    rig.disk().finish(0);
    rig.run();
    assert_eq!((rig.result(token), rig.has_memory(token)), (Ok(()), false));

    // The disk has one piece and has stopped; the other piece waits for depth. Both end at the deadline.
    rig.lane.queue.set_depth(1);
    let token = submit(&mut rig, Io::read(0, 8192));
    expire(&mut rig, token);
    assert_eq!((rig.counts().timeouts, rig.disk().held.len()), (2, 1));
    settle(&mut rig);
    assert!(!rig.has_memory(token));
}

#[test]
fn a_sequence_with_a_stuck_step_keeps_its_memory() {
    for elevator in elevators() {
        for len in [512, 16384] {
            let mut rig = rig(elevator, BACK);
            let io = Io::write(0, len).with(Flags::FUA | Flags::PREFLUSH | Flags::HARD_BARRIER);
            let token = submit(&mut rig, io);
            rig.complete_one();
            assert!(rig.disk().held.iter().all(|held| held.op == Op::Write));
            expire(&mut rig, token);
            let behind = rig.submit(Io::read(0, 512));
            settle(&mut rig);
            assert!(!rig.has_memory(token), "{elevator}");
            assert_eq!(rig.result(behind), Ok(()));
        }
    }
}

/// A flush that takes too long has not failed: the device may still complete it. Only its result counts.
#[test]
fn a_stuck_flush_fails_those_that_wait_for_it_and_nothing_else() {
    for elevator in elevators() {
        for result in [0, -5] {
            let mut rig = rig(elevator, BACK);
            let token = rig.submit(Io::flush());
            rig.run();
            rig.now += LATE;
            let next = rig.submit(Io::flush());
            rig.run();
            assert_eq!(rig.result(token).map_err(|fault| fault.kind), Err(Kind::TimedOut));
            rig.now += LATE;
            rig.run();
            assert_eq!(rig.result(next).map_err(|fault| fault.kind), Err(Kind::TimedOut));
            assert_eq!((rig.lane.queue.flush_failure(), rig.disk().starts().len()), (None, 1));
            rig.disk().finish_with(0, result);
            rig.run();
            let last = rig.submit(Io::flush());
            rig.drain();
            let expected = if result == 0 { Ok(()) } else { Err(Kind::FlushFailed) };
            assert_eq!(rig.result(last).map_err(|fault| fault.kind), expected, "{elevator}");
        }
    }
}

#[test]
fn each_request_has_its_own_time() {
    let mut rig = rig("none", THROUGH);
    let mut all = Vec::new();
    for i in 0..5 {
        all.push(submit(&mut rig, Io::read(i * 8192, 512)));
        rig.now += Span::from_millis(300);
    }
    assert_eq!(rig.done.len(), 1, "the first is over its second");
    for &token in &all[1..] {
        expire(&mut rig, token);
    }
    rig.drain();
}

#[test]
fn a_queue_with_nothing_out_does_not_want_to_be_woken_for_a_timeout() {
    for elevator in elevators() {
        let mut rig = rig(elevator, THROUGH);
        submit(&mut rig, Io::read(0, 512));
        assert!(rig.lane.queue.next_wakeup().is_some(), "{elevator}");
        settle(&mut rig);
        // A caller that advances the time to the next wake-up would never get past this one.
        assert_eq!(rig.lane.queue.next_wakeup(), None, "{elevator}");
    }
}
