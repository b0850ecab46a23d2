//! Changes that are late, as all lanes of a device see them.

use crate::disk::{Disk, ELEVATORS, Lane, Options, SECOND, command, flush, meanwhile, numbered, read, write};
use platter_block::bio::Flags;
use platter_block::command::Reach;
use platter_block::fault::Kind;
use platter_block::queue::Settings;
use platter_block::statistics::Gauges;
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::sync_io::IoOptions;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

/// A device with two channels, and a write of byte 1 at 0 by the first that has timed out.
fn late(elevator: &'static str) -> (Arc<Disk>, Device, Lane, Lane) {
    let (disk, device) = Disk::open(Options { elevator, ..Options::default() });
    let (mut one, two) = (Lane::open(&device), Lane::open(&device));
    one.send(write(0, 1, 1, Flags::NONE));
    assert_eq!(disk.held(), [0]);
    disk.pass(SECOND);
    one.poll();
    assert_eq!(one.kind(1), Some(Kind::TimedOut));
    (disk, device, one, two)
}

/// The same without a timeout of the device: only the first write has a deadline.
fn late_for_long() -> (Arc<Disk>, Device, Lane, Lane) {
    let queue = Settings { timeout: None, plug: None, depth: 8, ..Settings::default() };
    let (disk, device) = Disk::open(Options { queue, ..Options::default() });
    let (mut one, two) = (Lane::open(&device), Lane::open(&device));
    let mut late = write(0, 1, 1, Flags::NONE);
    late.set_deadline(Some(disk.now() + SECOND));
    one.send(late);
    disk.pass(SECOND);
    one.poll();
    assert_eq!(one.kind(1), Some(Kind::TimedOut));
    (disk, device, one, two)
}

/// The late write at 0 is back, and the second one, of byte 2, is carried out.
fn overlapping_write_goes_on(disk: &Disk, one: &mut Lane, two: &mut Lane) {
    disk.finish(0);
    one.poll();
    two.poll();
    disk.finish_all();
    two.poll();
    assert_eq!((two.kind(2), disk.byte(0)), (None, 2));
}

/// The disk has returned the late write, but only its lane could see that.
#[test]
fn a_lane_that_is_not_run_does_not_hold_up_what_overlaps_its_late_write_for_ever() {
    let (disk, device, mut one, mut two) = late_for_long();
    disk.finish(0);
    two.send(write(0, 2, 2, Flags::NONE));
    two.send(write(8192, 3, 3, Flags::NONE));
    disk.finish(8192);
    disk.pass(Span::from_secs(29));
    two.poll();
    assert!(!two.is_done(2) && two.kind(3).is_none(), "it waits for what it overlaps, and only that");
    let next = two.channel.next_wakeup().expect("its wait is bounded");
    disk.pass(next.since(disk.now()));
    two.poll();
    assert_eq!((two.kind(2), two.brought(2)), (Some(Kind::Unsettled), 2), "with its memory");
    // As long as the lane is not run, other I/O there fails at once.
    let error = device.write_at(&[4; 4096], 0).unwrap_err();
    assert_eq!((error.fault.kind, disk.now()), (Kind::Unsettled, next));
    let text = error.to_string();
    assert!(text.contains("a channel of thread") && text.contains("poll or close it"), "{text}");
    one.poll();
    two.send(write(0, 5, 5, Flags::NONE));
    disk.finish_all();
    two.poll();
    assert_eq!((two.kind(5), disk.byte(0)), (None, 5));
}

/// A command fails as a read of what it reaches would. Its data has a length, but no place on the disk.
#[test]
fn a_command_waits_for_a_lane_that_is_not_run_only_if_it_reaches_the_late_write() {
    let (disk, device, one, mut two) = late_for_long();
    // Of a lane that is run.
    let mut three = Lane::open(&device);
    let mut late = write(65536, 1, 1, Flags::NONE);
    late.set_deadline(Some(disk.now() + SECOND));
    three.send(late);
    disk.pass(SECOND);
    three.poll();
    assert_eq!(three.kind(1), Some(Kind::TimedOut));
    let reads = |pos, len| command(Reach::Reads { pos, len: 4096 }, false, len, 0);
    two.send(numbered(reads(0, 0), 2, Flags::NONE));
    two.send(numbered(reads(65536, 4096), 3, Flags::NONE));
    disk.pass(Span::from_secs(20));
    three.poll();
    two.poll();
    assert!(!two.is_done(2) && !two.is_done(3));
    for _ in 0..30 {
        disk.pass(SECOND);
        three.poll();
        two.poll();
    }
    assert!(two.is_done(2), "it waits for ever");
    assert_eq!(two.kind(2), Some(Kind::Unsettled));
    assert!(!two.is_done(3), "it reaches only the late write of a lane that is run");
    for _ in 0..2 {
        disk.finish(65536);
        three.poll();
        two.poll();
    }
    assert_eq!(two.kind(3), None);
    drop(one);
}

