//! Statistics that a device reports about its queues.

use crate::disk::{Disk, ELEVATORS, Lane, Options, flush, read};
use platter_block::bio::Op;
use platter_block::fault::Kind;
use platter_block::statistics::Gauges;
use platter_block::time::Span;

#[test]
fn a_device_tells_of_all_its_lanes_open_and_closed() {
    for elevator in ELEVATORS {
        let (disk, device) = Disk::open(Options { elevator, ..Options::default() });
        let mut closed = Lane::open(&device);
        closed.send(read(0, 1));
        disk.pass(Span(1 << 16));
        disk.finish_with(0, Some(-5));
        closed.poll();
        drop(closed);
        let mut lane = Lane::open(&device);
        lane.send(flush(1));
        lane.send(read(1 << 20, 2));
        lane.send(read(0, 3));
        assert_eq!(device.statistics().gauges, Gauges { in_flight: 2, ..Gauges::default() }, "{elevator}");
        disk.pass(Span(1 << 16));
        disk.finish_all();
        lane.poll();
        let statistics = device.statistics();
        let errors = [(Op::Read, Kind::OutOfRange, 1), (Op::Read, Kind::Io, 1)];
        assert!(statistics.errors().eq(errors), "{elevator}: {statistics:?}");
        assert!(statistics.latency(Op::Read).eq([(1 << 16, 2)]), "{elevator}: {statistics:?}");
        assert!(statistics.latency(Op::Flush).eq([(1 << 16, 1)]), "{elevator}: {statistics:?}");
        assert_eq!(statistics.gauges, Gauges::default(), "{elevator}");
    }
}
