//! Deadlines: a bio ends by its own, wherever it waits.

use crate::disk::{FakeDisk, Mode};
use crate::flush::{BACK, THROUGH};
use crate::rig::{Io, Rig, elevators, elevators_within_the_pool, make_elevator};
use platter_block::bio::{Flags, Op};
use platter_block::driver::Features;
use platter_block::fault::Kind;
use platter_block::lane::Lane;
use platter_block::limits::Limits;
use platter_block::queue::{PlugSettings, Settings};
use platter_block::time::{Span, Time};

/// A point in time that a bio's deadline represents exactly.
const AT: Time = Time(1024 * 1_000_000);

/// A disk under the test's control that takes one request, and has a slow one, without a deadline, at its end.
fn busy(elevator: &str, settings: Settings, features: Features) -> (Rig, u64) {
    let limits = Limits::unlimited(512).with_max_transfer(4096);
    let mut disk = FakeDisk::new(1 << 20, limits, features, 1);
    disk.mode = Mode::Manual;
    let mut rig = Rig::with(disk, Settings { depth: 1, ..settings }, make_elevator(elevator));
    let slow = rig.submit(Io::read((1 << 20) - 4096, 4096));
    rig.lane.queue.unplug_for_waiter(rig.now);
    rig.run();
    assert_eq!(rig.disk().held.len(), 1);
    (rig, slow)
}

/// Advances the time to the deadline. The bios with these tokens must fail then, not earlier, with their memory; no
/// other bio may fail.
fn expire(rig: &mut Rig, tokens: &[u64], kind: Kind) {
    let done = rig.done.len();
    while rig.lane.next_wakeup().is_some_and(|at| at < AT) {
        rig.pass();
        assert_eq!(rig.done.len(), done, "nothing is over before its time");
    }
    rig.pass();
    assert_eq!(rig.now, AT);
    for &token in tokens {
        assert_eq!(rig.failure(token), Some(kind), "{token}");
        assert!(!rig.has_memory(token), "it never reached the disk");
    }
    assert_eq!(rig.done.len(), done + tokens.len());
}

/// The disk continues, and all other bios must complete.
fn finish(mut rig: Rig, slow: u64, others: &[u64]) {
    rig.drain();
    for &token in others.iter().chain(&[slow]) {
        assert_eq!(rig.result(token), Ok(()));
    }
}

#[test]
fn a_bio_that_waits_for_its_turn_is_over_at_its_deadline() {
    for elevator in elevators() {
        for plug in [None, Some(PlugSettings::default())] {
            let (mut rig, slow) = busy(elevator, Settings { plug, ..Settings::default() }, THROUGH);
            let late = rig.submit_until(Io::write(0, 512), AT);
            let other = rig.submit(Io::write(8192, 512));
            expire(&mut rig, &[late], Kind::TimedOut);
            assert_eq!(rig.disk().starts().len(), 1, "{elevator}");
            rig.model[..512].copy_from_slice(&rig.lane.driver().data[..512]);
            finish(rig, slow, &[other]);
        }
    }
}

/// A bio that fills the gap between two requests joins them. If all bios of the second one have left it at their deadline,
/// nothing is written there.
#[test]
fn a_request_whose_bios_are_over_writes_nothing_when_another_absorbs_it() {
    for elevator in elevators() {
        for both in [false, true] {
            let (mut rig, slow) = busy(elevator, Settings { plug: None, ..Settings::default() }, THROUGH);
            let front = match both {
                false => rig.submit(Io::write(0, 512)),
                true => rig.submit_until(Io::write(0, 512), AT),
            };
            let late = rig.submit_until(Io::write(1024, 512), AT);
            let over = if both { vec![front, late] } else { vec![late] };
            expire(&mut rig, &over, Kind::TimedOut);
            let gap = rig.submit(Io::write(512, 512));
            let begin = if both { 0 } else { 1024 };
            let disk = rig.lane.driver().data[begin..1536].to_vec();
            let keep = rig.model[512..1024].to_vec();
            rig.model[begin..1536].copy_from_slice(&disk);
            rig.model[512..1024].copy_from_slice(&keep);
            let others = if both { vec![gap] } else { vec![front, gap] };
            finish(rig, slow, &others);
        }
    }
}

#[test]
fn a_bio_that_waits_for_a_request_is_over_at_its_deadline() {
    for elevator in elevators_within_the_pool() {
        let settings = Settings { nr_requests: 1, merges: false, ..Settings::default() };
        let (mut rig, slow) = busy(elevator, settings, THROUGH);
        let others: Vec<u64> = (1..4).map(|i| rig.submit(Io::read(i * 8192, 512))).collect();
        let late = rig.submit_until(Io::read(0, 512), AT);
        assert!(rig.counts().request_waits > 0);
        expire(&mut rig, &[late], Kind::TimedOut);
        finish(rig, slow, &others);
    }
}

