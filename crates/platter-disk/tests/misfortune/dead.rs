//! Channels that die.

use crate::disk::{Disk, ELEVATORS, Lane, Options, read, write};
use platter_block::bio::Flags;
use platter_block::fault::Kind;

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
