//! Cancelling: bios that the driver does not have end at once; for the others the driver is asked.

use crate::flush::{BACK, THROUGH};
use crate::rig::{Io, Rig, elevators};
use crate::timeout::{LATE, rig};
use platter_block::bio::{Flags, Op};
use platter_block::fault::Kind;
use platter_block::lane::Lane;
use platter_block::queue::Settings;

fn cancel(rig: &mut Rig, token: u64) {
    rig.lane.cancel(rig.now, token);
    rig.run();
}

#[test]
fn what_has_not_started_is_cancelled_at_once() {
    for elevator in elevators() {
        let mut rig = Rig::manual(elevator, Settings { depth: 1, ..Settings::default() }, BACK);
        let slow = rig.submit(Io::read(1 << 19, 512).with(Flags::SYNC));
        rig.run();
        // Bios in a merged request, one alone, a split, one behind a barrier.
        let merged: Vec<u64> = (0..3).map(|i| rig.submit(Io::read(i * 512, 512))).collect();
        let alone = rig.submit(Io::read(1 << 18, 512));
        let barrier = rig.submit(Io::flush().with(Flags::HARD_BARRIER));
        let held = rig.submit(Io::read(4096, 512));
        for token in [merged[1], alone, held] {
            cancel(&mut rig, token);
            assert_eq!(rig.failure(token), Some(Kind::Cancelled), "{elevator}");
            assert!(!rig.has_memory(token));
        }
        assert!(rig.disk().cancelled.is_empty(), "the driver had none of them");
        rig.drain();
        for token in [slow, merged[0], merged[2], barrier] {
            assert_eq!(rig.result(token), Ok(()), "{elevator}");
        }
    }
}

#[test]
fn of_what_the_driver_has_the_driver_is_asked() {
    for elevator in elevators() {
        for result in [-125, 512] {
            let mut rig = Rig::manual(elevator, Settings::default(), THROUGH);
            let token = rig.submit(Io::read(0, 512).with(Flags::SYNC));
            rig.run();
            let tag = rig.disk().held[0].tag;
            cancel(&mut rig, token);
            assert!(!rig.is_done(token) && rig.disk().cancelled == [tag], "{elevator}");
            rig.disk().finish_with(0, result);
            rig.run();
            let kind = (result < 0).then_some(Kind::Cancelled);
            assert_eq!(rig.failure(token), kind, "{elevator}: whatever the disk says");
        }
    }
}

/// The other bios of its request were not cancelled.
#[test]
fn what_shares_a_request_with_a_cancelled_bio_is_done() {
    for elevator in elevators() {
        let mut rig = Rig::manual(elevator, Settings::default(), THROUGH);
        let tokens: Vec<u64> = (0..3).map(|i| rig.submit(Io::write(i * 512, 512))).collect();
        rig.lane.queue.unplug_for_waiter(rig.now);
        rig.run();
        assert_eq!(rig.disk().held.len(), 1);
        cancel(&mut rig, tokens[1]);
        rig.disk().finish_with(0, -125);
        rig.run();
        assert_eq!(rig.failure(tokens[1]), Some(Kind::Cancelled), "{elevator}");
        rig.model[512..1024].copy_from_slice(&rig.lane.driver().data[512..1024]);
        rig.drain();
        assert_eq!((rig.result(tokens[0]), rig.result(tokens[2])), (Ok(()), Ok(())), "{elevator}");
    }
}

#[test]
fn a_cancelled_barrier_lets_in_what_it_held() {
    for elevator in elevators() {
        let mut rig = Rig::manual(elevator, Settings::default(), BACK);
        let before = rig.submit(Io::read(0, 512).with(Flags::SYNC));
        rig.run();
        let barrier = rig.submit(Io::flush().with(Flags::HARD_BARRIER));
        let behind = rig.submit(Io::read(8192, 512));
        cancel(&mut rig, barrier);
        assert_eq!(rig.failure(barrier), Some(Kind::Cancelled));
        assert!(!rig.lane.queue.barrier_pending());
        rig.drain();
        assert_eq!((rig.result(before), rig.result(behind)), (Ok(()), Ok(())), "{elevator}");
    }
}

#[test]
fn a_flush_that_waits_is_cancelled_and_its_request_goes_on() {
    let mut rig = Rig::manual("none", Settings::default(), BACK);
    let (first, second) = (rig.submit(Io::flush()), rig.submit(Io::flush()));
    rig.run();
    assert_eq!(rig.disk().held.len(), 1);
    cancel(&mut rig, first);
    cancel(&mut rig, second);
    assert_eq!((rig.failure(first), rig.failure(second)), (Some(Kind::Cancelled), Some(Kind::Cancelled)));
    rig.drain();
    assert_eq!(rig.lane.queue.flush_failure(), None);
}

/// Runs until the disk has a request.
fn start(rig: &mut Rig) {
    while rig.disk().held.is_empty() {
        rig.lane.queue.unplug_for_waiter(rig.now);
        rig.run();
    }
}