/// A disk may take longer than that if the lane is run.
#[test]
fn a_lane_that_is_run_may_have_a_late_write_for_long() {
    let (disk, _device, mut one, mut two) = late_for_long();
    two.send(write(0, 2, 2, Flags::NONE));
    for _ in 0..4 {
        disk.pass(Span::from_secs(20));
        one.poll();
        two.poll();
        assert!(!two.is_done(2));
    }
    overlapping_write_goes_on(&disk, &mut one, &mut two);
}

/// A program that stops as a whole for longer, or whose disks have no event for longer, runs its lanes one after the other.
#[test]
fn lanes_that_are_all_run_again_after_long_are_not_stalled() {
    let (disk, _device, mut one, mut two) = late_for_long();
    two.send(write(0, 2, 2, Flags::NONE));
    for _ in 0..3 {
        disk.pass(Span::from_secs(3600));
        two.send(read(4096, 3));
        two.poll();
        assert!(!two.is_done(2), "the first lane has had no chance to run");
        one.poll();
        two.poll();
        assert!(!two.is_done(2));
    }
    overlapping_write_goes_on(&disk, &mut one, &mut two);
}

/// The owner of a lane sleeps until the disk has something for it, so it need not be run to see the late write come back.
#[test]
fn a_lane_whose_owner_waits_for_its_disk_is_not_stalled() {
    let queue = Settings { timeout: None, plug: None, depth: 8, ..Settings::default() };
    let (disk, device) = Disk::open(Options { queue, ..Options::default() });
    let (mut one, mut two) = (Lane::open(&device), Lane::open(&device));
    // The lane's own driver has it.
    one.send(read(65536, 2));
    let mut late = write(0, 1, 1, Flags::NONE);
    late.set_deadline(Some(disk.now() + SECOND));
    one.send(late);
    disk.pass(SECOND);
    one.poll();
    assert_eq!(one.kind(1), Some(Kind::TimedOut));
    let others = Arc::clone(&disk);
    meanwhile(move || {
        let mut overlaps = write(0, 2, 3, Flags::NONE);
        overlaps.set_deadline(Some(others.now() + Span(80 * SECOND.0)));
        two.send(overlaps);
        for _ in 0..4 {
            assert!(!two.is_done(3), "it waits for the late write");
            others.pass(Span(20 * SECOND.0));
            two.poll();
        }
        assert_eq!(two.kind(3), Some(Kind::TimedOut));
        others.finish_all();
    });
    one.wait();
    assert_eq!((one.kind(2), disk.byte(0)), (None, 1));
}

/// The data of the first write arrives late, and data written after its deadline stays.
#[test]
fn another_lane_waits_for_what_it_would_overwrite() {
    for elevator in ELEVATORS {
        let (disk, _device, mut one, mut two) = late(elevator);
        two.send(write(0, 2, 2, Flags::NONE));
        two.send(read(2048, 3));
        two.send(write(8192, 3, 4, Flags::NONE));
        assert_eq!(disk.held(), [0, 8192], "{elevator}");
        disk.finish(8192);
        two.poll();
        assert!(two.kind(4).is_none() && !two.is_done(2) && !two.is_done(3), "{elevator}");
        disk.finish(0);
        one.poll();
        for _ in 0..4 {
            two.poll();
            disk.finish_all();
        }
        two.poll();
        assert_eq!((two.kind(2), two.kind(3)), (None, None), "{elevator}");
        assert_eq!(disk.byte(0), 2, "{elevator}");
        assert!([1, 2].contains(&two.brought(3)), "{elevator}");
        // All lanes have their own queues again.
        one.send(write(0, 9, 5, Flags::NONE));
        disk.finish_all();
        one.poll();
        assert_eq!(one.kind(5), None, "{elevator}");
    }
}

