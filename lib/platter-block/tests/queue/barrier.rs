//! Soft and hard barriers: nothing passes them.

use crate::disk::{FakeDisk, Mode, Rng, Step};
use crate::flush::{BACK, BACK_FUA, THROUGH};
use crate::rig::{Io, Rig, elevators, make_elevator};
use platter_block::bio::{Flags, Op};
use platter_block::driver::Features;
use platter_block::fault::Kind;
use platter_block::lane::Lane;
use platter_block::limits::Limits;
use platter_block::queue::{PlugSettings, Rest, Settings};
use platter_block::time::Span;

/// Bios before a barrier are in the first part of the disk, the barrier's data in the second, and bios after
/// it in the third.
const PART: u64 = 256 << 10;

fn part_of(pos: u64) -> u64 {
    pos / PART
}

struct Case {
    elevator: &'static str,
    features: Features,
    settings: Settings,
    limits: Limits,
}

fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for elevator in elevators() {
        for features in [THROUGH, BACK, BACK_FUA] {
            for (depth, nr_requests, plug) in [(1, 128, true), (4, 3, false), (32, 8, true)] {
                for max_transfer in [1 << 20, 2048] {
                    let plug = plug.then(PlugSettings::default);
                    let settings = Settings { depth, nr_requests, plug, ..Settings::default() };
                    let limits = Limits::unlimited(512).with_max_transfer(max_transfer);
                    all.push(Case { elevator, features, settings, limits });
                }
            }
        }
    }
    all
}

impl Case {
    fn rig(&self, seed: u64) -> Rig {
        let mut disk = FakeDisk::new(4 * PART, self.limits, self.features, seed);
        disk.mode = Mode::Shuffled;
        Rig::with(disk, self.settings, make_elevator(self.elevator))
    }
}

/// Up to twelve bios that do not overlap, some of them neighbours, anywhere in a part of the disk.
fn some(rig: &mut Rig, rng: &mut Rng, part: u64) {
    for _ in 0..rng.below(12) {
        let op = if rng.chance(30) { Op::Read } else { Op::Write };
        let io = Io::new(op, part * PART + rng.below(64) * 1024, 1024).of(rng.below(3) as u32);
        if !rig.conflicts(&io) {
            rig.submit(io);
        }
        if rng.chance(20) {
            rig.run();
        }
    }
}

/// Submits bios, a barrier and more bios; returns what the disk saw.
fn around(case: &Case, barrier: Io, seed: u64) -> Vec<Step> {
    let mut rng = Rng(seed);
    let mut rig = case.rig(seed);
    some(&mut rig, &mut rng, 0);
    rig.submit(barrier);
    some(&mut rig, &mut rng, 2);
    rig.drain();
    assert_eq!(rig.counts().barriers, 1);
    rig.disk().log.clone()
}

#[test]
fn nothing_is_started_across_a_soft_barrier() {
    for case in cases() {
        for seed in 0..12 {
            let len = if seed % 2 == 0 { 512 } else { 8192 };
            let op = if seed % 3 == 0 { Op::Read } else { Op::Write };
            let log = around(&case, Io::new(op, PART, len).with(Flags::SOFT_BARRIER), seed);
            let parts = log.iter().filter_map(|step| match *step {
                Step::Start(_, pos, ..) => Some(part_of(pos)),
                Step::Done(..) => None,
            });
            assert!(parts.is_sorted(), "{} seed {seed} {:?}: {log:?}", case.elevator, case.settings);
        }
    }
}

/// The disk's log must be: all of part 0, then the barrier's steps, then part 2, with nothing in flight at
/// either border.
fn check_hard(log: &[Step], what: &str) {
    let mut stage = 0;
    let mut in_flight = 0;
    for step in log {
        match *step {
            Step::Start(op, pos, ..) => {
                let part = if op == Op::Flush { 1 } else { part_of(pos) };
                assert!(part >= stage, "{what}: {log:?}");
                assert!(part == stage || in_flight == 0, "{what}: {step:?} came too early in {log:?}");
                stage = part;
                in_flight += 1;
            }
            Step::Done(..) => in_flight -= 1,
        }
    }
}

#[test]
fn a_hard_barrier_is_alone_with_the_disk() {
    for case in cases() {
        for seed in 0..12 {
            let kinds = [
                Io::write(PART, 512).with(Flags::HARD_BARRIER),
                Io::write(PART, 16384).with(Flags::HARD_BARRIER),
                Io::flush().with(Flags::HARD_BARRIER),
                Io::read(PART, 512).with(Flags::HARD_BARRIER),
                Io::write(PART, 4096).with(Flags::HARD_BARRIER | Flags::FUA | Flags::PREFLUSH),
                Io::new(Op::WriteZeroes, PART, 8192).with(Flags::HARD_BARRIER),
            ];
            let log = around(&case, kinds[seed as usize % kinds.len()].clone(), seed);
            check_hard(&log, &format!("{} seed {seed} {:?}", case.elevator, case.settings));
        }
    }
}