/// A cancelled bio has not changed the device; these have.
#[test]
fn what_waits_for_the_flush_behind_its_data_ends_with_that_flush() {
    for elevator in elevators() {
        for op in [Op::Write, Op::Discard, Op::WriteZeroes] {
            for (flags, steps_before) in [(Flags::FUA, 1), (Flags::HARD_BARRIER, 2)] {
                for (result, kind) in [(0, None), (-5, Some(Kind::Io))] {
                    let mut rig = Rig::manual(elevator, Settings::default(), BACK);
                    let token = rig.submit(Io::new(op, 0, 512).with(flags | Flags::SYNC));
                    for _ in 0..steps_before {
                        start(&mut rig);
                        rig.disk().finish(0);
                        rig.run();
                    }
                    start(&mut rig);
                    assert_eq!(rig.disk().held[0].op, Op::Flush, "{elevator} {op} {flags:?}");
                    cancel(&mut rig, token);
                    assert!(!rig.is_done(token), "{elevator} {op} {flags:?}");
                    rig.disk().finish_with(0, result);
                    rig.run();
                    assert_eq!(rig.failure(token), kind, "{elevator} {op} {flags:?}");
                    rig.check_idle();
                }
            }
        }
    }
}

#[test]
fn what_waits_for_the_flush_before_its_data_is_cancelled_at_once() {
    for elevator in elevators() {
        for flags in [Flags::FUA | Flags::PREFLUSH, Flags::HARD_BARRIER] {
            let mut rig = Rig::manual(elevator, Settings::default(), BACK);
            let token = rig.submit(Io::new(Op::Discard, 0, 512).with(flags | Flags::SYNC));
            start(&mut rig);
            cancel(&mut rig, token);
            assert_eq!(rig.failure(token), Some(Kind::Cancelled), "{elevator} {flags:?}");
            rig.drain();
            assert!(rig.disk().starts().iter().all(|start| start.0 == Op::Flush), "{elevator} {flags:?}");
        }
    }
}

#[test]
fn a_bio_that_waits_for_a_range_in_doubt_is_cancelled() {
    for elevator in elevators() {
        let mut rig = rig(elevator, THROUGH);
        rig.submit(Io::write(0, 512).with(Flags::SYNC));
        rig.run();
        rig.now += LATE;
        rig.run();
        let waits = rig.submit(Io::read(0, 512).with(Flags::SYNC));
        rig.run();
        assert!(!rig.is_done(waits));
        cancel(&mut rig, waits);
        assert_eq!(rig.failure(waits), Some(Kind::Cancelled), "{elevator}");
        rig.disk().finish_all();
        rig.drain();
    }
}

/// The device is asked to cancel requests that have timed out.
#[test]
fn what_timed_out_is_cancelled_at_the_device() {
    for elevator in elevators() {
        let mut rig = rig(elevator, THROUGH);
        rig.submit(Io::write(0, 512).with(Flags::SYNC));
        rig.run();
        let tag = rig.disk().held[0].tag;
        rig.now += LATE;
        rig.run();
        rig.run();
        assert_eq!(rig.disk().cancelled, [tag], "{elevator}: once");
        rig.disk().finish_with(0, -125);
        rig.run();
        assert!(!rig.lane.queue.is_in_doubt() && rig.disk().starts().len() == 1, "{elevator}");
        rig.model[..512].copy_from_slice(&rig.lane.driver().data[..512]);
        rig.check_idle();
    }
}

/// A driver must complete what is still waited for, so it is told what is not.
#[test]
fn what_is_cancelled_is_given_up_only_at_its_deadline() {
    for elevator in elevators() {
        let mut rig = rig(elevator, THROUGH);
        let token = rig.submit(Io::write(0, 512).with(Flags::SYNC));
        rig.run();
        let tag = rig.disk().held[0].tag;
        cancel(&mut rig, token);
        assert!(rig.disk().cancelled == [tag] && rig.disk().given_up.is_empty(), "{elevator}");
        rig.now += LATE;
        rig.run();
        assert_eq!(rig.disk().given_up, [tag], "{elevator}");
        rig.disk().finish_with(0, -125);
        rig.run();
        rig.model[..512].copy_from_slice(&rig.lane.driver().data[..512]);
        rig.check_idle();
    }
}

/// The submitter does not wait any longer and runs nothing: another thread may run the queue next, with an earlier time.
#[test]
fn what_is_late_is_in_doubt_as_soon_as_it_is_cancelled() {
    for elevator in elevators() {
        let mut rig = rig(elevator, THROUGH);
        let late = rig.submit(Io::write(0, 512).with(Flags::SYNC));
        rig.run();
        let before = rig.now;
        rig.now += LATE;
        rig.lane.cancel(rig.now, late);
        assert!(rig.lane.queue.is_in_doubt(), "{elevator}");
        rig.now = before;
        let next = rig.submit(Io::read(0, 512).with(Flags::SYNC | Flags::NOMERGE));
        rig.run();
        assert_eq!(rig.failure(late), Some(Kind::TimedOut), "{elevator}");
        assert!(!rig.is_done(next) && rig.disk().starts().len() == 1, "{elevator}");
        rig.disk().finish_with(0, -125);
        rig.run();
        rig.model[..512].copy_from_slice(&rig.lane.driver().data[..512]);
        rig.drain();
        assert_eq!(rig.result(next), Ok(()), "{elevator}");
    }
}
