//! Layers that are written as filters: they have only what they change, and the layer around them does the rest.

use platter_block::backend::{Backend, Fact, LaneUse};
use platter_block::bio::{Bio, Flags, Op};
use platter_block::driver::Features;
use platter_block::event::{DeviceEvent, Watcher};
use platter_block::fault::{Fault, Kind, Stage};
use platter_block::lane::{Cancel, Lane};
use platter_block::limits::Limits;
use platter_block::time::{Span, Time};
use platter_disk::device::Device;
use platter_sim::ideal::Ideal;
use platter_sim::medium::Medium;
use platter_sim::{SimDisk, World};
use platter_stack::filter::{BioView, Filter, Filtered};
use platter_stack::raid0::{self, Sizes};
use std::sync::{Arc, Mutex, Weak};

const SIZE: u64 = 1 << 20;
const BLOCK: u64 = 4096;
/// The unit of time here; deadlines are multiples of 1,024 ns.
const TICK: u64 = 1 << 20;
const DELAY: Span = Span(10 * TICK);

fn ram() -> Arc<dyn Backend> {
    Arc::clone(Device::ram(SIZE).expect("a disk").backend())
}

fn at(ticks: u64) -> Time {
    Time(ticks * TICK)
}

/// Delays writes, lets at most `most` bios of a lane start, and notes what starts.
#[derive(Clone)]
struct Slow {
    most: usize,
    out: usize,
    started: Arc<Mutex<Vec<(Time, u64)>>>,
}

impl Slow {
    fn at_most(most: usize) -> Slow {
        Slow { most, out: 0, started: Arc::default() }
    }
}

impl Filter for Slow {
    fn facts(&self) -> Vec<Fact> {
        vec![("started", self.started.lock().unwrap().len().to_string())]
    }

    fn admits(&mut self) -> bool {
        let admits = self.out < self.most;
        self.out += usize::from(admits);
        admits
    }

    fn start(&mut self, now: Time, _slot: usize, bio: &mut BioView<'_>) -> Result<Time, Fault> {
        self.started.lock().unwrap().push((now, bio.token()));
        Ok(if bio.op() == Op::Write { now + DELAY } else { now })
    }

    fn release(&mut self) -> bool {
        self.out -= 1;
        false
    }
}

/// Changes only what the device says about itself.
#[derive(Clone)]
struct Strict;

impl Filter for Strict {
    const PASSES_IO: bool = true;

    fn limits(&self, below: Limits) -> Limits {
        below.with_logical_block(BLOCK as u32)
    }

    fn features(&self, below: Features) -> Features {
        below.with_read_only(true)
    }
}

/// Changes nothing, but sees all bios.
#[derive(Clone)]
struct Plain;

impl Filter for Plain {}

/// Fails all barriers, and holds nothing.
#[derive(Clone)]
struct Refuses;

impl Filter for Refuses {
    fn keeps_places(&self) -> bool {
        true
    }

    fn start(&mut self, now: Time, _slot: usize, bio: &mut BioView<'_>) -> Result<Time, Fault> {
        let barrier = bio.flags().intersects(Flags::HARD_BARRIER.union(Flags::SOFT_BARRIER));
        if barrier { Err(Fault::new(Kind::NoSpace, Stage::Disk)) } else { Ok(now) }
    }
}

fn write(token: u64, flags: Flags) -> Bio {
    let mut bio = Bio::write(token * BLOCK, vec![token as u8; BLOCK as usize]).expect("a write");
    bio.set_token(token);
    bio.add_flags(flags);
    bio
}

/// Runs the lanes at `now` and returns the tokens of what has completed, with the faults.
fn run(lanes: &mut [Box<dyn Lane>], now: Time) -> Vec<(u64, Option<Kind>)> {
    let mut done = Vec::new();
    for _ in 0..4 {
        lanes.iter_mut().for_each(|lane| lane.run(now));
        lanes.iter_mut().for_each(|lane| lane.take_done(&mut done));
    }
    done.iter().map(|bio| (bio.token(), bio.status().err().map(|fault| fault.kind))).collect()
}

