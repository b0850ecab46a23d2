//! Cancelling, by token and because a bio is late: what the driver does not have ends at once; for the rest the driver is
//! asked.

use crate::flush::{BACK, THROUGH};
use crate::rig::{Io, Rig, elevators};
use platter_block::bio::{Bio, Flags, Op};
use platter_block::fault::Kind;
use platter_block::lane::{Cancel, Lane};
use platter_block::queue::{Settings, Watch};

const BOTH: [Kind; 2] = [Kind::Cancelled, Kind::TimedOut];

/// Takes the bio with this token back; it ends with `why` if the disk has nothing of it.
fn take_back(rig: &mut Rig, token: u64, why: Kind) {
    match why {
        Kind::TimedOut => rig.late(token),
        _ => rig.lane.cancel(rig.now, &Cancel::token(token)),
    }
    rig.run();
}

/// Every elevator with each way to take a bio back.
fn cases() -> impl Iterator<Item = (&'static str, Kind)> {
    elevators().into_iter().flat_map(|elevator| BOTH.map(|why| (elevator, why)))
}

#[test]
fn what_is_to_be_taken_back_is_told_by_token_or_identity() {
    let mut bio = Bio::flush();
    bio.set_token(7);
    let (token, late) = (Cancel::token(7), Cancel::late(bio.identity()));
    assert_eq!((token.kind(), late.kind()), (Kind::Cancelled, Kind::TimedOut));
    assert!(token.matches(&bio) && late.matches(&bio));
    let mut other = Bio::flush();
    assert!(!token.matches(&other) && !late.matches(&other));
    other.set_token(7);
    assert!(token.matches(&other) && !late.matches(&other));
}

#[test]
fn what_has_not_started_ends_at_once() {
    for (elevator, why) in cases() {
        let mut rig = Rig::manual(elevator, Settings { depth: 1, ..Settings::default() }, BACK);
        let slow = rig.submit(Io::read(1 << 19, 512).with(Flags::SYNC));
        rig.run();
        // Bios in a merged request, one alone, a split, one behind a barrier.
        let merged: Vec<u64> = (0..3).map(|i| rig.submit(Io::read(i * 512, 512))).collect();
        let alone = rig.submit(Io::read(1 << 18, 512));
        let barrier = rig.submit(Io::flush().with(Flags::HARD_BARRIER));
        let held = rig.submit(Io::read(4096, 512));
        for token in [merged[1], alone, held] {
            take_back(&mut rig, token, why);
            assert_eq!(rig.failure(token), Some(why), "{elevator}");
            assert!(!rig.has_memory(token));
        }
        assert!(rig.disk().cancelled.is_empty(), "the driver had none of them");
        rig.drain();
        for token in [slow, merged[0], merged[2], barrier] {
            assert_eq!(rig.result(token), Ok(()), "{elevator}");
        }
        assert_eq!(rig.counts().timeouts, if why == Kind::TimedOut { 3 } else { 0 });
    }
}

#[test]
fn of_what_the_driver_has_the_driver_is_asked() {
    for (elevator, why) in cases() {
        for result in [-125, 512] {
            let mut rig = Rig::manual(elevator, Settings::default(), THROUGH);
            let token = rig.submit(Io::read(0, 512).with(Flags::SYNC));
            rig.run();
            let tag = rig.disk().held[0].tag;
            take_back(&mut rig, token, why);
            assert!(!rig.is_done(token) && rig.disk().cancelled == [tag], "{elevator}");
            assert!(rig.disk().overdue.is_empty(), "it was not too long with the disk");
            rig.disk().finish_with(0, result);
            rig.run();
            let kind = (result < 0).then_some(Kind::Cancelled);
            assert_eq!(rig.failure(token), kind, "{elevator}: whatever the disk says");
        }
    }
}

/// The other bios of its request were not taken back.
#[test]
fn what_shares_a_request_with_a_cancelled_bio_is_done() {
    for (elevator, why) in cases() {
        let mut rig = Rig::manual(elevator, Settings::default(), THROUGH);
        let tokens: Vec<u64> = (0..3).map(|i| rig.submit(Io::write(i * 512, 512))).collect();
        rig.lane.queue.unplug_for_waiter(rig.now);
        rig.run();
        assert_eq!(rig.disk().held.len(), 1);
        take_back(&mut rig, tokens[1], why);
        rig.disk().finish_with(0, -125);
        rig.run();
        assert_eq!(rig.failure(tokens[1]), Some(Kind::Cancelled), "{elevator}");
        rig.model[512..1024].copy_from_slice(&rig.lane.driver().data[512..1024]);
        rig.drain();
        assert_eq!((rig.result(tokens[0]), rig.result(tokens[2])), (Ok(()), Ok(())), "{elevator}");
    }
}

/// A barrier that drains has not started. If its submitter cancels it, the order is not wanted any more; if it is late, it is.
#[test]
fn a_barrier_that_drains_ends_at_once() {
    for (elevator, why) in cases() {
        let mut rig = Rig::manual(elevator, Settings::default(), BACK);
        let before = rig.submit(Io::read(0, 512).with(Flags::SYNC));
        rig.run();
        let barrier = rig.submit(Io::flush().with(Flags::HARD_BARRIER));
        let behind = rig.submit(Io::read(8192, 512));
        take_back(&mut rig, barrier, why);
        assert_eq!(rig.failure(barrier), Some(why));
        assert!(!rig.lane.queue.barrier_pending());
        rig.drain();
        let of_behind = (why == Kind::TimedOut).then_some(Kind::Cancelled);
        assert_eq!((rig.result(before), rig.failure(behind)), (Ok(()), of_behind), "{elevator}");
    }
}

