//! The counts of a queue, and the contents that it reports.

use crate::flush::THROUGH;
use crate::rig::{Io, Rig, elevators};
use crate::silence::{pass_until, rig, settle, submit};
use platter_block::bio::{Flags, Op};
use platter_block::fault::Kind;
use platter_block::lane::{Cancel, Lane};
use platter_block::queue::Settings;
use platter_block::statistics::{Gauges, Statistics};
use platter_block::time::Span;

const EIO: i64 = -5;

#[test]
fn failures_are_counted_by_operation_and_kind() {
    for elevator in elevators() {
        let mut rig = rig(elevator, THROUGH);
        for op in [Op::Read, Op::Write, Op::Write] {
            submit(&mut rig, Io::new(op, 0, 512).with(Flags::SYNC));
            rig.disk().finish_with(0, EIO);
            rig.run();
        }
        let late = submit(&mut rig, Io::read(4096, 512).with(Flags::SYNC));
        let over = rig.now + Span::from_secs(1);
        pass_until(&mut rig, over);
        rig.disk().finish_with(0, -125);
        rig.run();
        assert_eq!(rig.failure(late), Some(Kind::TimedOut), "{elevator}");
        submit(&mut rig, Io::read(1 << 20, 512));
        submit(&mut rig, Io::read(8192, 512).with(Flags::SYNC));
        settle(&mut rig);
        let expected = [
            (Op::Read, Kind::OutOfRange, 1),
            (Op::Read, Kind::Io, 1),
            (Op::Read, Kind::TimedOut, 1),
            (Op::Write, Kind::Io, 2),
        ];
        assert!(rig.statistics().errors().eq(expected), "{elevator}: {:?}", rig.statistics());
    }
}

/// From start to completion: time that a request waits before its start does not count.
#[test]
fn latency_is_that_of_the_disk() {
    for elevator in elevators() {
        let settings = Settings { depth: 1, plug: None, ..Settings::default() };
        let mut rig = Rig::manual(elevator, settings, THROUGH);
        for pos in [0, 1 << 18] {
            submit(&mut rig, Io::read(pos, 512).with(Flags::SYNC | Flags::NOMERGE));
        }
        for _ in 0..2 {
            rig.now += Span(1 << 20);
            rig.disk().finish(0);
            rig.run();
        }
        settle(&mut rig);
        let statistics = rig.statistics();
        assert!(statistics.latency(Op::Read).eq([(1 << 20, 2)]), "{elevator}: {statistics:?}");
        assert_eq!((statistics.requests(Op::Read), statistics.requests(Op::Write)), (2, 0));
    }
}

#[test]
fn gauges_say_what_is_where() {
    for elevator in elevators() {
        let settings = Settings { depth: 2, plug: None, ..Settings::default() };
        let mut rig = Rig::manual(elevator, settings, THROUGH);
        for i in 0..5 {
            rig.submit(Io::write(i << 16, 512).with(Flags::SYNC | Flags::NOMERGE));
        }
        rig.run();
        let gauges = Gauges { in_flight: 2, queued: 3, ..Gauges::default() };
        assert_eq!(rig.statistics().gauges, gauges, "{elevator}");
        rig.submit(Io::flush().with(Flags::HARD_BARRIER));
        rig.submit(Io::write(8192, 512));
        rig.run();
        // The barrier, and the write behind it.
        assert_eq!(rig.statistics().gauges.held, 2, "{elevator}");
        rig.lane.cancel(rig.now, &Cancel::token(6));
        rig.run();
        assert_eq!(rig.statistics().gauges.held, 1, "{elevator}");
        rig.drain();
        assert_eq!(rig.statistics().gauges, Gauges::default(), "{elevator}");
    }
}

#[test]
fn statistics_of_several_queues_add_up() {
    let mut sum = Statistics::default();
    for count in [1, 2] {
        let mut rig = Rig::manual("none", Settings::default(), THROUGH);
        for i in 0..count {
            submit(&mut rig, Io::write(i << 16, 512));
        }
        rig.disk().finish_with(0, EIO);
        rig.now += Span(64);
        rig.run();
        sum.merge(&rig.statistics());
        settle(&mut rig);
    }
    assert_eq!((sum.failed(Op::Write, Kind::Io), sum.gauges.in_flight), (2, 1));
    assert!(sum.latency(Op::Write).eq([(64, 2)]));
}
