//! Merging: which bios become one request, and in which order requests go out.

use crate::disk::{FakeDisk, Mode};
use crate::flush::THROUGH;
use crate::odd::{Fault, Odd};
use crate::rig::{Io, Rig, elevators, make_elevator};
use platter_block::bio::{Bio, Flags, Op};
use platter_block::driver::{Completion, Driver, Features, Geometry, Started};
use platter_block::lane::Lane;
use platter_block::limits::Limits;
use platter_block::queue::{QueueLane, SchedQueue, Settings};
use platter_block::request::MAX_BIOS;
use platter_block::time::{Span, Time};
use std::sync::Arc;

fn rig(elevator: &str) -> Rig {
    Rig::manual(elevator, Settings { plug: None, ..Settings::default() }, THROUGH)
}

fn places(rig: &mut Rig) -> Vec<(u64, u64)> {
    rig.disk().starts().iter().map(|start| (start.1, start.2)).collect()
}

#[test]
fn a_bio_between_two_requests_makes_them_one() {
    for elevator in elevators().into_iter().filter(|&name| name != "none") {
        let mut rig = rig(elevator);
        for pos in [0, 1024, 2048, 3072, 1536, 2560, 512] {
            rig.submit(Io::write(pos, 512));
        }
        let counts = rig.counts();
        assert_eq!((counts.requests, counts.back_merges, counts.request_merges), (4, 3, 3), "{elevator}");
        rig.drain();
        assert_eq!(places(&mut rig), [(0, 3584)], "{elevator}");
    }
}

#[test]
fn a_request_that_was_joined_to_another_is_forgotten() {
    for elevator in elevators().into_iter().filter(|&name| name != "none") {
        let mut rig = rig(elevator);
        for round in 0..4 {
            for pos in [0, 1024, 512] {
                rig.submit(Io::write(pos, 512));
            }
            rig.drain();
            // The request began at 1024 and is gone: a read that ends there finds nothing to merge with.
            rig.submit(Io::read(512, 512));
            rig.drain();
            assert_eq!(places(&mut rig)[2 * round..], [(0, 1536), (512, 512)], "{elevator}");
            assert_eq!(rig.counts().request_merges, round as u64 + 1);
        }
    }
}

#[test]
fn a_bio_in_front_of_a_request_joins_it() {
    for elevator in
        elevators().into_iter().filter(|name| make_elevator(name).is_some_and(|e| e.front_merges()))
    {
        let mut rig = rig(elevator);
        for pos in [2048, 1536, 1024, 2560, 512] {
            rig.submit(Io::read(pos, 512));
        }
        rig.drain();
        assert_eq!(places(&mut rig), [(512, 2560)], "{elevator}");
        assert_eq!((rig.counts().front_merges, rig.counts().back_merges), (3, 1));
    }
}

#[test]
fn noop_merges_at_the_front_only_if_it_is_told_to() {
    for (front, expected) in [(0, &[(1024, 512), (512, 512)][..]), (1, &[(512, 1024)])] {
        let mut noop = make_elevator("noop").unwrap();
        noop.set("front_merges", front).unwrap();
        let mut disk = FakeDisk::new(1 << 20, Limits::unlimited(512), THROUGH, 1);
        disk.mode = Mode::Manual;
        let settings = Settings { plug: None, depth: 1, ..Settings::default() };
        let mut rig = Rig::with(disk, settings, Some(noop));
        for pos in [4096, 1024, 512] {
            rig.submit(Io::read(pos, 512));
        }
        rig.drain();
        assert_eq!(&places(&mut rig)[1..], expected, "front_merges={front}");
    }
}

#[test]
fn what_must_stand_alone_does() {
    for elevator in elevators() {
        for flag in [Flags::NOMERGE, Flags::SOFT_BARRIER, Flags::HARD_BARRIER] {
            let mut rig = rig(elevator);
            for i in 0..3 {
                rig.submit(Io::write(i * 512, 512).with(if i == 1 { flag } else { Flags::NONE }));
            }
            rig.drain();
            assert_eq!(places(&mut rig), [(0, 512), (512, 512), (1024, 512)], "{elevator} {flag:?}");
        }
        let mut rig = rig(elevator);
        rig.submit(Io::read(0, 512));
        rig.submit(Io::write(512, 512));
        rig.submit(Io::new(Op::Discard, 1024, 512));
        rig.submit(Io::new(Op::WriteZeroes, 1536, 512));
        rig.submit(Io::new(Op::WriteZeroes, 2048, 512));
        rig.drain();
        assert_eq!(places(&mut rig).len(), 5, "{elevator}");
    }
}