/// Nothing else is submitted. Requests that the disk returns late are taken in all the same, also from the
/// shared queue.
#[test]
fn what_comes_late_is_taken_in_by_its_lane() {
    for elevator in ELEVATORS {
        let (disk, device, mut one, _two) = late(elevator);
        assert_eq!(device.statistics().gauges, Gauges { in_flight: 1, ..Gauges::default() }, "{elevator}");
        disk.finish(0);
        one.poll();
        assert_eq!(device.statistics().gauges, Gauges::default(), "{elevator}");
    }
}

/// A bio that waits for a late change ends by its deadline.
#[test]
fn waiting_for_a_late_change_is_bounded_by_the_deadline() {
    for elevator in ELEVATORS {
        let (disk, _device, mut one, mut two) = late(elevator);
        two.send(read(0, 2));
        disk.pass(Span(SECOND.0 - 4096));
        two.poll();
        assert!(!two.is_done(2), "{elevator}");
        disk.pass(Span(8192));
        two.poll();
        assert_eq!(two.kind(2), Some(Kind::TimedOut), "{elevator}");
        assert_eq!(two.brought(2), 0xee, "with its memory as it was");
        disk.finish(0);
        one.poll();
    }
}

#[test]
fn no_lane_flushes_while_a_change_is_late() {
    for elevator in ELEVATORS {
        let (disk, device, mut one, mut two) = late(elevator);
        two.send(flush(2));
        two.send(write(8192, 3, 3, Flags::HARD_BARRIER));
        assert_eq!((two.kind(2), two.kind(3)), (Some(Kind::Unsettled), Some(Kind::Unsettled)), "{elevator}");
        disk.finish(0);
        one.poll();
        two.send(flush(4));
        disk.finish_all();
        two.poll();
        assert_eq!(two.kind(4), None, "{elevator}: it was not acknowledged, and need not be");
        drop((one, two));
        drop(device);
    }
}

/// The lane of the write is closed; the fence stays as long as the disk has the write.
#[test]
fn the_fence_outlives_the_lane_of_the_late_write() {
    for elevator in ELEVATORS {
        let (disk, _device, one, mut two) = late(elevator);
        drop(one);
        two.send(write(0, 2, 2, Flags::NONE));
        assert_eq!(disk.held(), [0], "{elevator}");
        disk.finish(0);
        two.poll();
        disk.finish_all();
        two.poll();
        assert_eq!((two.kind(2), disk.byte(0)), (None, 2), "{elevator}");
    }
}

/// What a lane that is dropped has in flight is late.
#[test]
fn a_write_of_a_lane_that_is_dropped_is_late() {
    for elevator in ELEVATORS {
        let (disk, device) = Disk::open(Options { elevator, ..Options::default() });
        let (mut one, mut two) = (Lane::open(&device), Lane::open(&device));
        one.send(write(0, 1, 1, Flags::NONE));
        one.send(read(16384, 2));
        drop(one);
        let queued = elevator != "none";
        two.send(write(0, 2, 3, Flags::NONE));
        two.send(write(16384, 2, 4, Flags::NONE));
        // In a shared queue the write continues.
        assert!(disk.held().contains(&0), "{elevator}");
        let overlapping = disk.held().iter().filter(|&&pos| pos == 0).count();
        assert_eq!(overlapping, if queued { 2 } else { 1 }, "{elevator}");
        for _ in 0..6 {
            disk.finish_all();
            two.poll();
        }
        assert_eq!((two.kind(3), two.kind(4), disk.byte(0)), (None, None, 2), "{elevator}");
    }
}

/// The disk was asked to cancel it, and did. The lane has nothing to retry and nothing to report.
#[test]
fn a_late_write_that_the_disk_fails_does_not_hold_up_barriers() {
    for elevator in ELEVATORS {
        for result in [-125, -5, 512] {
            let (disk, _device, mut one, mut two) = late(elevator);
            disk.finish_with(0, Some(result));
            one.poll();
            two.send(write(8192, 2, 2, Flags::HARD_BARRIER));
            for _ in 0..3 {
                disk.finish_all();
                two.poll();
            }
            assert_eq!(two.kind(2), None, "{elevator} {result}");
        }
    }
}

