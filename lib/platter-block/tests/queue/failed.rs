//! Devices that have failed, and those that work again.

use crate::disk::{FakeDisk, Mode};
use crate::flush::{BACK, THROUGH};
use crate::rig::{Io, Queued, Rig, elevators, make_elevator};
use crate::silence::{disk, limited, on_all_queues, rig, settle, submit};
use platter_block::bio::{Flags, Op};
use platter_block::fault::{Fault, Kind, Stage, Status};
use platter_block::limits::Limits;
use platter_block::queue::{Ordered, Settings, Watch};
use std::sync::{Arc, Mutex};

/// The failed changes have not reached the disk.
fn forget<L: Queued>(rig: &mut Rig<L>, range: std::ops::Range<usize>) {
    rig.model[range.clone()].copy_from_slice(&rig.lane.driver().data[range]);
}

/// The disk takes one request and has it; everything else waits, and ends when the device fails.
#[test]
fn on_a_failed_device_only_what_the_disk_has_goes_on() {
    fn test<L: Queued>(name: &str, mut rig: Rig<L>) {
        let started = submit(&mut rig, Io::read(1 << 19, 512));
        let mut queued: Vec<u64> = (0..6).map(|i| rig.submit(Io::read(i * 512, 512))).collect();
        queued.push(rig.submit(Io::read(1 << 18, 16384)));
        queued.push(rig.submit(Io::new(Op::Discard, 1 << 17, 4096)));
        rig.run();
        rig.lane.set_failed(rig.now, true);
        rig.run();
        for &token in &queued {
            assert_eq!(rig.failure(token), Some(Kind::Gone), "{name} {token}");
        }
        let new = submit(&mut rig, Io::write(8192, 512));
        assert_eq!(rig.result(new), Err(Fault::new(Kind::Gone, Stage::Queue)), "{name}");
        assert!(!rig.is_done(started) && rig.has_memory(started), "{name}");
        rig.disk().finish(0);
        rig.run();
        assert_eq!(rig.result(started), Ok(()), "{name}");
        rig.drain();
        let new = submit(&mut rig, Io::read(8192, 512));
        assert_eq!(rig.failure(new), Some(Kind::Gone), "{name}: its owner says when it works again");
        rig.lane.set_failed(rig.now, false);
        rig.lane.recovered();
        let new = submit(&mut rig, Io::read(8192, 512));
        settle(&mut rig);
        assert_eq!((rig.result(new), rig.disk().starts().len()), (Ok(()), 2), "{name}");
    }
    on_all_queues!(Settings { depth: 1, nr_requests: 3, ..limited() }, test);
}

#[test]
fn what_a_failed_disk_returns_is_not_retried() {
    fn test<L: Queued>(name: &str, mut rig: Rig<L>) {
        for (result, kind) in
            // Errors that pass say nothing of the disk, which is gone.
            [(-5, Kind::Io), (-11, Kind::Gone), (512, Kind::Short), (-125, Kind::Gone)]
        {
            let starts = rig.disk().starts().len();
            let token = submit(&mut rig, Io::read(0, 1024));
            rig.lane.set_failed(rig.now, true);
            rig.disk().finish_with(0, result);
            rig.run();
            assert_eq!(rig.failure(token), Some(kind), "{name}");
            rig.lane.set_failed(rig.now, false);
            rig.run();
            assert_eq!(rig.disk().starts().len(), starts + 1, "{name}");
            rig.check_idle();
        }
    }
    on_all_queues!(limited(), test);
}

#[test]
fn a_bio_that_pauses_ends_when_the_device_fails() {
    fn test<L: Queued>(name: &str, mut rig: Rig<L>) {
        let token = submit(&mut rig, Io::read(0, 1024));
        rig.disk().finish_with(0, -11);
        rig.run();
        assert!(!rig.is_done(token), "{name}");
        rig.lane.set_failed(rig.now, true);
        rig.run();
        assert_eq!(rig.failure(token), Some(Kind::Gone), "{name}");
        rig.check_idle();
    }
    on_all_queues!(limited(), test);
}