#[test]
fn barriers_back_to_back_keep_their_order() {
    for case in cases() {
        let mut rig = case.rig(7);
        for i in 0..4u64 {
            let flag = if i == 2 { Flags::SOFT_BARRIER } else { Flags::HARD_BARRIER };
            rig.submit(Io::write(PART + i * 4096, 4096).with(flag));
        }
        let last = rig.submit(Io::write(0, 512));
        rig.drain();
        let tokens: Vec<u64> = rig.done.iter().map(|done| done.token).collect();
        assert_eq!(tokens[..3], [0, 1, 2]);
        assert_eq!(tokens.len(), last as usize + 1);
        assert_eq!(rig.counts().barriers, 4);
    }
}

#[test]
fn a_hundred_thousand_empty_barriers_in_a_row_end() {
    let mut rig = Rig::manual("none", Settings::default(), THROUGH);
    rig.submit(Io::write(0, 512));
    rig.run();
    for _ in 0..100_000 {
        rig.submit(Io::flush().with(Flags::HARD_BARRIER));
    }
    let after = rig.submit(Io::read(0, 512));
    assert!(rig.done.is_empty());
    rig.drain();
    assert_eq!(rig.done.last().map(|done| done.token), Some(after));
    assert_eq!(rig.counts().barriers, 100_000);
}

#[test]
fn a_hard_barrier_waits_for_other_queues_of_the_device() {
    let mut rig = Rig::manual("noop", Settings::default(), BACK);
    rig.lane.queue.set_outside(rig.now, Rest::Waits);
    let token = rig.submit(Io::write(0, 512).with(Flags::HARD_BARRIER));
    rig.run();
    assert!(rig.disk().held.is_empty() && rig.lane.queue.barrier_pending());
    rig.lane.queue.set_outside(rig.now, Rest::Settled);
    rig.drain();
    assert_eq!(rig.result(token), Ok(()));
    assert!(!rig.lane.queue.barrier_pending());
}

/// It orders the starts of requests, not their completions.
#[test]
fn a_soft_barrier_waits_until_other_queues_have_started_everything() {
    for elevator in elevators() {
        let mut rig = Rig::manual(elevator, Settings::default(), BACK);
        rig.lane.queue.set_outside(rig.now, Rest::Waits);
        let soft = rig.submit(Io::write(0, 512).with(Flags::SOFT_BARRIER | Flags::SYNC));
        let behind = rig.submit(Io::write(8192, 512).with(Flags::SYNC));
        rig.run();
        assert!(rig.disk().held.is_empty() && rig.lane.queue.soft_barrier_pending(), "{elevator}");
        rig.lane.queue.set_outside(rig.now, Rest::Started);
        rig.run();
        let held: Vec<u64> = rig.disk().held.iter().map(|held| held.pos).collect();
        assert_eq!(held, [0, 8192], "{elevator}");
        let hard = rig.submit(Io::flush().with(Flags::HARD_BARRIER));
        rig.disk().finish_all();
        rig.run();
        assert!(rig.lane.queue.barrier_pending() && !rig.lane.queue.soft_barrier_pending(), "{elevator}");
        rig.lane.queue.set_outside(rig.now, Rest::Settled);
        rig.drain();
        assert!([soft, behind, hard].into_iter().all(|token| rig.result(token).is_ok()), "{elevator}");
    }
}

#[test]
fn a_soft_barrier_waits_for_other_queues_for_a_bounded_time() {
    let settings = Settings { barrier_timeout: Span::from_secs(7), ..Settings::default() };
    let mut rig = Rig::manual("none", settings, BACK);
    rig.lane.queue.set_outside(rig.now, Rest::Waits);
    let soft = rig.submit(Io::read(0, 512).with(Flags::SOFT_BARRIER));
    let behind = rig.submit(Io::read(8192, 512));
    rig.run();
    rig.pass();
    assert_eq!(rig.failure(soft), Some(Kind::Unsettled));
    assert_eq!(rig.failure(behind), Some(Kind::Cancelled));
    rig.drain();
}

