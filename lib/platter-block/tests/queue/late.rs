//! Late bios: one that its submitter does not wait for any longer leaves the queue, wherever it waits.

use crate::disk::{FakeDisk, Mode};
use crate::flush::{BACK, THROUGH};
use crate::rig::{Io, Rig, elevators, elevators_within_the_pool, make_elevator};
use platter_block::bio::{Flags, Op};
use platter_block::driver::Features;
use platter_block::fault::Kind;
use platter_block::limits::Limits;
use platter_block::queue::{PlugSettings, Settings};

/// A disk under the test's control that takes one request, and has a slow one at its end.
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

/// These bios are late. They must end at once, with their memory; no other bio may end.
fn take_back(rig: &mut Rig, tokens: &[u64]) {
    let done = rig.done.len();
    tokens.iter().for_each(|&token| rig.late(token));
    rig.run();
    for &token in tokens {
        assert_eq!(rig.failure(token), Some(Kind::TimedOut), "{token}");
        assert!(!rig.has_memory(token), "it never reached the disk");
    }
    assert_eq!(rig.done.len(), done + tokens.len());
    assert!(rig.disk().cancelled.is_empty(), "the disk had none of them");
    assert_eq!(rig.counts().timeouts, tokens.len() as u64);
}

/// The disk continues, and all other bios must complete.
fn finish(mut rig: Rig, slow: u64, others: &[u64]) {
    rig.drain();
    for &token in others.iter().chain(&[slow]) {
        assert_eq!(rig.result(token), Ok(()));
    }
}

#[test]
fn a_bio_that_waits_for_its_turn_leaves() {
    for elevator in elevators() {
        for plug in [None, Some(PlugSettings::default())] {
            let (mut rig, slow) = busy(elevator, Settings { plug, ..Settings::default() }, THROUGH);
            let late = rig.submit(Io::write(0, 512));
            let other = rig.submit(Io::write(8192, 512));
            take_back(&mut rig, &[late]);
            assert_eq!(rig.disk().starts().len(), 1, "{elevator}");
            rig.model[..512].copy_from_slice(&rig.lane.driver().data[..512]);
            finish(rig, slow, &[other]);
        }
    }
}

