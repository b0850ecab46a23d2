//! Ranges that a timed-out request may still change, and the I/O that waits for them.

use crate::flush::{BACK, BACK_FUA, THROUGH};
use crate::rig::{Io, Rig, elevators};
use crate::timeout::{LATE, expire, rig, settle, submit};
use platter_block::bio::{Flags, Op};
use platter_block::fault::Kind;
use platter_block::queue::Watch;
use platter_block::time::Time;
use std::sync::{Arc, Mutex};

/// A queue with a write of the first 4 KiB that has timed out and that the disk still has.
fn in_doubt(elevator: &str, op: Op) -> (Rig, u64) {
    let mut rig = rig(elevator, BACK);
    let token = submit(&mut rig, Io::new(op, 0, 4096).with(Flags::SYNC));
    rig.now += LATE;
    rig.run();
    assert_eq!(rig.failure(token), Some(Kind::TimedOut));
    (rig, token)
}

/// Lets the disk complete its first request.
fn come_back(rig: &mut Rig) {
    rig.disk().finish(0);
    rig.run();
    rig.run();
}

#[test]
fn what_overlaps_waits_until_the_disk_lets_go() {
    for elevator in elevators() {
        for op in [Op::Write, Op::Discard, Op::WriteZeroes] {
            let (mut rig, _) = in_doubt(elevator, op);
            assert!(rig.lane.queue.is_in_doubt());
            let over = [Io::write(0, 512), Io::read(3584, 1024), Io::new(Op::Discard, 0, 8192)]
                .map(|io| submit(&mut rig, io.with(Flags::SYNC | Flags::NOMERGE)));
            let beside = submit(&mut rig, Io::write(4096 + 512, 512).with(Flags::SYNC));
            let starts = rig.disk().starts();
            assert_eq!(starts.len(), 2, "{elevator} {op}: {starts:?}");
            rig.disk().finish(1);
            rig.run();
            assert_eq!(rig.result(beside), Ok(()));
            // Overlapping bios of a test have no order among themselves, so they come one by one.
            assert!(over.iter().all(|&token| !rig.is_done(token)));
            rig.model[..8192].copy_from_slice(&rig.lane.driver().data[..8192]);
            come_back(&mut rig);
            assert!(!rig.lane.queue.is_in_doubt());
            assert_eq!(rig.disk().starts().len(), 5, "{elevator} {op}");
        }
    }
}

#[test]
fn a_read_that_timed_out_leaves_nothing_in_doubt() {
    for elevator in elevators() {
        let (mut rig, _) = in_doubt(elevator, Op::Read);
        assert!(!rig.lane.queue.is_in_doubt());
        for io in [Io::write(0, 4096), Io::flush(), Io::write(8192, 512).with(Flags::HARD_BARRIER)] {
            let token = submit(&mut rig, io.with(Flags::SYNC));
            while !rig.is_done(token) {
                rig.disk().finish(1);
                rig.run();
            }
            assert_eq!(rig.result(token), Ok(()), "{elevator}: the read does not hold it up");
        }
        settle(&mut rig);
    }
}

#[test]
fn what_waits_for_a_range_in_doubt_ends_by_its_deadline() {
    for elevator in elevators() {
        let (mut rig, _) = in_doubt(elevator, Op::Write);
        let at = Time(rig.now.0.next_multiple_of(1024) + 1024 * 1024);
        let own = rig.submit_until(Io::read(0, 512), at);
        let disks = submit(&mut rig, Io::read(512, 512).with(Flags::SYNC));
        while !rig.is_done(own) {
            rig.pass();
        }
        assert_eq!((rig.now, rig.failure(own)), (at, Some(Kind::InDoubt)), "{elevator}");
        assert!(!rig.has_memory(own) && !rig.is_done(disks));
        rig.pass();
        assert_eq!(rig.failure(disks), Some(Kind::InDoubt), "{elevator}: the timeout of the disk");
        settle(&mut rig);
    }
}