/// Barriers, what they hold, flushes, durable writes: nothing of them has started.
#[test]
fn barriers_and_flushes_that_wait_end_when_the_device_fails() {
    for elevator in elevators() {
        for first in [
            Io::flush(),
            Io::flush().with(Flags::HARD_BARRIER),
            Io::write(0, 512).with(Flags::HARD_BARRIER),
            Io::write(0, 512).with(Flags::SOFT_BARRIER),
            Io::write(0, 512).with(Flags::SOFT_BARRIER | Flags::FUA),
            Io::write(0, 512).with(Flags::FUA),
            Io::write(0, 512).with(Flags::PREFLUSH),
        ] {
            let mut rig = Rig::with(disk(BACK), Settings { depth: 1, ..limited() }, make_elevator(elevator));
            let started = submit(&mut rig, Io::read(1 << 19, 512));
            let ios =
                [first.clone(), Io::flush(), Io::read(8192, 512), Io::flush().with(Flags::HARD_BARRIER)];
            let tokens = ios.map(|io| rig.submit(io));
            rig.run();
            rig.lane.queue.set_failed(rig.now, true);
            rig.run();
            for token in tokens {
                assert_eq!(rig.failure(token), Some(Kind::Gone), "{elevator} {first:?}");
            }
            assert!(!rig.lane.queue.barrier_pending(), "{elevator}");
            forget(&mut rig, 0..512);
            settle(&mut rig);
            assert_eq!((rig.result(started), rig.disk().starts().len()), (Ok(()), 1), "{elevator}");
            assert_eq!(rig.lane.queue.flush_failure(), None, "{elevator}: no flush was sent");
            rig.lane.queue.set_failed(rig.now, false);
            let again = [Io::flush(), Io::flush().with(Flags::HARD_BARRIER)].map(|io| rig.submit(io));
            rig.drain();
            assert!(again.iter().all(|&token| rig.result(token).is_ok()), "{elevator}");
        }
    }
}

/// What was sent of a sequence ends with the driver's result; the next step is not sent.
#[test]
fn a_sequence_ends_with_the_step_that_the_disk_has_when_it_failed() {
    for elevator in elevators() {
        for flags in [Flags::FUA | Flags::PREFLUSH, Flags::HARD_BARRIER] {
            for step in 0..3 {
                let mut rig = rig(elevator, BACK);
                let token = submit(&mut rig, Io::write(0, 512).with(flags));
                (0..step).for_each(|_| rig.complete_one());
                assert_eq!((rig.disk().held.len(), rig.disk().starts().len()), (1, step + 1), "{elevator}");
                rig.lane.queue.set_failed(rig.now, true);
                rig.run();
                assert!(!rig.is_done(token), "{elevator} {flags:?} {step}");
                rig.disk().finish(0);
                rig.run();
                let kind = if step < 2 { Some(Kind::Gone) } else { None };
                assert_eq!(rig.failure(token), kind, "{elevator} {flags:?} {step}");
                assert_eq!(rig.disk().starts().len(), step + 1, "{elevator} {flags:?} {step}");
                assert_eq!(rig.lane.queue.flush_failure(), None);
                rig.check_idle();
            }
        }
    }
}

#[test]
fn zeroes_are_not_written_any_more_when_the_device_has_failed() {
    for elevator in elevators() {
        let limits = Limits::unlimited(512).with_max_transfer(4096).with_write_zeroes(false);
        let mut disk = FakeDisk::new(1 << 20, limits, THROUGH, 1);
        disk.mode = Mode::Manual;
        let mut rig = Rig::with(disk, limited(), make_elevator(elevator));
        let token = submit(&mut rig, Io::new(Op::WriteZeroes, 0, 1 << 19));
        let starts = rig.disk().starts().len();
        rig.lane.queue.set_failed(rig.now, true);
        settle(&mut rig);
        assert_eq!((rig.failure(token), rig.disk().starts().len()), (Some(Kind::Gone), starts), "{elevator}");
    }
}

