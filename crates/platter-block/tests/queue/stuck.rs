//! Requests that have timed out and fill the depth.

use crate::flush::{BACK, THROUGH};
use crate::rig::{Io, Rig, elevators};
use crate::timeout::{LATE, rig, settle, submit};
use platter_block::bio::{Flags, Op};
use platter_block::fault::Kind;

/// A queue of depth 4 with `stuck` reads that have timed out.
fn with_stuck(elevator: &str, stuck: u64) -> Rig {
    let mut rig = rig(elevator, BACK);
    rig.lane.queue.set_depth(4);
    let tokens: Vec<u64> =
        (0..stuck).map(|i| submit(&mut rig, Io::read(i * 8192, 512).with(Flags::SYNC))).collect();
    rig.now += LATE;
    rig.run();
    assert!(tokens.iter().all(|&token| rig.failure(token) == Some(Kind::TimedOut)));
    assert_eq!(rig.lane.queue.quarantined(), stuck as u32);
    rig
}

#[test]
fn with_all_of_the_depth_gone_what_is_submitted_fails_at_once() {
    for elevator in elevators() {
        let mut rig = with_stuck(elevator, 4);
        let ios = [
            Io::read(1 << 19, 512),
            Io::write(1 << 19, 16384),
            Io::flush(),
            Io::write(0, 512).with(Flags::FUA),
            Io::flush().with(Flags::HARD_BARRIER),
            Io::write(0, 512).with(Flags::SOFT_BARRIER),
        ];
        for io in ios {
            let token = submit(&mut rig, io);
            assert_eq!(rig.failure(token), Some(Kind::Stuck), "{elevator}");
        }
        assert!(!rig.lane.queue.barrier_pending());
        for range in [0..512usize, 1 << 19..(1 << 19) + 16384] {
            rig.model[range.clone()].copy_from_slice(&rig.lane.driver().data[range]);
        }
        // One comes back, and the queue works again.
        rig.disk().finish(0);
        rig.run();
        let token = submit(&mut rig, Io::read(1 << 19, 512).with(Flags::SYNC));
        rig.disk().finish(3);
        rig.run();
        assert_eq!(rig.result(token), Ok(()), "{elevator}");
        settle(&mut rig);
    }
}

#[test]
fn what_was_queued_fails_when_the_last_of_the_depth_goes() {
    for elevator in elevators() {
        let mut rig = rig(elevator, BACK);
        rig.lane.queue.set_depth(4);
        let out: Vec<u64> =
            (0..4).map(|i| submit(&mut rig, Io::read(i * 8192, 512).with(Flags::SYNC))).collect();
        rig.now += LATE;
        let mut queued: Vec<u64> = (0..8).map(|i| rig.submit(Io::read((1 << 19) + i * 512, 512))).collect();
        queued.push(rig.submit(Io::write(1 << 18, 512).with(Flags::SOFT_BARRIER)));
        queued.push(rig.submit(Io::flush()));
        queued.push(rig.submit(Io::flush().with(Flags::HARD_BARRIER)));
        queued.push(rig.submit(Io::read(1 << 17, 512)));
        rig.run();
        assert!(out.iter().all(|&token| rig.failure(token) == Some(Kind::TimedOut)), "{elevator}");
        for &token in &queued {
            assert_eq!(rig.failure(token), Some(Kind::Stuck), "{elevator} {token}");
            assert!(!rig.has_memory(token));
        }
        let at = 1 << 18;
        rig.model[at..at + 512].copy_from_slice(&rig.lane.driver().data[at..at + 512]);
        settle(&mut rig);
        let again =
            [Io::read(0, 512), Io::flush(), Io::flush().with(Flags::HARD_BARRIER)].map(|io| rig.submit(io));
        rig.drain();
        assert!(again.iter().all(|&token| rig.result(token).is_ok()), "{elevator}: all works again");
    }
}

#[test]
fn with_some_of_the_depth_left_the_rest_works() {
    for elevator in elevators() {
        let mut rig = with_stuck(elevator, 3);
        for i in 0..8 {
            let token = submit(&mut rig, Io::read((1 << 19) + i * 8192, 512).with(Flags::SYNC));
            assert_eq!(rig.disk().held.len(), 4);
            rig.disk().finish(3);
            rig.run();
            assert_eq!(rig.result(token), Ok(()), "{elevator}");
        }
        settle(&mut rig);
    }
}

/// A flush that is stuck takes depth like any other request.
#[test]
fn a_stuck_flush_counts() {
    for elevator in elevators() {
        let mut rig = rig(elevator, BACK);
        rig.lane.queue.set_depth(1);
        let flush = rig.submit(Io::flush());
        rig.run();
        rig.now += LATE;
        rig.run();
        assert_eq!(rig.failure(flush), Some(Kind::TimedOut));
        let read = submit(&mut rig, Io::read(0, 512));
        assert_eq!(rig.failure(read), Some(Kind::Stuck), "{elevator}");
        settle(&mut rig);
        let read = rig.submit(Io::read(0, 512));
        rig.drain();
        assert_eq!(rig.result(read), Ok(()), "{elevator}");
    }
}

/// A part of a split write that is with the driver may reach the disk after the parts behind it were refused. The
/// write must not be reported as not carried out.
#[test]
fn a_write_with_a_part_in_doubt_fails_as_timed_out() {
    for elevator in elevators() {
        for flags in [Flags::NONE, Flags::PREFLUSH] {
            let mut rig = rig(elevator, THROUGH);
            rig.lane.queue.set_depth(1);
            let token = submit(&mut rig, Io::write(0, 12288).with(flags));
            assert_eq!(rig.disk().starts(), [(Op::Write, 0, 4096, false)], "{elevator}");
            // The requests that hold the depth of the device belong to another queue.
            let now = rig.now;
            rig.lane.queue.set_stuck(now, true);
            rig.run();
            assert!(!rig.is_done(token), "{elevator}");
            rig.now += LATE;
            rig.run();
            assert_eq!(rig.failure(token), Some(Kind::TimedOut), "{elevator} {flags:?}");
            assert!(rig.has_memory(token), "{elevator}: the driver still has the memory");
            rig.disk().finish(0);
            rig.run();
            rig.model[..12288].copy_from_slice(&rig.lane.driver().data[..12288]);
            settle(&mut rig);
            assert!(!rig.has_memory(token), "{elevator}");
        }
    }
}