#[test]
fn barriers_hold_although_the_filter_knows_nothing_of_them() {
    for barrier in [Flags::HARD_BARRIER, Flags::SOFT_BARRIER] {
        let slow = Slow::at_most(8);
        let layer = Filtered::new("slow", "", ram(), slow.clone());
        let mut lanes = [0, 1].map(|_| layer.open_lane(LaneUse::Exclusive).expect("a lane"));
        lanes[0].submit(at(0), write(1, Flags::default()));
        assert_eq!(run(&mut lanes, at(0)), []);
        lanes[1].submit(at(1), write(2, barrier));
        lanes[1].submit(at(1), write(3, Flags::default()));
        assert_eq!(run(&mut lanes, at(1)), [], "the first write is complete at 10");
        lanes[0].submit(at(2), write(4, Flags::default()));
        assert_eq!(run(&mut lanes, at(9)), []);
        assert_eq!(run(&mut lanes, at(10)), [(1, None)]);
        assert_eq!(run(&mut lanes, at(20)), [(2, None)]);
        let mut last = run(&mut lanes, at(30));
        last.sort_by_key(|(token, _)| *token);
        assert_eq!(last, [(3, None), (4, None)]);
        assert_eq!(slow.started.lock().unwrap()[..2], [(at(0), 1), (at(10), 2)]);
        assert!(lanes.iter().all(|lane| lane.is_idle()));
        assert!(layer.facts().contains(&("started", "4".to_string())));
    }
}

/// Delays the completions of writes by as many ticks as the tens of their tokens, and lets none wait before it starts.
#[derive(Clone)]
struct Later;

impl Filter for Later {
    fn keeps_places(&self) -> bool {
        true
    }

    fn start(&mut self, now: Time, _slot: usize, bio: &mut BioView<'_>) -> Result<Time, Fault> {
        Ok(Time(now.0 + TICK * (bio.token() / 10)))
    }
}

/// Bios start at once, and their completions keep the order around barriers, also those of other lanes.
#[test]
fn delayed_completions_do_not_pass_those_of_barriers() {
    for barrier in [Flags::HARD_BARRIER, Flags::SOFT_BARRIER] {
        let layer = Filtered::new("later", "", ram(), Later);
        let mut lanes = [0, 1].map(|_| layer.open_lane(LaneUse::Exclusive).expect("a lane"));
        // The tens of a token are its delay.
        for (lane, token, flags) in [
            (0, 51, Flags::default()),
            (0, 32, Flags::default()),
            (1, 23, barrier),
            (1, 14, Flags::default()),
            (0, 5, Flags::default()),
            (0, 76, Flags::default()),
        ] {
            lanes[lane].submit(at(0), write(token, flags));
            lanes[lane].run(at(0));
        }
        assert_eq!(run(&mut lanes, at(0)), []);
        assert_eq!(run(&mut lanes, at(3)), [(32, None)]);
        assert_eq!(run(&mut lanes, at(4)), []);
        let mut with_barrier = run(&mut lanes, at(5));
        assert!(
            with_barrier.iter().position(|done| done.0 == 23)
                < with_barrier.iter().position(|done| done.0 == 14)
        );
        with_barrier.sort_by_key(|(token, _)| *token);
        assert_eq!(with_barrier, [(5, None), (14, None), (23, None), (51, None)]);
        assert_eq!(run(&mut lanes, at(7)), [(76, None)]);
        assert!(lanes.iter().all(|lane| lane.is_idle()));
    }
}

/// A lane that is run late returns what it held before what the device completes now.
#[test]
fn a_late_lane_returns_completions_in_their_order() {
    let layer = Filtered::new("later", "", ram(), Later);
    let mut lanes = [layer.open_lane(LaneUse::Exclusive).expect("a lane")];
    lanes[0].submit(at(0), write(41, Flags::default()));
    assert_eq!(run(&mut lanes, at(0)), []);
    lanes[0].submit(at(6), write(2, Flags::HARD_BARRIER));
    assert_eq!(run(&mut lanes, at(6)), [(41, None), (2, None)]);
}