#[test]
fn without_merges_nothing_is_merged() {
    for elevator in elevators() {
        let mut rig = Rig::manual(elevator, Settings { merges: false, ..Settings::default() }, THROUGH);
        (0..8).map(|i| rig.submit(Io::write(i * 512, 512))).for_each(drop);
        rig.drain();
        assert_eq!(places(&mut rig).len(), 8, "{elevator}");
    }
}

#[test]
fn those_that_wait_for_a_request_are_merged_when_they_get_one() {
    for elevator in elevators() {
        let settings = Settings { nr_requests: 2, depth: 1, ..Settings::default() };
        let mut rig = Rig::manual(elevator, settings, THROUGH);
        for i in 0..3 {
            rig.submit(Io::write((1 << 19) + i * 8192, 512));
        }
        (0..256).map(|i| rig.submit(Io::write(i * 512, 512))).for_each(drop);
        rig.drain();
        assert!(places(&mut rig).len() <= 6, "{elevator}: {:?}", places(&mut rig));
    }
}

#[test]
fn large_discards_are_merged_whatever_the_limits_of_memory() {
    let limits = Limits::unlimited(512).with_max_segments(1).with_max_segment_size(4096);
    let mut disk = FakeDisk::new(1 << 20, limits, Features::default(), 1);
    disk.mode = Mode::Manual;
    let mut rig = Rig::with(disk, Settings::default(), None);
    (0..4).map(|i| rig.submit(Io::new(Op::Discard, i << 17, 1 << 17))).for_each(drop);
    rig.drain();
    assert_eq!(places(&mut rig), [(0, 4 << 17)]);
}

#[test]
fn discards_are_cut_where_a_unit_ends() {
    let limits = Limits::unlimited(512).with_discard_granularity(8192).with_max_discard(20480);
    let mut rig =
        Rig::with(FakeDisk::new(1 << 20, limits, Features::default(), 1), Settings::default(), None);
    rig.submit(Io::new(Op::Discard, 4096, 45056));
    rig.drain();
    assert_eq!(places(&mut rig), [(4096, 20480), (24576, 16384), (40960, 8192)]);
}

#[test]
fn a_refused_request_goes_first_the_next_time() {
    for elevator in elevators() {
        let mut rig = rig(elevator);
        rig.disk().room = 2;
        (0..6).map(|i| rig.submit(Io::write(i * 8192, 512))).for_each(drop);
        rig.lane.queue.switch_elevator(rig.now, None);
        for _ in 0..6 {
            rig.run();
            rig.disk().finish(0);
        }
        let order: Vec<u64> = places(&mut rig).iter().map(|place| place.0 / 8192).collect();
        assert!(order.is_sorted(), "{elevator}: {order:?}");
        rig.drain();
        assert!(rig.disk().refusals > 0);
    }
}

#[test]
fn an_elevator_that_waits_is_asked_again_in_time() {
    let mut rig = rig("none");
    rig.lane.queue.switch_elevator(rig.now, Some(Box::new(Odd::new(Fault::Idles))));
    let token = rig.submit(Io::read(0, 512));
    rig.run();
    assert!(rig.disk().held.is_empty());
    let at = rig.now + Span::from_millis(5);
    assert_eq!(rig.lane.queue.next_wakeup(), Some(at));
    rig.lane.queue.quiesce();
    assert_eq!(rig.lane.queue.next_wakeup(), None, "a quiesced queue would not ask it");
    rig.lane.queue.unquiesce();
    rig.now = at;
    rig.run();
    assert_eq!(rig.disk().held.len(), 1);
    rig.drain();
    assert!(rig.is_done(token));
    assert_eq!(rig.lane.queue.elevator_fault(), None);
}