#[test]
fn no_flush_succeeds_while_a_range_is_in_doubt() {
    for elevator in elevators() {
        for features in [THROUGH, BACK, BACK_FUA] {
            let mut rig = rig(elevator, features);
            // A request that was sent before the write times out counts too.
            let stuck = submit(&mut rig, Io::write(0, 512).with(Flags::SYNC));
            rig.now += LATE;
            let before = rig.submit(Io::flush());
            rig.run();
            assert_eq!(rig.failure(stuck), Some(Kind::TimedOut));
            let orders = [
                Io::flush(),
                Io::write(8192, 512).with(Flags::PREFLUSH),
                Io::write(8192, 512).with(Flags::HARD_BARRIER),
                Io::flush().with(Flags::SOFT_BARRIER),
            ];
            for io in orders {
                let token = submit(&mut rig, io);
                assert_eq!(rig.failure(token), Some(Kind::InDoubt), "{elevator} {features:?}");
            }
            if features.write_cache {
                rig.disk().finish(1);
                rig.run();
                assert_eq!(rig.failure(before), Some(Kind::InDoubt), "{elevator}: it was under way");
            }
            rig.model[8192..8704].copy_from_slice(&rig.lane.driver().data[8192..8704]);
            settle(&mut rig);
            assert_eq!(rig.lane.queue.flush_failure(), None, "nothing that had completed was lost");
            let flush = rig.submit(Io::flush());
            rig.drain();
            assert_eq!(rig.result(flush), Ok(()), "{elevator}");
        }
    }
}

/// A barrier that waits for a change which may come at any time orders nothing, so no later I/O may succeed either.
#[test]
fn a_barrier_fails_with_the_request_that_it_waits_for() {
    for elevator in elevators() {
        let mut rig = rig(elevator, BACK);
        let stuck = submit(&mut rig, Io::write(0, 512).with(Flags::SYNC));
        rig.now += LATE;
        let barrier = rig.submit(Io::write(8192, 512).with(Flags::HARD_BARRIER));
        let held = [Io::read(16384, 512), Io::write(24576, 512), Io::flush()].map(|io| rig.submit(io));
        rig.run();
        assert_eq!(rig.failure(stuck), Some(Kind::TimedOut));
        assert_eq!(rig.failure(barrier), Some(Kind::InDoubt));
        for token in held {
            assert_eq!(rig.failure(token), Some(Kind::Cancelled), "{elevator}");
        }
        assert!(!rig.lane.queue.barrier_pending());
        let other = submit(&mut rig, Io::read(16384, 512).with(Flags::SYNC));
        rig.disk().finish(1);
        rig.run();
        assert_eq!(rig.result(other), Ok(()), "the queue is open");
        for range in [8192..8704, 24576..25088] {
            rig.model[range.clone()].copy_from_slice(&rig.lane.driver().data[range]);
        }
        settle(&mut rig);
    }
}

/// A quarantined read stops no barrier: it changes nothing.
#[test]
fn a_barrier_passes_a_read_that_timed_out() {
    for elevator in elevators() {
        let mut rig = rig(elevator, BACK);
        let stuck = submit(&mut rig, Io::read(0, 512).with(Flags::SYNC));
        rig.now += LATE;
        let barrier = rig.submit(Io::write(8192, 512).with(Flags::HARD_BARRIER));
        let behind = rig.submit(Io::read(16384, 512));
        rig.run();
        assert_eq!(rig.failure(stuck), Some(Kind::TimedOut));
        while !rig.is_done(behind) {
            rig.disk().finish(1);
            rig.lane.queue.unplug_for_waiter(rig.now);
            rig.run();
        }
        assert_eq!((rig.result(barrier), rig.result(behind)), (Ok(()), Ok(())), "{elevator}");
        settle(&mut rig);
    }
}

/// A soft barrier cannot pass bios that are held before it, and later bios cannot pass the barrier.
#[test]
fn a_soft_barrier_does_not_pass_what_is_held() {
    for elevator in elevators() {
        let (mut rig, _) = in_doubt(elevator, Op::Write);
        let held = submit(&mut rig, Io::read(0, 512).with(Flags::SYNC));
        let soft = submit(&mut rig, Io::write(8192, 512).with(Flags::SOFT_BARRIER));
        assert!(!rig.is_done(held));
        assert_eq!(rig.failure(soft), Some(Kind::InDoubt), "{elevator}");
        assert_eq!(rig.disk().starts().len(), 1);
        rig.model[8192..8704].copy_from_slice(&rig.lane.driver().data[8192..8704]);
        settle(&mut rig);
        assert_eq!(rig.result(held), Ok(()));
    }
}