/// A flush keeps the place of a barrier that a filter fails. If the flush fails, the order does not hold, and the fault of the
/// barrier says so.
#[test]
fn a_barrier_that_a_filter_fails_reports_whether_it_kept_the_order() {
    for (barrier, cancels) in
        [(Flags::HARD_BARRIER, false), (Flags::HARD_BARRIER, true), (Flags::SOFT_BARRIER, true)]
    {
        let slow: Arc<dyn Backend> = Arc::new(Filtered::new("slow", "", ram(), Slow::at_most(8)));
        let layer = Filtered::new("refuses", "", slow, Refuses);
        let mut lanes = [layer.open_lane(LaneUse::Exclusive).expect("a lane")];
        lanes[0].submit(at(0), write(1, Flags::default()));
        lanes[0].submit(at(0), write(2, barrier));
        assert_eq!(run(&mut lanes, at(0)), [], "the flush waits for the write");
        if cancels {
            lanes[0].cancel(at(1), &Cancel::token(2));
            assert_eq!(run(&mut lanes, at(1)), [(2, Some(Kind::Cancelled))]);
            assert_eq!(run(&mut lanes, at(10)), [(1, None)]);
        } else {
            assert_eq!(run(&mut lanes, at(10)), [(1, None), (2, Some(Kind::NoSpace))]);
        }
    }
}

#[test]
fn bios_that_the_filter_keeps_waiting_end_when_they_are_taken_back() {
    let layer = Filtered::new("slow", "", ram(), Slow::at_most(1));
    let mut lanes = [layer.open_lane(LaneUse::Exclusive).expect("a lane")];
    let bios: Vec<Bio> = (1..=4).map(|token| write(token, Flags::default())).collect();
    let late = Cancel::late(bios[1].identity());
    bios.into_iter().for_each(|bio| lanes[0].submit(at(0), bio));
    assert_eq!(run(&mut lanes, at(0)), []);
    lanes[0].cancel(at(1), &Cancel::token(3));
    assert_eq!(run(&mut lanes, at(1)), [(3, Some(Kind::Cancelled))]);
    lanes[0].cancel(at(5), &late);
    assert_eq!(run(&mut lanes, at(5)), [(2, Some(Kind::TimedOut))]);
    assert_eq!(run(&mut lanes, at(10)), [(1, None)]);
    assert_eq!(run(&mut lanes, at(20)), [(4, None)]);
}

/// A cancelled bio does not wait for the time that the filter has set. The device has carried out these writes, so they
/// succeed.
#[test]
fn bios_that_are_cancelled_are_not_held() {
    for filters in 1..=2 {
        let mut layer: Arc<dyn Backend> = ram();
        for _ in 0..filters {
            layer = Arc::new(Filtered::new("slow", "", layer, Slow::at_most(8)));
        }
        let mut lanes = [layer.open_lane(LaneUse::Exclusive).expect("a lane")];
        for token in 1..=3 {
            lanes[0].submit(at(0), write(token, Flags::default()));
        }
        assert_eq!(run(&mut lanes, at(0)), []);
        lanes[0].cancel(at(1), &Cancel::token(2));
        lanes[0].cancel(at(1), &Cancel::token(9));
        assert_eq!(run(&mut lanes, at(1)), [(2, None)]);
        lanes[0].cancel(at(2), &Cancel::token(2));
        assert_eq!(run(&mut lanes, at(2)), []);
        assert_eq!(run(&mut lanes, at(10)), [(1, None), (3, None)]);
        // A place that a cancelled bio had holds the next one.
        lanes[0].submit(at(20), write(2, Flags::default()));
        assert_eq!(run(&mut lanes, at(20)), []);
        assert_eq!(run(&mut lanes, at(30)), [(2, None)]);
        assert!(lanes[0].is_idle());
    }
}