/// No flush is ever without bios.
#[test]
fn a_flush_in_flight_is_not_taken_from_those_that_it_serves() {
    for (elevator, why) in cases() {
        for result in [0, -5] {
            let mut rig = Rig::manual(elevator, Settings::default(), BACK);
            let (first, second) = (rig.submit(Io::flush()), rig.submit(Io::flush()));
            rig.run();
            assert_eq!(rig.disk().held.len(), 1);
            take_back(&mut rig, first, why);
            assert!(!rig.is_done(first) && rig.disk().cancelled.is_empty(), "{elevator}");
            take_back(&mut rig, second, why);
            assert_eq!(rig.failure(second), Some(why), "{elevator}: it waits for the next flush");
            rig.disk().finish_with(0, result);
            rig.run();
            assert_eq!(rig.failure(first), (result < 0).then_some(Kind::Io), "{elevator}");
            assert_eq!(rig.lane.queue.flush_failure().is_some(), result < 0);
            rig.check_idle();
        }
    }
}

/// Runs until the disk has a request.
fn start(rig: &mut Rig) {
    while rig.disk().held.is_empty() {
        rig.lane.queue.unplug_for_waiter(rig.now);
        rig.run();
    }
}

/// A bio that is taken back has not changed the device; these have.
#[test]
fn what_waits_for_the_flush_behind_its_data_ends_with_that_flush() {
    for (elevator, why) in cases() {
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
                    take_back(&mut rig, token, why);
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

/// The disk has the flush, so the bio waits for it; its data is not written any more.
#[test]
fn what_waits_for_the_flush_before_its_data_ends_with_it() {
    for (elevator, why) in cases() {
        for flags in [Flags::FUA | Flags::PREFLUSH, Flags::HARD_BARRIER, Flags::PREFLUSH | Flags::BORROWED] {
            let mut rig = Rig::manual(elevator, Settings::default(), BACK);
            let token = rig.submit(Io::write(0, 512).with(flags | Flags::SYNC));
            start(&mut rig);
            let next = rig.submit(Io::flush());
            take_back(&mut rig, token, why);
            assert!(!rig.is_done(token), "{elevator} {flags:?}");
            rig.disk().finish(0);
            rig.run();
            assert_eq!(rig.failure(token), Some(why), "{elevator} {flags:?}");
            rig.model[..512].copy_from_slice(&rig.lane.driver().data[..512]);
            rig.drain();
            assert!(rig.disk().starts().iter().all(|start| start.0 == Op::Flush), "{elevator} {flags:?}");
            let behind_late = flags.contains(Flags::HARD_BARRIER) && why == Kind::TimedOut;
            assert_eq!(rig.failure(next), behind_late.then_some(Kind::Cancelled), "{elevator} {flags:?}");
        }
    }
}

/// Nothing of it has started if something else flushes the device at the moment.
#[test]
fn what_waits_for_its_turn_to_flush_ends_at_once() {
    for (elevator, why) in cases() {
        for io in [Io::flush(), Io::write(0, 512).with(Flags::PREFLUSH)] {
            let mut rig = Rig::manual(elevator, Settings::default(), BACK);
            rig.lane.queue.set_watch(Some(Box::new(Denies)));
            let token = rig.submit(io);
            rig.run();
            assert!(rig.lane.queue.is_denied_flush() && !rig.is_done(token), "{elevator}");
            take_back(&mut rig, token, why);
            assert_eq!(rig.failure(token), Some(why), "{elevator}");
            rig.model[..512].copy_from_slice(&rig.lane.driver().data[..512]);
            rig.check_idle();
        }
    }
}

/// Another thread flushes the device.
struct Denies;

impl Watch for Denies {
    fn may_flush(&mut self) -> bool {
        false
    }
}

/// A bio that failed for a reason that may pass is not with the disk while it waits for its retry.
#[test]
fn what_pauses_ends_at_once() {
    for (elevator, why) in cases() {
        let mut rig = Rig::manual(elevator, Settings::default(), THROUGH);
        let token = rig.submit(Io::read(0, 512).with(Flags::SYNC));
        start(&mut rig);
        rig.disk().finish_with(0, -11);
        rig.run();
        assert!(!rig.is_done(token));
        take_back(&mut rig, token, why);
        assert_eq!(rig.failure(token), Some(why), "{elevator}");
        rig.check_idle();
    }
}

/// The flush hopes to cover the data of the write, which does not come.
#[test]
fn what_is_taken_back_together_starts_nothing() {
    for (elevator, why) in cases() {
        let mut rig = Rig::manual(elevator, Settings { depth: 1, ..Settings::default() }, BACK);
        let slow = rig.submit(Io::read(1 << 19, 512).with(Flags::SYNC));
        start(&mut rig);
        let tokens =
            [Io::write(0, 512).with(Flags::FUA), Io::flush(), Io::read(8192, 512)].map(|io| rig.submit(io));
        rig.lane.cancel_where(rig.now, &|_| true, why);
        rig.run();
        assert!(tokens.iter().all(|&token| rig.failure(token) == Some(why)), "{elevator}");
        rig.model[..512].copy_from_slice(&rig.lane.driver().data[..512]);
        rig.drain();
        assert_eq!((rig.result(slow), rig.disk().starts().len()), (Ok(()), 1), "{elevator}");
    }
}
