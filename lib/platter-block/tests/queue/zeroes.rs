//! Write-zeroes on disks that do not support it.

use crate::disk::{FakeDisk, Mode};
use crate::flush::{BACK, BACK_FUA, THROUGH};
use crate::rig::{Io, Rig, elevators, make_elevator};
use platter_block::bio::{Flags, Op};
use platter_block::driver::Features;
use platter_block::fault::Kind;
use platter_block::lane::{Cancel, Lane};
use platter_block::limits::Limits;
use platter_block::queue::Settings;

fn rig(elevator: &str, limits: Limits, features: Features) -> Rig {
    let mut disk = FakeDisk::new(1 << 20, limits, features, 1);
    disk.mode = Mode::Prompt;
    Rig::with(disk, Settings { plug: None, ..Settings::default() }, make_elevator(elevator))
}

fn zeroes(pos: u64, len: usize) -> Io {
    Io::new(Op::WriteZeroes, pos, len)
}

const CANNOT: Limits = Limits::unlimited(512).with_write_zeroes(false);

#[test]
fn a_disk_that_cannot_gets_zeroes_written() {
    let shapes = [
        CANNOT,
        CANNOT.with_max_transfer(4096),
        CANNOT.with_max_segments(2).with_max_segment_size(8192),
        CANNOT.with_segment_boundary(4096).with_max_segments(3),
        CANNOT.with_chunk(20480).with_memory_align(512),
    ];
    for elevator in elevators() {
        for limits in shapes {
            for features in [THROUGH, BACK, BACK_FUA] {
                let mut rig = rig(elevator, limits, features);
                for io in [
                    zeroes(512, 512),
                    zeroes(4096, 700 * 1024),
                    zeroes(0, 4096).with(Flags::FUA),
                    zeroes(1 << 19, 65536).with(Flags::HARD_BARRIER),
                    zeroes(0, 65536).with(Flags::SOFT_BARRIER),
                ] {
                    let token = rig.submit(io);
                    rig.drain();
                    assert_eq!(rig.result(token), Ok(()), "{elevator} {limits:?}");
                }
                let writes = rig.disk().starts().iter().all(|start| matches!(start.0, Op::Write | Op::Flush));
                assert!(writes, "{elevator}");
                assert_eq!(rig.counts().zeroes_written, 512 + 700 * 1024 + 4096 + 65536 + 65536);
            }
        }
    }
}

/// The first attempt fails; from then on the queue knows the disk.
#[test]
fn a_disk_that_turns_out_not_to_be_able_is_remembered() {
    for elevator in elevators() {
        let mut rig = rig(elevator, Limits::unlimited(512).with_max_discard(65536), THROUGH);
        rig.disk().no_zeroes = true;
        let tokens = [rig.submit(zeroes(0, 65536 * 3)), rig.submit(zeroes(1 << 19, 512))];
        rig.drain();
        let tried = |rig: &mut Rig| rig.disk().starts().iter().filter(|s| s.0 == Op::WriteZeroes).count();
        let before = tried(&mut rig);
        assert!((1..=4).contains(&before), "{elevator}");
        let last = rig.submit(zeroes(1 << 18, 4096));
        rig.drain();
        assert!(tokens.iter().chain(&[last]).all(|&token| rig.result(token).is_ok()), "{elevator}");
        assert_eq!(tried(&mut rig), before, "{elevator}");
    }
}

/// Discards are advice: on a disk without support for them nothing is written.
#[test]
fn discards_are_not_replaced() {
    let mut rig = rig("none", Limits::unlimited(512), THROUGH);
    rig.disk().mode = Mode::Manual;
    let token = rig.submit(Io::new(Op::Discard, 0, 4096));
    rig.run();
    rig.disk().finish_with(0, -95);
    rig.run();
    assert_eq!(rig.failure(token), Some(Kind::Unsupported));
    assert_eq!(rig.disk().starts().len(), 1);
}

/// A range as large as the disk is not split into all its writes at once.
#[test]
fn writes_of_zeroes_are_made_as_they_go() {
    let mut rig = rig("none", CANNOT.with_max_transfer(4096), THROUGH);
    rig.disk().mode = Mode::Manual;
    let token = rig.submit(zeroes(0, 1 << 20));
    let mut most = 0;
    while !rig.is_done(token) {
        rig.run();
        most = most.max(rig.disk().held.len());
        rig.disk().finish_all();
    }
    assert!((2..=8).contains(&most), "{most} at once");
    assert_eq!(rig.disk().starts().len(), 256);
}

#[test]
fn an_error_of_one_write_fails_the_whole_and_ends_it() {
    for elevator in elevators() {
        let mut rig = rig(elevator, CANNOT.with_max_transfer(4096), THROUGH);
        rig.disk().bad.insert(64);
        let token = rig.submit(zeroes(0, 1 << 20));
        rig.drain();
        assert_eq!(rig.failure(token), Some(Kind::Io), "{elevator}");
        assert!(rig.disk().starts().len() < 20, "{elevator}");
    }
}

/// A bio may be as large as the disk; what is not written yet has not started.
#[test]
fn a_write_of_zeroes_that_is_taken_back_makes_no_more_writes() {
    for elevator in elevators() {
        for late in [false, true] {
            let mut rig = rig(elevator, CANNOT.with_max_transfer(4096), THROUGH);
            rig.disk().mode = Mode::Manual;
            let token = rig.submit(zeroes(0, 1 << 20));
            rig.run();
            let starts = rig.disk().starts().len();
            assert!((1..8).contains(&starts), "{elevator}");
            match late {
                true => rig.late(token),
                false => rig.lane.cancel(rig.now, &Cancel::token(token)),
            }
            rig.run();
            assert!(!rig.is_done(token), "{elevator}: the disk has writes of it");
            rig.drain();
            let kind = if late { Kind::TimedOut } else { Kind::Cancelled };
            assert_eq!((rig.failure(token), rig.disk().starts().len()), (Some(kind), starts), "{elevator}");
        }
    }
}