/// The request that it is part of starts without it, as single bios.
#[test]
fn a_bio_leaves_a_merged_request_at_its_deadline() {
    for elevator in elevators() {
        let (mut rig, slow) = busy(elevator, Settings { plug: None, ..Settings::default() }, THROUGH);
        let first = rig.submit(Io::write(0, 512));
        let late: Vec<u64> = [1, 3].iter().map(|i| rig.submit_until(Io::write(i * 512, 512), AT)).collect();
        let second = rig.submit(Io::write(1024, 512));
        assert!(rig.counts().requests <= 4, "{elevator} merges");
        expire(&mut rig, &late, Kind::TimedOut);
        for at in [512, 1536] {
            rig.model[at..at + 512].copy_from_slice(&rig.lane.driver().data[at..at + 512]);
        }
        let starts = rig.disk().starts().len();
        rig.drain();
        let mut after: Vec<(u64, u64)> = rig.disk().starts()[starts..].iter().map(|s| (s.1, s.2)).collect();
        after.sort_unstable();
        assert_eq!(after, [(0, 512), (1024, 512)], "{elevator}");
        finish(rig, slow, &[first, second]);
    }
}

#[test]
fn a_request_of_which_nothing_is_left_is_not_started() {
    for elevator in elevators() {
        let (mut rig, slow) = busy(elevator, Settings { plug: None, ..Settings::default() }, THROUGH);
        let late: Vec<u64> = (0..4).map(|i| rig.submit_until(Io::read(i * 512, 512), AT)).collect();
        expire(&mut rig, &late, Kind::TimedOut);
        rig.drain();
        assert_eq!(rig.disk().starts().len(), 1, "{elevator}");
        finish(rig, slow, &[]);
    }
}

/// A bio that joins such a request is carried out all the same.
#[test]
fn a_bio_may_join_a_request_that_has_lost_one() {
    for elevator in elevators() {
        let (mut rig, slow) = busy(elevator, Settings { plug: None, ..Settings::default() }, THROUGH);
        let late = rig.submit_until(Io::read(512, 512), AT);
        expire(&mut rig, &[late], Kind::TimedOut);
        let behind = rig.submit(Io::read(1024, 512));
        let before = rig.submit(Io::read(0, 512));
        finish(rig, slow, &[behind, before]);
    }
}

#[test]
fn a_piece_of_a_split_that_waits_ends_with_the_rest() {
    for elevator in elevators() {
        let (mut rig, slow) = busy(elevator, Settings { plug: None, ..Settings::default() }, THROUGH);
        let late = rig.submit_until(Io::read(0, 16384), AT);
        expire(&mut rig, &[late], Kind::TimedOut);
        finish(rig, slow, &[]);
    }
}

/// Bios behind a barrier that has ended are not affected by the deadline of one that has not.
#[test]
fn a_bio_behind_a_barrier_is_over_at_its_deadline() {
    for elevator in elevators() {
        let (mut rig, slow) = busy(elevator, Settings::default(), BACK);
        let barrier = rig.submit(Io::write(0, 512).with(Flags::HARD_BARRIER));
        let late = rig.submit_until(Io::read(8192, 512), AT);
        let second = rig.submit(Io::flush().with(Flags::HARD_BARRIER));
        let other = rig.submit(Io::read(16384, 512));
        expire(&mut rig, &[late], Kind::TimedOut);
        assert!(rig.lane.queue.barrier_pending(), "{elevator}");
        finish(rig, slow, &[barrier, second, other]);
    }
}

/// A barrier that is given up has ordered nothing, so bios after it must fail too.
#[test]
fn a_barrier_is_over_at_its_deadline_and_takes_along_what_it_held() {
    for elevator in elevators() {
        for features in [THROUGH, BACK] {
            let (mut rig, slow) = busy(elevator, Settings::default(), features);
            let barrier = rig.submit_until(Io::flush().with(Flags::HARD_BARRIER), AT);
            let held = rig.submit(Io::read(8192, 512));
            let second = rig.submit(Io::flush().with(Flags::HARD_BARRIER));
            while !rig.is_done(barrier) {
                rig.pass();
            }
            assert_eq!(rig.now, AT);
            assert_eq!(rig.failure(barrier), Some(Kind::TimedOut));
            assert_eq!(rig.failure(held), Some(Kind::Cancelled), "{elevator}");
            assert_eq!(rig.failure(second), Some(Kind::Cancelled), "{elevator}");
            assert!(!rig.lane.queue.barrier_pending());
            let after = rig.submit(Io::read(8192, 512));
            finish(rig, slow, &[after]);
        }
    }
}

#[test]
fn a_flush_that_waits_for_the_data_of_others_is_over_at_its_deadline() {
    let at = Time(1024 * 1_000_000);
    let mut rig = Rig::manual("none", Settings::default(), BACK);
    let durable = rig.submit(Io::write(0, 512).with(Flags::FUA));
    rig.run();
    let late = rig.submit_until(Io::flush(), at);
    let other = rig.submit(Io::flush());
    rig.pass();
    assert_eq!((rig.now, rig.failure(late)), (at, Some(Kind::TimedOut)));
    assert!(!rig.is_done(other) && !rig.is_done(durable));
    rig.drain();
    assert_eq!((rig.result(other), rig.result(durable)), (Ok(()), Ok(())));
}