/// A range falls in doubt while writes and a soft barrier wait for depth: the write before the barrier that overlaps the range
/// fails, because the barrier and what follows must not pass it, and the rest is carried out in order.
#[test]
fn a_doubt_that_arises_before_a_soft_barrier_starts_does_not_let_it_pass() {
    for elevator in elevators() {
        for own in [false, true] {
            let mut rig = rig(elevator, THROUGH);
            rig.lane.queue.set_depth(2);
            let stuck = submit(&mut rig, Io::write(0, 4096).with(Flags::SYNC));
            let slow = submit(&mut rig, Io::read(1 << 19, 512).with(Flags::BORROWED | Flags::SYNC));
            rig.now += LATE;
            // A neighbour beside the range merges with a write that overlaps it.
            let before = [3584, 4096].map(|pos| rig.submit(Io::write(pos, 512)));
            let soft = rig.submit(Io::write(if own { 512 } else { 8192 }, 512).with(Flags::SOFT_BARRIER));
            let after = rig.submit(Io::write(16384, 512));
            rig.run();
            assert_eq!(rig.failure(stuck), Some(Kind::TimedOut), "{elevator}");
            rig.disk().finish(1);
            rig.run();
            assert!(rig.is_done(slow));
            while !rig.is_done(after) {
                rig.disk().finish(1);
                rig.lane.queue.unplug_for_waiter(rig.now);
                rig.run();
            }
            assert_eq!(rig.failure(before[0]), Some(Kind::InDoubt), "{elevator}, own range {own}");
            assert_eq!((rig.result(before[1]), rig.result(after)), (Ok(()), Ok(())), "{elevator}");
            assert_eq!(rig.failure(soft), own.then_some(Kind::InDoubt), "{elevator}");
            let places: Vec<u64> = rig.disk().starts().iter().skip(2).map(|start| start.1).collect();
            let expected = [4096, 8192, 16384];
            let barrier = usize::from(own);
            assert!(
                places.iter().eq(expected.iter().filter(|&&at| barrier == 0 || at != 8192)),
                "{places:?}"
            );
            rig.model[3584..4096].copy_from_slice(&rig.lane.driver().data[3584..4096]);
            settle(&mut rig);
        }
    }
}

/// Doubt is about the bios that were given up; other bios of the same request with time left are not in doubt.
#[test]
fn the_range_in_doubt_is_that_of_the_bios_given_up() {
    for elevator in elevators() {
        let mut rig = rig(elevator, THROUGH);
        rig.lane.queue.freeze();
        let at = Time(1024 * 1024);
        let late = rig.submit_until(Io::write(512, 512), at);
        let others = [1024, 1536].map(|pos| rig.submit(Io::write(pos, 512)));
        rig.lane.queue.unfreeze();
        rig.run();
        assert_eq!(rig.disk().starts(), [(Op::Write, 512, 1536, false)], "{elevator}");
        rig.now = at;
        rig.run();
        assert_eq!(rig.failure(late), Some(Kind::TimedOut));
        assert_eq!(rig.lane.queue.quarantined(), 0, "the request is still waited for");
        let beside = submit(&mut rig, Io::write(0, 512).with(Flags::NOMERGE));
        let over = submit(&mut rig, Io::write(512, 512).with(Flags::NOMERGE));
        assert_eq!(rig.disk().starts().len(), 2, "{elevator}");
        settle(&mut rig);
        for token in others.iter().chain(&[beside, over]) {
            assert_eq!(rig.result(*token), Ok(()), "{elevator}");
        }
    }
}