#[test]
fn a_barrier_does_not_wait_for_an_elevator_that_does() {
    for flag in [Flags::SOFT_BARRIER, Flags::HARD_BARRIER] {
        let mut rig = rig("none");
        rig.lane.queue.switch_elevator(rig.now, Some(Box::new(Odd::new(Fault::Idles))));
        rig.submit(Io::read(0, 512));
        let barrier = rig.submit(Io::write(8192, 512).with(flag));
        for _ in 0..4 {
            rig.run();
            rig.disk().finish_all();
        }
        assert!(rig.is_done(barrier), "{flag:?}");
        rig.drain();
    }
}

#[test]
fn a_segment_of_more_pieces_than_a_request_may_have_is_cut_inside() {
    let limits =
        Limits::unlimited(512).with_max_segments(3).with_max_segment_size(4096).with_memory_align(512);
    let disk = FakeDisk::new(1 << 20, limits, Features::default(), 1);
    let mut rig = Rig::with(disk, Settings::default(), None);
    let token = rig.submit(Io::write(0, 32 << 10));
    rig.drain();
    assert_eq!(rig.result(token), Ok(()));
    assert_eq!(rig.counts().dispatches, 3, "12 KiB, 12 KiB, 8 KiB");
}

/// Completes everything at the next reap and keeps the length of each request.
#[derive(Default)]
struct Lengths {
    lens: Vec<u64>,
    done: Vec<Completion>,
}

impl Driver for Lengths {
    fn queue(&mut self, _now: Time, request: &Started<'_>) -> bool {
        self.lens.push(request.len);
        self.done.push(Completion { tag: request.tag, result: 0 });
        true
    }

    fn submit(&mut self, _now: Time) {}

    fn reap(&mut self, _now: Time, done: &mut Vec<Completion>) {
        done.append(&mut self.done);
    }
}

/// Discards have no segments, so no limit of memory ends their merging. The count of bios in a request has 16 bits.
#[test]
fn the_number_of_bios_in_a_request_is_capped() {
    const BIOS: u64 = 70_000;
    for elevator in ["none", "noop", "deadline"] {
        // In halves that touch in the middle, so that requests are joined to their neighbours as well.
        for order in [|i| i, |i| (i * 2) % BIOS + i * 2 / BIOS] {
            let limits = Limits::unlimited(512);
            let geometry = Geometry::new(1 << 30, limits).with_features(THROUGH);
            let settings = Settings { plug: None, nr_requests: BIOS as u32, ..Settings::default() };
            let queue = SchedQueue::new(geometry, settings, make_elevator(elevator), Arc::default());
            let mut lane = QueueLane::new(queue, Lengths::default());
            for i in 0..BIOS {
                lane.submit(Time(1), Bio::new(Op::Discard, order(i) * 512, 512));
            }
            let mut done = Vec::new();
            for _ in 0..BIOS {
                lane.run(Time(1));
            }
            lane.take_done(&mut done);
            assert_eq!(done.len() as u64, BIOS, "{elevator}");
            let longest = lane.driver().lens.iter().max().copied().unwrap_or_default();
            assert!(longest <= u64::from(MAX_BIOS) * 512, "{elevator}: a request of {longest} bytes");
            let may_join = elevator != "none" || order(1) == 1;
            assert!(lane.driver().lens.len() < BIOS as usize / 2 || !may_join, "{elevator} merges");
        }
    }
}

/// The searches go through one chain of each hash, so that most requests are not looked at.
#[test]
fn a_search_for_a_merge_looks_at_few_requests() {
    for (elevator, tables) in [("noop", 1), ("deadline", 2)] {
        let mut rig = rig(elevator);
        rig.submit(Io::write(8192, 512));
        // The end of the request is the start of the bio, and its start the end of the other bio.
        assert_eq!(rig.lane.queue.merge_looks(8704, 512), 1, "{elevator}");
        assert_eq!(rig.lane.queue.merge_looks(7680, 512), tables - 1, "{elevator}");
        for i in 1..100 {
            rig.submit(Io::write(8192 + i * 8192, 512));
        }
        let looks: usize = (0..100).map(|i| rig.lane.queue.merge_looks(8704 + i * 8192, 512)).sum();
        assert!((100..200).contains(&looks), "{elevator}: {looks}");
        rig.drain();
    }
}