#[test]
fn what_a_filter_refuses_by_its_limits_and_features_is_refused() {
    let device = Device::new(Arc::new(Filtered::new("strict", "", ram(), Strict)));
    let error = device.write_at(&[1; 4096], 0).expect_err("it is read-only");
    assert_eq!(error.fault.kind, Kind::ReadOnly, "{error}");
    device.read_at(&mut [0; 4096], 4096).expect("a read");
    let mut lanes = [device.backend().open_lane(LaneUse::Exclusive).expect("a lane")];
    for (pos, len, refused) in
        [(512, 4096, Some(Kind::Misaligned)), (SIZE, 4096, Some(Kind::OutOfRange)), (4096, 4096, None)]
    {
        lanes[0].submit(at(0), Bio::read(pos, vec![0; len]).expect("a read"));
        assert_eq!(run(&mut lanes, at(0)), [(0, refused)], "{pos}");
    }
}

#[derive(Default)]
struct Notes(Mutex<Vec<DeviceEvent>>);

impl Watcher for Notes {
    fn event(&self, event: &DeviceEvent) {
        self.0.lock().unwrap().push(event.clone());
    }
}

fn parts(below: &Arc<dyn Backend>) -> [Arc<dyn Backend>; 2] {
    let range = BLOCK..SIZE / 2;
    let plain = Filtered::new("plain", "", Arc::clone(below), Plain).over_part(range.clone());
    let strict = Filtered::new("strict", "", Arc::clone(below), Strict).over_part(range);
    [Arc::new(plain.expect("a part")), Arc::new(strict.expect("a part"))]
}

#[test]
fn a_filter_over_a_part_keeps_its_place_and_its_size() {
    let disk = Device::ram(SIZE).expect("a disk");
    for backend in parts(disk.backend()) {
        let part = Device::new(Arc::clone(&backend));
        assert_eq!(part.size(), SIZE / 2 - BLOCK);
        disk.write_at(&[9; 4096], 2 * BLOCK).expect("a write");
        let mut back = [0; 4096];
        part.read_at(&mut back, BLOCK).expect("a read");
        assert_eq!(back, [9; 4096]);
        let error = part.read_at(&mut back, SIZE / 2 - BLOCK).expect_err("it is past the end");
        assert_eq!(error.fault.kind, Kind::OutOfRange);
        assert_eq!(backend.locate(512), Some((0, BLOCK + 512)));
        let overlaps = raid0::new(vec![backend, Arc::clone(disk.backend())], 4096, Sizes::default());
        assert!(overlaps.is_err(), "both are on the same disk");
    }
    let outside = [0..SIZE + BLOCK, 100..BLOCK, BLOCK..BLOCK, 0..700];
    for range in outside {
        let refused = Filtered::new("plain", "", ram(), Plain).over_part(range.clone()).err();
        let message = refused.unwrap_or_else(|| panic!("{range:?} is refused")).to_string();
        assert!(message.contains("plain(ram") && message.contains("multiples of 512"), "{message}");
    }
}

#[test]
fn a_filter_over_a_part_reports_what_happens_below() {
    for at in 0..2 {
        let world = World::new(1);
        let model = Ideal { size: SIZE, latency: DELAY, depth: 4, write_cache: true };
        let disk = SimDisk::new(&world, model.into(), Some(Medium::new()));
        let device = Device::from_disk(disk.attach("sim"), Default::default(), None).expect("a device");
        let part = Device::new(Arc::clone(&parts(device.backend())[at]));
        let notes = Arc::new(Notes::default());
        part.watch(Arc::downgrade(&notes) as Weak<dyn Watcher>);
        assert!(disk.resize(SIZE / 4));
        part.refresh().expect("a size");
        assert_eq!(part.size(), SIZE / 2 - BLOCK, "it keeps its size");
        let error = part.read_at(&mut [0; 4096], SIZE / 4).expect_err("it is gone");
        assert_eq!(error.fault.kind, Kind::Gone);
        let told = notes.0.lock().unwrap();
        assert!(matches!(told[0], DeviceEvent::Below { .. }), "{told:?}");
    }
}