/// The requests of closed lanes are counted as long as the disk has them.
#[test]
fn what_closed_lanes_have_left_is_counted_until_it_is_back() {
    let queue = Settings { plug: None, depth: 8, ..Settings::default() };
    let (disk, device) = Disk::open(Options { queue, ..Options::default() });
    for _ in 0..20 {
        let mut lane = Lane::open(&device);
        let mut late = read(0, 1);
        late.set_deadline(Some(disk.now() + SECOND));
        lane.send(late);
        disk.pass(SECOND);
        lane.poll();
        assert_eq!(lane.kind(1), Some(Kind::TimedOut));
    }
    let gauges = device.statistics().gauges;
    assert_eq!(gauges.in_flight + gauges.queued, 20);
    let mut lane = Lane::open(&device);
    for token in 0..4 {
        disk.finish_all();
        lane.send(read(0, token));
    }
    disk.finish_all();
    lane.poll();
    assert_eq!(device.statistics().gauges, Gauges::default());
}

/// Threads that wait in calls learn that a change is back.
#[test]
fn a_call_that_waits_for_a_late_change_is_woken() {
    let queue = Settings { plug: None, depth: 8, ..Settings::default() };
    let (disk, device) = Disk::open(Options { simulated: false, queue, ..Options::default() });
    let options = IoOptions::default().with_timeout(Some(Span::from_millis(1)));
    // On a busy machine its time may be over before the disk gets it.
    while disk.held().is_empty() {
        let error = device.write_at_with(&[1; 4096], 0, options).unwrap_err();
        assert_eq!(error.fault.kind, Kind::TimedOut);
    }
    assert_eq!(disk.held(), [0]);
    let other = device.clone();
    let call = std::thread::spawn(move || other.write_at(&[2; 4096], 0));
    // It can only reach the disk once the first is back.
    let beside = device.clone();
    let unrelated = std::thread::spawn(move || beside.write_at(&[3; 4096], 8192));
    disk.wait_for(2);
    assert!(disk.held().contains(&8192));
    disk.finish(8192);
    unrelated.join().unwrap().unwrap();
    disk.finish(0);
    // The lane of the late write is run by the service thread.
    let poker = device.clone();
    let poke = std::thread::spawn(move || poker.read_at(&mut [0; 512], 65536));
    while !(call.is_finished() && poke.is_finished()) {
        disk.finish_all();
        std::thread::yield_now();
    }
    call.join().unwrap().unwrap();
    poke.join().unwrap().unwrap();
    assert_eq!(disk.byte(0), 2);
}

/// In a simulation no thread runs the lane of calls with a deadline, so a channel that waits does.
#[test]
fn a_channel_that_waits_sees_what_a_call_has_left() {
    let queue = Settings { plug: None, depth: 8, ..Settings::default() };
    let (disk, device) = Disk::open(Options { queue, ..Options::default() });
    let time = Arc::clone(&disk);
    meanwhile(move || time.pass(SECOND));
    let options = IoOptions::default().with_timeout(Some(SECOND));
    let error = device.write_at_with(&[1; 4096], 0, options).unwrap_err();
    assert_eq!((error.fault.kind, disk.held()), (Kind::TimedOut, vec![0]));
    let mut lane = Lane::open(&device);
    lane.send(write(0, 2, 1, Flags::NONE));
    assert_eq!(lane.channel.wait(&mut lane.done, Some(Span::default())), 0);
    assert_eq!(disk.held(), [0]);
    disk.finish(0);
    for _ in 0..4 {
        lane.channel.wait(&mut lane.done, Some(Span::default()));
        disk.finish_all();
    }
    assert_eq!((lane.kind(1), disk.byte(0)), (None, 2));
}

/// A future waits for a late change, and is dropped: the time at which it was to be looked at again does not come up for others.
#[test]
fn a_future_that_waited_and_was_dropped_is_not_looked_at_again() {
    let (disk, device, _one, _two) = late_for_long();
    let mut context = Context::from_waker(Waker::noop());
    let mut waits = device.read(0, vec![0; 4096]);
    let mut other = device.read(65536, vec![0; 4096]);
    assert!(Pin::new(&mut waits).poll(&mut context).is_pending());
    assert!(Pin::new(&mut other).poll(&mut context).is_pending());
    drop(waits);
    disk.pass(Span::from_secs(60));
    let next = device.run_background();
    assert!(next.is_none_or(|at| at > disk.now()), "{next:?} at {:?}", disk.now());
    disk.finish(65536);
    device.run_background();
    assert!(Pin::new(&mut other).poll(&mut context).is_ready());
}