/// The preflush has not completed: the data has not been written, so its memory comes back.
#[test]
fn a_write_whose_preflush_is_stuck_is_over_at_its_deadline() {
    for elevator in elevators() {
        for flags in [Flags::PREFLUSH, Flags::HARD_BARRIER, Flags::PREFLUSH | Flags::BORROWED] {
            let mut rig = Rig::manual(elevator, Settings::default(), BACK);
            let late = rig.submit_until(Io::write(0, 512).with(flags), AT);
            rig.run();
            assert_eq!(rig.disk().held.len(), 1, "{elevator}");
            rig.pass();
            assert_eq!((rig.now, rig.failure(late)), (AT, Some(Kind::TimedOut)), "{elevator} {flags:?}");
            assert!(!rig.has_memory(late));
            rig.model[..512].copy_from_slice(&rig.lane.driver().data[..512]);
            let next = rig.submit(Io::flush());
            rig.drain();
            assert_eq!(rig.result(next), Ok(()), "it waited for the other to come back");
        }
    }
}

/// Borrowed memory is returned unless the driver has it, and operations without data have none.
#[test]
fn lent_memory_holds_up_only_what_the_driver_has() {
    for elevator in elevators() {
        let (mut rig, slow) = busy(elevator, Settings::default(), THROUGH);
        let late = rig.submit_until(Io::read(0, 512).with(Flags::BORROWED), AT);
        expire(&mut rig, &[late], Kind::TimedOut);
        finish(rig, slow, &[]);
        let mut rig = Rig::manual(elevator, Settings::default(), THROUGH);
        let discard = rig.bio(&Io::new(Op::Discard, 0, 4096).with(Flags::BORROWED));
        let identity = discard.identity();
        let mut discard = discard;
        discard.set_deadline(Some(AT));
        rig.lane.submit(rig.now, discard);
        rig.lane.queue.unplug_for_waiter(rig.now);
        rig.run();
        assert_eq!(rig.disk().held.len(), 1);
        rig.now = AT;
        rig.lane.run(AT);
        let mut done = Vec::new();
        rig.lane.take_done(&mut done);
        assert_eq!(done.len(), 1, "{elevator}");
        assert_eq!(done[0].identity(), identity, "a caller that waits for its own bio gets it");
        assert_eq!(done[0].status().map_err(|fault| fault.kind), Err(Kind::TimedOut));
    }
}

#[test]
fn a_bio_whose_deadline_has_passed_is_refused() {
    for elevator in elevators() {
        let mut rig = Rig::manual(elevator, Settings::default(), THROUGH);
        rig.now = AT + Span(1);
        let late = rig.submit_until(Io::read(0, 512), AT);
        rig.run();
        assert_eq!((rig.failure(late), rig.disk().starts().len()), (Some(Kind::TimedOut), 0), "{elevator}");
    }
}

/// The timeout of the disk counts from submission, not from the start, and an earlier deadline of the bio applies
/// first.
#[test]
fn the_disks_timeout_counts_from_submission() {
    for elevator in elevators() {
        let settings = Settings { timeout: Some(Span(AT.0 - 1)), plug: None, ..Settings::default() };
        let mut rig = Rig::manual(elevator, Settings { depth: 1, ..settings }, THROUGH);
        let tokens: Vec<u64> = (0..8).map(|i| rig.submit(Io::read(i * 8192, 512))).collect();
        let own = rig.submit_until(Io::read(1 << 19, 512), AT + Span(1024));
        rig.run();
        rig.pass();
        assert_eq!(rig.now, AT);
        let over = tokens.iter().filter(|&&token| rig.is_done(token)).count();
        assert_eq!(
            (over, rig.is_done(own)),
            (8, true),
            "{elevator}: all that waited, and the one that was out"
        );
        rig.drain();
    }
}

/// A timer that found the queue idle made it forget when the next deadline is, but not the deadline itself: for a later
/// bio without a deadline the queue was always due and never late, and threads that waited for it did not sleep.
#[test]
fn a_deadline_that_was_met_wakes_nobody_later() {
    let settings = Settings { plug: Some(PlugSettings::default()), ..Settings::default() };
    for elevator in elevators().into_iter().filter(|&name| name != "none") {
        let mut rig = Rig::manual(elevator, settings, THROUGH);
        let end = |rig: &mut Rig| {
            rig.lane.queue.unplug_for_waiter(rig.now);
            rig.run();
            rig.disk().finish(0);
            rig.run();
        };
        let met = rig.submit_until(Io::write(0, 512), AT);
        end(&mut rig);
        assert_eq!(rig.result(met), Ok(()), "{elevator}");
        // The timer of the plug, which is no longer needed.
        rig.now += Span::from_millis(10);
        rig.run();
        let later = rig.submit(Io::write(4096, 512));
        rig.lane.queue.unplug_for_waiter(rig.now);
        rig.now = AT + Span::from_secs(60);
        rig.run();
        let next = rig.lane.next_wakeup();
        assert!(next.is_none_or(|at| at > rig.now), "{elevator}: {next:?} at {:?}", rig.now);
        end(&mut rig);
        assert_eq!(rig.result(later), Ok(()), "{elevator}");
    }
}