/// A bio that was waiting when the doubt arose, alone or as part of a request, is held as well.
#[test]
fn nothing_that_overlaps_starts_however_it_was_queued() {
    for elevator in elevators() {
        let mut rig = rig(elevator, THROUGH);
        rig.lane.queue.set_depth(2);
        let stuck = submit(&mut rig, Io::write(4096, 4096).with(Flags::SYNC));
        let slow = submit(&mut rig, Io::read(1 << 19, 512).with(Flags::BORROWED | Flags::SYNC));
        rig.now += LATE;
        // Neighbours that merge; the middle one touches the range that will be in doubt.
        let over: Vec<u64> = [3072, 3584, 8192].iter().map(|&pos| rig.submit(Io::read(pos, 512))).collect();
        let touching = rig.submit(Io::read(7680, 512));
        rig.run();
        assert_eq!(rig.failure(stuck), Some(Kind::TimedOut));
        rig.disk().finish(1);
        rig.run();
        assert!(rig.is_done(slow));
        for _ in 0..8 {
            rig.lane.queue.unplug_for_waiter(rig.now);
            rig.run();
            if rig.disk().held.len() > 1 {
                rig.disk().finish(1);
            }
        }
        assert!(over.iter().all(|&token| rig.result(token).is_ok()), "{elevator}");
        assert!(!rig.is_done(touching), "{elevator}");
        settle(&mut rig);
        assert_eq!(rig.result(touching), Ok(()));
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Told {
    InDoubt(u32, u64, u64),
    Quarantined(u32),
    Returned(u32),
}

#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<Told>>>);

impl Notes {
    fn take(&self) -> Vec<Told> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Watch for Notes {
    fn in_doubt(&mut self, tag: u32, pos: u64, len: u64) {
        self.0.lock().unwrap().push(Told::InDoubt(tag, pos, len));
    }

    fn quarantined(&mut self, tag: u32) {
        self.0.lock().unwrap().push(Told::Quarantined(tag));
    }

    fn returned(&mut self, tag: u32) {
        self.0.lock().unwrap().push(Told::Returned(tag));
    }
}

/// Other queues of a device learn of the doubt before the submitter does.
#[test]
fn a_watch_is_told_of_each_range_and_of_its_return() {
    let mut rig = rig("none", THROUGH);
    let notes = Notes::default();
    rig.lane.queue.set_watch(Some(Box::new(notes.clone())));
    let (write, read) = (rig.submit(Io::write(0, 1024)), rig.submit(Io::read(8192, 512)));
    rig.run();
    let tags: Vec<u32> = rig.disk().held.iter().map(|held| held.tag).collect();
    rig.now += LATE;
    rig.lane.queue.tick(rig.now);
    assert_eq!(notes.take().len(), 3);
    rig.run();
    assert!(rig.is_done(write) && rig.is_done(read));
    rig.disk().finish_with(0, -5);
    rig.run();
    assert_eq!(notes.take(), [Told::Returned(tags[0])]);
    rig.disk().finish(0);
    rig.run();
    assert_eq!(notes.take(), [Told::Returned(tags[1])]);
}

/// Ranges of other queues count like the queue's own.
#[test]
fn ranges_of_other_queues_are_in_doubt_too() {
    for elevator in elevators() {
        let mut rig = rig(elevator, BACK);
        rig.lane.queue.set_outside_doubts(rig.now, [(4096, 8192)].into_iter());
        let over = submit(&mut rig, Io::write(8192 - 512, 1024).with(Flags::SYNC));
        let flush = submit(&mut rig, Io::flush());
        let beside = submit(&mut rig, Io::write(16384, 512).with(Flags::SYNC));
        assert_eq!(rig.failure(flush), Some(Kind::InDoubt), "{elevator}");
        assert_eq!(rig.disk().starts().len(), 1, "{elevator}");
        rig.disk().finish(0);
        rig.run();
        assert_eq!(rig.result(beside), Ok(()));
        rig.lane.queue.set_outside_doubts(rig.now, std::iter::empty());
        rig.drain();
        assert_eq!(rig.result(over), Ok(()), "{elevator}");
    }
}

/// Each piece of a split is in doubt on its own.
#[test]
fn pieces_of_a_split_are_in_doubt_one_by_one() {
    for elevator in elevators() {
        let mut rig = rig(elevator, THROUGH);
        let token = submit(&mut rig, Io::write(0, 16384).with(Flags::SYNC));
        assert_eq!(rig.disk().held.len(), 4, "{elevator}");
        rig.disk().finish(0);
        rig.disk().finish(0);
        rig.run();
        expire(&mut rig, token);
        let beside = submit(&mut rig, Io::read(0, 8192).with(Flags::SYNC));
        let over = submit(&mut rig, Io::read(8192, 512).with(Flags::SYNC));
        assert_eq!(rig.disk().held.len(), 4, "{elevator}");
        rig.model[8192..16384].copy_from_slice(&rig.lane.driver().data[8192..16384]);
        rig.disk().finish_with(0, -5);
        rig.disk().finish_with(0, -5);
        rig.drain();
        assert_eq!((rig.result(beside), rig.result(over)), (Ok(()), Ok(())), "{elevator}");
    }
}