/// Writes that had completed may be lost, and a program learns that from a flush.
#[test]
fn the_first_flush_after_a_failure_fails_once() {
    for elevator in elevators() {
        let flushes = [
            Io::flush(),
            Io::write(0, 512).with(Flags::FUA),
            Io::write(0, 512).with(Flags::PREFLUSH),
            Io::write(0, 512).with(Flags::HARD_BARRIER),
            Io::flush().with(Flags::HARD_BARRIER),
        ];
        for (ordered, io) in
            [Ordered::Drain, Ordered::Tag].into_iter().flat_map(|o| flushes.clone().map(|io| (o, io)))
        {
            let settings = Settings { ordered, ..limited() };
            let mut rig = Rig::with(disk(BACK.with_ordered_tags(true)), settings, make_elevator(elevator));
            rig.lane.queue.set_failed(rig.now, true);
            rig.lane.queue.set_failed(rig.now, false);
            rig.lane.queue.recovered();
            let plain = rig.submit(Io::write(8192, 512));
            rig.drain();
            assert_eq!(rig.result(plain), Ok(()), "{elevator}: it is not about writes");
            let first = rig.submit(io.clone());
            rig.drain();
            assert_eq!(rig.failure(first), Some(Kind::FlushFailed), "{elevator} {ordered:?} {io:?}");
            assert_eq!(rig.lane.queue.flush_failure(), None, "nothing to acknowledge");
            let second = rig.submit(io.clone());
            rig.drain();
            assert_eq!(rig.result(second), Ok(()), "{elevator} {ordered:?} {io:?}");
        }
    }
}

/// Without a volatile cache there is nothing that could be lost.
#[test]
fn a_disk_without_a_cache_loses_nothing() {
    for elevator in elevators() {
        let mut rig = rig(elevator, THROUGH);
        rig.lane.queue.recovered();
        let flush = rig.submit(Io::flush());
        rig.drain();
        assert_eq!(rig.result(flush), Ok(()), "{elevator}");
    }
}

#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<Status>>>);

impl Watch for Notes {
    fn flushed(&mut self, status: Status) {
        self.0.lock().unwrap().push(status);
    }
}

/// The other queues of the device may flush again.
#[test]
fn a_watch_is_told_that_a_flush_was_not_sent() {
    for elevator in elevators() {
        let mut rig = Rig::with(disk(BACK), Settings { depth: 1, ..limited() }, make_elevator(elevator));
        let notes = Notes::default();
        rig.lane.queue.set_watch(Some(Box::new(notes.clone())));
        submit(&mut rig, Io::read(1 << 19, 512));
        rig.submit(Io::flush());
        rig.run();
        rig.lane.queue.set_failed(rig.now, true);
        assert_eq!(*notes.0.lock().unwrap(), [Err(Fault::new(Kind::Gone, Stage::Queue))], "{elevator}");
        settle(&mut rig);
    }
}

/// A step that was not sent is not sent any more, and nothing behind the barrier was sent before it.
#[test]
fn an_ordered_tag_of_which_the_disk_has_a_part_ends_with_that_part() {
    for elevator in elevators() {
        let settings = Settings { ordered: Ordered::Tag, depth: 1, ..limited() };
        let mut rig = Rig::with(disk(BACK.with_ordered_tags(true)), settings, make_elevator(elevator));
        let barrier = rig.submit(Io::write(0, 512).with(Flags::HARD_BARRIER));
        let behind = rig.submit(Io::read(8192, 512));
        rig.run();
        assert_eq!((rig.counts().barriers_tagged, rig.disk().starts().len()), (1, 1), "{elevator}");
        rig.lane.queue.set_failed(rig.now, true);
        rig.run();
        assert_eq!((rig.is_done(barrier), rig.failure(behind)), (false, Some(Kind::Gone)), "{elevator}");
        rig.disk().finish(0);
        rig.run();
        assert_eq!((rig.failure(barrier), rig.disk().starts().len()), (Some(Kind::Gone), 1), "{elevator}");
        forget(&mut rig, 0..512);
        rig.drain();
        rig.lane.queue.set_failed(rig.now, false);
        let again = rig.submit(Io::write(0, 512).with(Flags::HARD_BARRIER));
        settle(&mut rig);
        assert_eq!(rig.result(again), Ok(()), "{elevator}");
    }
}