/// A bio that fills the gap between two requests joins them. If all bios of the second one have left it, nothing is
/// written there.
#[test]
fn a_request_that_its_bios_have_left_writes_nothing_when_another_absorbs_it() {
    for elevator in elevators() {
        for both in [false, true] {
            let (mut rig, slow) = busy(elevator, Settings { plug: None, ..Settings::default() }, THROUGH);
            let front = match both {
                false => rig.submit(Io::write(0, 512)),
                true => rig.submit(Io::write(0, 512)),
            };
            let late = rig.submit(Io::write(1024, 512));
            let over = if both { vec![front, late] } else { vec![late] };
            take_back(&mut rig, &over);
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
fn a_bio_that_waits_for_a_request_leaves() {
    for elevator in elevators_within_the_pool() {
        let settings = Settings { nr_requests: 1, merges: false, ..Settings::default() };
        let (mut rig, slow) = busy(elevator, settings, THROUGH);
        let others: Vec<u64> = (1..4).map(|i| rig.submit(Io::read(i * 8192, 512))).collect();
        let late = rig.submit(Io::read(0, 512));
        assert!(rig.counts().request_waits > 0);
        take_back(&mut rig, &[late]);
        finish(rig, slow, &others);
    }
}

/// The request that it is part of starts without it, as single bios.
#[test]
fn a_bio_leaves_a_merged_request() {
    for elevator in elevators() {
        let (mut rig, slow) = busy(elevator, Settings { plug: None, ..Settings::default() }, THROUGH);
        let first = rig.submit(Io::write(0, 512));
        let late: Vec<u64> = [1, 3].iter().map(|i| rig.submit(Io::write(i * 512, 512))).collect();
        let second = rig.submit(Io::write(1024, 512));
        assert!(rig.counts().requests <= 4, "{elevator} merges");
        take_back(&mut rig, &late);
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
        let late: Vec<u64> = (0..4).map(|i| rig.submit(Io::read(i * 512, 512))).collect();
        take_back(&mut rig, &late);
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
        let late = rig.submit(Io::read(512, 512));
        take_back(&mut rig, &[late]);
        let behind = rig.submit(Io::read(1024, 512));
        let before = rig.submit(Io::read(0, 512));
        finish(rig, slow, &[behind, before]);
    }
}

#[test]
fn a_split_that_waits_leaves_with_all_its_pieces() {
    for elevator in elevators() {
        let (mut rig, slow) = busy(elevator, Settings { plug: None, ..Settings::default() }, THROUGH);
        let late = rig.submit(Io::read(0, 16384));
        take_back(&mut rig, &[late]);
        finish(rig, slow, &[]);
    }
}

#[test]
fn a_bio_behind_a_barrier_leaves() {
    for elevator in elevators() {
        let (mut rig, slow) = busy(elevator, Settings::default(), BACK);
        let barrier = rig.submit(Io::write(0, 512).with(Flags::HARD_BARRIER));
        let late = rig.submit(Io::read(8192, 512));
        let second = rig.submit(Io::flush().with(Flags::HARD_BARRIER));
        let other = rig.submit(Io::read(16384, 512));
        take_back(&mut rig, &[late]);
        assert!(rig.lane.queue.barrier_pending(), "{elevator}");
        finish(rig, slow, &[barrier, second, other]);
    }
}

/// A barrier that has not waited for what is before it has ordered nothing, so bios after it must fail too.
#[test]
fn a_late_barrier_takes_along_what_it_held() {
    for elevator in elevators() {
        for features in [THROUGH, BACK] {
            let (mut rig, slow) = busy(elevator, Settings::default(), features);
            let barrier = rig.submit(Io::flush().with(Flags::HARD_BARRIER));
            let held = rig.submit(Io::read(8192, 512));
            let second = rig.submit(Io::flush().with(Flags::HARD_BARRIER));
            rig.late(barrier);
            rig.run();
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
fn a_flush_that_waits_for_the_data_of_others_leaves() {
    for elevator in elevators() {
        let mut rig = Rig::manual(elevator, Settings::default(), BACK);
        let durable = rig.submit(Io::write(0, 512).with(Flags::FUA));
        rig.run();
        let late = rig.submit(Io::flush());
        let other = rig.submit(Io::flush());
        take_back(&mut rig, &[late]);
        rig.drain();
        assert_eq!((rig.result(other), rig.result(durable)), (Ok(()), Ok(())), "{elevator}");
    }
}

/// Each piece has an identity of its own, and so have the writes that stand for zeroes.
#[test]
fn of_a_bio_in_parts_only_what_the_disk_has_is_waited_for() {
    for elevator in elevators() {
        for op in [Op::Read, Op::Write, Op::WriteZeroes] {
            let limits = Limits::unlimited(512).with_max_transfer(4096).with_write_zeroes(false);
            let mut disk = FakeDisk::new(1 << 20, limits, THROUGH, 1);
            disk.mode = Mode::Manual;
            let mut rig =
                Rig::with(disk, Settings { depth: 2, ..Settings::default() }, make_elevator(elevator));
            let late = rig.submit(Io::new(op, 0, 65536));
            rig.lane.queue.unplug_for_waiter(rig.now);
            rig.run();
            assert_eq!(rig.disk().held.len(), 2, "{elevator} {op}");
            rig.late(late);
            rig.run();
            assert_eq!(rig.disk().cancelled.len(), 2, "{elevator} {op}");
            assert_eq!((rig.is_done(late), rig.has_memory(late)), (false, op.has_data()));
            rig.disk().finish(1);
            rig.run();
            assert!(!rig.is_done(late), "{elevator} {op}");
            rig.disk().finish(0);
            rig.run();
            assert_eq!(
                rig.failure(late),
                Some(Kind::TimedOut),
                "{elevator} {op}: the rest was not carried out"
            );
            rig.drain();
            assert_eq!(rig.disk().starts().len(), 2, "{elevator} {op}");
        }
    }
}

/// Also over borrowed memory, and without memory: the submitter gets its own bio.
#[test]
fn what_the_disk_has_ends_with_its_result_and_its_memory() {
    for elevator in elevators() {
        for (op, flags) in [
            (Op::Read, Flags::NONE),
            (Op::Write, Flags::BORROWED),
            (Op::Discard, Flags::BORROWED),
            (Op::WriteZeroes, Flags::NONE),
        ] {
            let mut rig = Rig::manual(elevator, Settings::default(), THROUGH);
            let late = rig.submit(Io::new(op, 0, 4096).with(flags));
            rig.lane.queue.unplug_for_waiter(rig.now);
            rig.run();
            let tag = rig.disk().held[0].tag;
            rig.late(late);
            rig.run();
            assert_eq!(rig.disk().cancelled, [tag], "{elevator} {op}");
            assert_eq!((rig.is_done(late), rig.has_memory(late)), (false, op.has_data()), "{elevator} {op}");
            rig.drain();
            assert_eq!(rig.result(late), Ok(()), "{elevator} {op}");
            assert_eq!(rig.counts().timeouts, 0);
        }
    }
}
