//! Barriers while a lane of the device is not run.

use crate::disk::{Disk, ELEVATORS, Lane, Options, write};
use platter_block::bio::Flags;
use platter_block::fault::Kind;
use platter_block::queue::Settings;
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::sync_io::IoOptions;
use std::sync::Arc;

/// A device with a lane that has a write in flight and is not run. Nothing times out.
fn neglected(elevator: &'static str, visible: bool) -> (Arc<Disk>, Device, Lane) {
    let queue = Settings { timeout: None, plug: None, depth: 8, ..Settings::default() };
    let (disk, device) = Disk::open(Options { elevator, queue, visible, ..Options::default() });
    let mut lane = Lane::open(&device);
    lane.send(write(0, 1, 1, Flags::NONE));
    assert_eq!(disk.held(), [0]);
    (disk, device, lane)
}

#[test]
fn a_barrier_fails_in_bounded_time_and_says_which_lane_it_waited_for() {
    for flag in [Flags::HARD_BARRIER, Flags::SOFT_BARRIER | Flags::FUA] {
        let (disk, device, mut one) = neglected("none", false);
        disk.finish(0);
        let begin = disk.now();
        let error = device.write_at_with(&[2; 4096], 8192, IoOptions::flags(flag)).unwrap_err();
        assert_eq!(error.fault.kind, Kind::Unsettled, "{flag:?}");
        assert_eq!(disk.now().since(begin), Span::from_secs(30), "{flag:?}");
        let text = error.to_string();
        assert!(text.contains("channel 0, opened by thread"), "{text}");
        assert!(text.contains("poll or close it, or raise barrier_timeout"), "{text}");
        // The device continues to work, and so does that lane when it is run again.
        let mut two = Lane::open(&device);
        two.send(write(16384, 3, 2, Flags::NONE));
        disk.finish(16384);
        two.poll();
        one.poll();
        two.send(write(8192, 4, 3, flag));
        for _ in 0..3 {
            disk.finish_all();
            two.poll();
        }
        assert_eq!((one.kind(1), two.kind(2), two.kind(3)), (None, None, None), "{flag:?}");
        assert_eq!(disk.byte(8192), 4);
    }
}

/// The lanes of a program that was stopped as a whole are run again one after the other.
#[test]
fn a_barrier_waits_for_lanes_that_are_run_again_after_long() {
    for is_run in [true, false] {
        let (disk, device, mut one) = neglected("none", false);
        let mut two = Lane::open(&device);
        two.send(write(8192, 2, 2, Flags::HARD_BARRIER));
        disk.finish(0);
        disk.pass(Span::from_secs(3600));
        two.poll();
        assert!(!two.is_done(2), "the first lane has had no chance to run");
        let next = two.channel.next_wakeup().expect("its wait is bounded");
        assert_eq!(next.since(disk.now()), Span::from_secs(1));
        match is_run {
            true => one.poll(),
            false => disk.pass(Span::from_secs(1)),
        }
        for _ in 0..3 {
            two.poll();
            disk.finish_all();
        }
        two.poll();
        assert_eq!(two.kind(2), (!is_run).then_some(Kind::Unsettled));
    }
}

#[test]
fn a_barrier_goes_ahead_when_the_disk_is_seen_to_have_completed_everything() {
    for elevator in ELEVATORS {
        let (disk, device, mut one) = neglected(elevator, true);
        let mut two = Lane::open(&device);
        two.send(write(8192, 2, 2, Flags::HARD_BARRIER));
        assert_eq!(disk.held(), [0], "{elevator}: the disk has the first write");
        disk.finish(0);
        for _ in 0..3 {
            two.poll();
            disk.finish_all();
        }
        two.poll();
        one.poll();
        assert_eq!((one.kind(1), two.kind(2)), (None, None), "{elevator}");
    }
}

/// A retry would come after the barrier.
#[test]
fn what_a_barrier_has_gone_ahead_of_is_not_started_again() {
    for (result, kind) in [(-4, Kind::Io), (2048, Kind::Short)] {
        let (disk, device, mut one) = neglected("none", true);
        let mut two = Lane::open(&device);
        disk.finish_with(0, Some(result));
        two.send(write(8192, 2, 2, Flags::HARD_BARRIER));
        for _ in 0..3 {
            disk.finish_all();
            two.poll();
        }
        assert_eq!(two.kind(2), None);
        one.poll();
        assert_eq!(one.kind(1), Some(kind));
        assert!(disk.held().is_empty());
    }
}

/// However a barrier ends, lanes use their own queues again: they do not run the shared one any more.
#[test]
fn the_lanes_are_thawed_however_the_barrier_ends() {
    type End = fn(&Disk, &mut Lane, &mut Lane);
    let ends: [(&str, Option<Kind>, End); 4] = [
        ("carried out", None, |disk, _, two| {
            for _ in 0..4 {
                disk.finish_all();
                two.poll();
            }
        }),
        ("failed by the disk", Some(Kind::Io), |disk, one, two| {
            disk.finish(0);
            one.poll();
            two.poll();
            for _ in 0..4 {
                if disk.held().contains(&8192) {
                    disk.finish_with(8192, Some(-5));
                }
                disk.finish_all();
                two.poll();
            }
        }),
        ("cancelled", Some(Kind::Cancelled), |disk, _, two| {
            two.channel.cancel(2);
            two.poll();
            disk.finish(0);
        }),
        ("not able to start", Some(Kind::Unsettled), |disk, _, two| {
            for _ in 0..3 {
                disk.pass(Span::from_secs(40));
                two.poll();
            }
            disk.finish(0);
        }),
    ];
    for (what, kind, end) in ends {
        let (disk, device, mut one) = neglected("none", what == "carried out");
        let mut two = Lane::open(&device);
        two.send(write(8192, 2, 2, Flags::HARD_BARRIER));
        end(&disk, &mut one, &mut two);
        assert_eq!(two.kind(2), kind, "{what}");
        one.poll();
        let before = device.counters().lock_acquisitions;
        one.send(write(65536, 3, 3, Flags::NONE));
        disk.finish(65536);
        one.poll();
        assert_eq!((one.kind(3), device.counters().lock_acquisitions), (None, before), "{what}");
    }
}
