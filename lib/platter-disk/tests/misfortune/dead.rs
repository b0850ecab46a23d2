//! Channels that die.

use crate::disk::{Disk, ELEVATORS, Lane, Options, SECOND, read, write};
use platter_block::bio::Flags;
use platter_block::fault::Kind;
use platter_block::time::Span;

/// The lane gets another channel when the dead one has returned everything.
#[test]
fn a_lane_outlives_its_channel() {
    for elevator in ELEVATORS {
        let (disk, device) = Disk::open(Options { elevator, ..Options::default() });
        let mut lane = Lane::open(&device);
        let opened = disk.opened();
        lane.send(read(0, 1));
        lane.send(read(8192, 2));
        disk.kill();
        lane.poll();
        assert_eq!((lane.kind(1), lane.kind(2)), (Some(Kind::Io), Some(Kind::Io)), "{elevator}");
        lane.send(write(0, 3, 3, Flags::NONE));
        disk.finish(0);
        lane.poll();
        assert_eq!((lane.kind(3), disk.byte(0)), (None, 3), "{elevator}");
        assert_eq!(disk.opened(), opened + 1, "{elevator}");
    }
}

/// A channel reads the clock when it is polled; a bio submitted later has its full time nevertheless.
#[test]
fn a_deadline_counts_from_submission_however_long_the_channel_was_idle() {
    for elevator in ELEVATORS {
        for caller_plug in [true, false] {
            let (disk, device) = Disk::open(Options { elevator, caller_plug, ..Options::default() });
            let mut lane = Lane::open(&device);
            disk.pass(Span(2 * SECOND.0));
            lane.send(write(0, 1, 1, Flags::NONE));
            disk.pass(Span(SECOND.0 / 2));
            lane.poll();
            assert!(!lane.is_done(1), "{elevator}, {caller_plug}");
            disk.finish(0);
            lane.poll();
            assert_eq!(lane.kind(1), None, "{elevator}, {caller_plug}");
        }
    }
}