/// A write whose preflush runs has not been started when the barrier comes, although no request of it is
/// queued.
#[test]
fn a_soft_barrier_stays_behind_what_is_done_in_steps() {
    for elevator in elevators() {
        for flags in [Flags::PREFLUSH, Flags::FUA, Flags::FUA | Flags::PREFLUSH] {
            let mut rig = Rig::manual(elevator, Settings::default(), BACK);
            rig.submit(Io::write(4096, 512).with(flags));
            rig.submit(Io::write(512, 512).with(Flags::SOFT_BARRIER | Flags::SYNC));
            rig.drain();
            let starts = rig.disk().starts();
            let writes: Vec<u64> = starts.iter().filter(|s| s.0 == Op::Write).map(|s| s.1).collect();
            assert_eq!(writes, [4096, 512], "{elevator} {flags:?}");
            assert_eq!(starts.last().map(|s| s.0), Some(Op::Write), "{elevator} {flags:?}");
        }
    }
}

#[test]
fn a_barrier_does_not_wait_for_the_plug() {
    for elevator in elevators() {
        let mut rig = Rig::manual(elevator, Settings { nr_requests: 2, ..Settings::default() }, THROUGH);
        for i in 0..6 {
            rig.submit(Io::write(i * 8192, 512));
        }
        let barrier = rig.submit(Io::write(PART, 512).with(Flags::HARD_BARRIER));
        let start = rig.now;
        for _ in 0..20 {
            rig.run();
            rig.disk().finish_all();
        }
        assert!(rig.is_done(barrier), "{elevator}");
        assert_eq!(rig.now, start);
    }
}

#[test]
fn a_failed_barrier_opens_the_queue_again() {
    for (flush_fails, bad) in [(100, None), (0, Some(PART / 512))] {
        let mut rig = Rig::manual("noop", Settings::default(), BACK);
        rig.disk().flush_fails = flush_fails;
        rig.disk().bad.extend(bad);
        let barrier = rig.submit(Io::write(PART, 512).with(Flags::HARD_BARRIER));
        let after = rig.submit(Io::write(0, 512));
        rig.drain();
        assert_eq!(rig.result(barrier).map_err(|fault| fault.kind), Err(Kind::Io));
        assert_eq!(rig.result(after), Ok(()));
        assert!(!rig.lane.queue.barrier_pending());
    }
}

#[test]
fn a_barrier_keeps_its_flags_for_the_next_time() {
    for flag in [Flags::SOFT_BARRIER, Flags::HARD_BARRIER] {
        let mut rig = Rig::manual("noop", Settings::default(), BACK);
        let bio = rig.bio(&Io::write(0, 8192).with(flag));
        rig.lane.queue.submit(rig.now, bio);
        let mut done = Vec::new();
        while done.is_empty() {
            platter_block::lane::Lane::run(&mut rig.lane, rig.now);
            rig.disk().finish_all();
            rig.lane.queue.take_done(&mut done);
        }
        assert_eq!(done[0].flags(), flag);
    }
}

/// A lane that is not polled does not hold up the device for ever.
#[test]
fn a_barrier_waits_for_other_queues_for_a_bounded_time() {
    for elevator in elevators() {
        let settings = Settings { barrier_timeout: Span::from_secs(7), ..Settings::default() };
        let mut rig = Rig::manual(elevator, settings, BACK);
        rig.lane.queue.set_outside(rig.now, Rest::Waits);
        let begin = rig.now;
        let barrier = rig.submit(Io::write(0, 512).with(Flags::HARD_BARRIER));
        let held = rig.submit(Io::read(8192, 512));
        rig.run();
        assert_eq!(rig.lane.next_wakeup(), Some(begin + Span::from_secs(7)), "{elevator}");
        rig.pass();
        assert_eq!(rig.failure(barrier), Some(Kind::Unsettled), "{elevator}");
        assert_eq!(rig.failure(held), Some(Kind::Cancelled), "{elevator}");
        assert_eq!((rig.lane.queue.stalled_barriers(), rig.lane.queue.barrier_pending()), (1, false));
        rig.model[..512].copy_from_slice(&rig.lane.driver().data[..512]);
        let after = rig.submit(Io::read(8192, 512));
        rig.drain();
        assert_eq!(rig.result(after), Ok(()), "{elevator}");
    }
}

/// The limit does not apply to requests of the barrier's own queue.
#[test]
fn a_barrier_waits_for_its_own_queue_for_any_time() {
    let mut rig = Rig::manual("noop", Settings::default(), BACK);
    let slow = rig.submit(Io::read(0, 512).with(Flags::SYNC));
    let barrier = rig.submit(Io::write(8192, 512).with(Flags::HARD_BARRIER));
    rig.lane.queue.set_outside(rig.now, Rest::Waits);
    rig.run();
    rig.lane.queue.set_outside(rig.now, Rest::Settled);
    assert_eq!(rig.lane.next_wakeup(), None);
    rig.now += Span::from_secs(3600);
    rig.run();
    assert!(!rig.is_done(slow) && !rig.is_done(barrier));
    rig.drain();
    assert_eq!((rig.result(slow), rig.result(barrier)), (Ok(()), Ok(())));
}
