//! Disks with faults and power cuts, each seen through a queue.

use platter_block::bio::{Bio, Flags, Op};
use platter_block::counters::Counters;
use platter_block::driver::{Completion, Driver};
use platter_block::fault::Kind;
use platter_block::lane::Lane;
use platter_block::queue::{QueueLane, SchedLane, SchedQueue, Settings};
use platter_block::time::{Span, Time};
use platter_sim::fault::{
    BadSectors, Blow, Death, DroppedFlushes, FaultPlan, Injected, Lands, Strike, TRANSIENT, When,
};
use platter_sim::ideal::Ideal;
use platter_sim::medium::Medium;
use platter_sim::power::{CutReport, Lost, Supply, Survivors};
use platter_sim::{Options, SimDisk, World};
use std::sync::Arc;

const ALWAYS: u32 = 1_000_000;

struct Rig {
    world: Arc<World>,
    disk: SimDisk,
    lane: SchedLane<Box<dyn Driver>>,
    done: Vec<Bio>,
}

impl Rig {
    fn with(seed: u64, cache: bool, faults: Option<FaultPlan>, supply: Option<Supply>) -> Rig {
        let world = World::new(seed);
        let model = Ideal { size: 1 << 20, latency: Span::from_micros(100), depth: 4, write_cache: cache };
        let options = Options { medium: Some(Medium::new()), faults, supply };
        let disk = SimDisk::with(&world, model.into(), options);
        let lane = Rig::lane(&disk, None);
        Rig { world, disk, lane, done: Vec::new() }
    }

    fn faulty(plan: FaultPlan) -> Rig {
        Rig::with(1, false, Some(plan), None)
    }

    fn lane(disk: &SimDisk, elevator: Option<&str>) -> SchedLane<Box<dyn Driver>> {
        let elevator = elevator.and_then(platter_elevators::by_name).map(|row| (row.make)());
        let queue =
            SchedQueue::new(disk.geometry(), Settings::default(), elevator, Arc::new(Counters::default()));
        // SAFETY: the lane keeps the memory of a request until its driver has reported it.
        QueueLane::new(queue, unsafe { disk.channel().into_driver() })
    }

    fn now(&self) -> Time {
        self.world.clock().now()
    }

    fn submit(&mut self, bio: Bio) {
        let now = self.now();
        self.lane.submit(now, bio);
        self.lane.run(now);
    }

    /// Lives until nothing is under way.
    fn settle(&mut self) {
        let mut rounds = 0;
        while !self.lane.is_idle() {
            self.lane.run(self.now());
            self.lane.take_done(&mut self.done);
            if let Some(at) = self.lane.next_wakeup().filter(|_| !self.lane.is_idle()) {
                self.world.clock().advance_to(at);
            }
            rounds += 1;
            assert!(rounds < 10_000, "it does not come to an end");
        }
        self.lane.take_done(&mut self.done);
    }

    fn run(&mut self, bio: Bio) -> (Option<Kind>, Bio) {
        self.submit(bio);
        self.settle();
        let bio = self.done.pop().unwrap();
        (bio.status().err().map(|fault| fault.kind), bio)
    }

    fn write(&mut self, sector: u64, version: u8) -> Option<Kind> {
        self.run(write(sector, version)).0
    }

    fn read(&mut self, sector: u64) -> Result<u8, Kind> {
        let (kind, mut bio) = self.run(Bio::read(sector * 512, vec![77u8; 512]).unwrap());
        let buffer: Vec<u8> = bio.take_buffer().unwrap();
        assert!(buffer.iter().all(|&byte| byte == buffer[0]), "a sector is one thing");
        kind.map_or(Ok(buffer[0]), Err)
    }

    fn flush(&mut self) -> Option<Kind> {
        self.run(Bio::flush()).0
    }

    fn kinds(&mut self) -> Vec<Option<Kind>> {
        self.done.sort_by_key(Bio::token);
        self.done.drain(..).map(|bio| bio.status().err().map(|fault| fault.kind)).collect()
    }
}

/// A struck command ends as the strike says, and the next one as usual.
#[test]
fn strikes_hit_the_next_command_that_fits() {
    let mut rig = Rig::with(1, false, None, None);
    rig.write(0, 1);
    rig.disk.strike(Strike { op: Some(Op::Write), blow: Blow::Error });
    assert_eq!(rig.read(0), Ok(1));
    assert_eq!((rig.write(8, 2), rig.write(8, 3)), (Some(Kind::Io), None));
    rig.disk.strike(Strike { op: None, blow: Blow::Spike(Span::from_secs(1)) });
    let before = rig.now();
    assert_eq!(rig.read(8), Ok(3));
    assert!(rig.now().since(before) > Span::from_secs(1));
    let injected = rig.disk.injected();
    assert_eq!((injected.write_errors, injected.spikes, injected.total()), (1, 1, 2));
}

/// A transient error leaves memory and medium as they were.
#[test]
fn transient_errors_have_no_effect() {
    for errno in TRANSIENT {
        let (world, disk) = bare();
        let mut lane = Rig::lane(&disk, None);
        disk.strike(Strike { op: None, blow: Blow::Transient(errno) });
        lane.submit(Time(0), write(0, 7));
        lane.run(Time(0));
        let mut done = Vec::new();
        world.clock().advance_to(Time(1_000_000));
        lane.driver_mut().reap(Time(1_000_000), &mut done);
        let result = done.first().map(|completion: &Completion| completion.result);
        assert_eq!(result, Some(-i64::from(errno)));
        assert_eq!((disk.injected().transient, disk.inside().len()), (1, 0));
    }
    let plan = FaultPlan { transient_chance: ALWAYS, ..FaultPlan::default() };
    let (world, disk) = bare();
    disk.set_faults(Some(plan));
    let mut lane = Rig::lane(&disk, None);
    lane.submit(Time(0), write(0, 7));
    lane.run(Time(0));
    world.clock().advance_to(Time(1_000_000));
    lane.run(Time(1_000_000));
    assert!(disk.injected().transient > 0);
}

fn bare() -> (Arc<World>, SimDisk) {
    let rig = Rig::with(1, true, None, None);
    (rig.world, rig.disk)
}

/// The data of a stuck write is on the medium when the write ends, or at its normal time.
#[test]
fn stuck_commands_land_late_or_early() {
    for (lands, seen) in [(Lands::Late, 0), (Lands::Early, 7)] {
        let mut rig = Rig::with(1, false, None, None);
        let mut other = Rig::lane(&rig.disk, None);
        let stuck = Blow::Stuck(Span::from_secs(3600), lands);
        rig.disk.strike(Strike { op: Some(Op::Write), blow: stuck });
        rig.submit(write(0, 7));
        rig.world.clock().advance_to(Time(1_000_000));
        let inside = rig.disk.inside();
        assert_eq!((inside.len(), inside[0].op, inside[0].sector), (1, Op::Write, 0));
        assert_eq!((inside[0].landed, &inside[0].data[..]), (lands == Lands::Early, &[7; 512][..]));
        std::mem::swap(&mut rig.lane, &mut other);
        assert_eq!(rig.read(0), Ok(seen), "{lands:?}");
        assert_eq!(rig.disk.release_stuck(), 1);
        assert_eq!(rig.read(0), Ok(7));
        assert!(rig.disk.inside().is_empty());
    }
    let mut early = [0; 2];
    for seed in 0..100 {
        let plan =
            FaultPlan { stuck_chance: ALWAYS, stuck_lands: Lands::Either, seed, ..FaultPlan::default() };
        let mut rig = Rig::faulty(plan);
        rig.submit(write(0, 7));
        rig.world.clock().advance_to(Time(1_000_000));
        early[usize::from(rig.disk.inside()[0].landed)] += 1;
    }
    assert!(early.iter().all(|&count| count > 20), "{early:?}");
}

/// Some cancelled commands end at once, and others end as without the request.
#[test]
fn cancelled_commands_end_or_not() {
    let (mut aborted, mut stayed) = (0, 0);
    for seed in 0..100 {
        for stuck in [true, false] {
            let mut rig = Rig::faulty(FaultPlan { seed, ..FaultPlan::default() });
            if stuck {
                let blow = Blow::Stuck(Span::from_secs(1), Lands::Late);
                rig.disk.strike(Strike { op: None, blow });
            }
            rig.submit(write(0, 7));
            let now = if stuck { Time(500_000) } else { Time(10_000) };
            rig.world.clock().advance_to(now);
            assert!(rig.lane.driver_mut().cancel(now, 0), "the first request has the tag 0");
            let mut done = Vec::new();
            rig.lane.driver_mut().reap(now, &mut done);
            match &done[..] {
                [Completion { result: -125, .. }] => {
                    aborted += 1;
                    assert!(rig.disk.inside().is_empty());
                    assert!(!rig.lane.driver_mut().cancel(now, 0), "it is gone");
                }
                [] => {
                    stayed += 1;
                    let later = Time(2_000_000_000);
                    rig.world.clock().advance_to(later);
                    rig.lane.driver_mut().reap(later, &mut done);
                    assert_eq!(done, [Completion { tag: 0, result: 512 }]);
                }
                _ => panic!("{done:?}"),
            }
        }
    }
    assert!(aborted > 50 && stayed > 50, "{aborted} {stayed}");
}

/// What a disk counts of flushes that end without effect: those that it aborts, and those with a transient error.
#[test]
fn flushes_without_effect_are_counted() {
    let mut aborted = 0;
    for seed in 0..50 {
        let plan = FaultPlan { seed, ..FaultPlan::default() };
        let mut rig = Rig::with(1, true, Some(plan), None);
        let stuck = Blow::Stuck(Span::from_secs(1), Lands::Late);
        rig.disk.strike(Strike { op: Some(Op::Flush), blow: stuck });
        rig.submit(Bio::flush());
        rig.world.clock().advance_to(Time(500_000));
        rig.lane.driver_mut().cancel(Time(500_000), 0);
        let injected = rig.disk.injected();
        assert_eq!(injected.aborted_flushes, injected.aborted, "only flushes were sent");
        aborted += injected.aborted_flushes;
    }
    assert!(aborted > 10, "{aborted}");
    let mut rig = Rig::with(1, true, None, None);
    rig.disk.strike(Strike { op: Some(Op::Flush), blow: Blow::Transient(11) });
    rig.disk.strike(Strike { op: Some(Op::Write), blow: Blow::Transient(11) });
    rig.write(0, 1);
    rig.flush();
    let injected = rig.disk.injected();
    assert_eq!((injected.transient, injected.transient_flushes, injected.aborted_flushes), (2, 1, 0));
}

/// Any thread can query the commands of a channel, unless only its owner can know.
#[test]
fn what_a_channel_has_inside_can_be_asked() {
    let mut rig = Rig::with(1, false, None, None);
    // SAFETY: it gets no request.
    let other = unsafe { rig.disk.channel().into_driver() };
    for sector in 0..3 {
        let mut bio = write(sector * 8, 1);
        bio.add_flags(Flags::NOMERGE);
        rig.submit(bio);
    }
    let asked = rig.lane.driver().outstanding().expect("the disk tells everybody");
    let others = Driver::outstanding(&other).expect("the disk tells everybody");
    assert_eq!((asked.outstanding(), others.outstanding()), (3, 0));
    rig.world.clock().advance_to(Time(1_000_000));
    assert_eq!(asked.outstanding(), 0, "completed, although not reaped");
    rig.disk.set_owner_only(true);
    assert!(rig.lane.driver().outstanding().is_none());
}

/// An observer sees commands in the order in which the disk takes them.
#[test]
fn an_observer_sees_each_command() {
    let mut rig = Rig::with(1, true, None, None);
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    rig.disk
        .observe(move |command, data| log.lock().unwrap().push((command.op, command.sector, data.to_vec())));
    rig.write(8, 3);
    rig.read(8).unwrap();
    rig.flush();
    let expected = [(Op::Write, 8, vec![3; 512]), (Op::Read, 8, vec![]), (Op::Flush, 0, vec![])];
    assert_eq!(*seen.lock().unwrap(), expected);
}

/// A call that looks at the clock for ever is found out, and one that waits longer than anything may take.
#[test]
fn a_call_that_never_returns_is_found_out() {
    use platter_sim::Stalled;
    let world = World::by_hand(1);
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let look = |times: u32| (0..times).for_each(|_| _ = world.clock().now());
    let watch = || {
        let log = Arc::clone(&seen);
        world.watch_call(10, Time(1000), move |stalled| log.lock().unwrap().push(stalled));
    };
    look(100);
    watch();
    look(10);
    assert!(seen.lock().unwrap().is_empty());
    look(1);
    world.clock().advance_to(Time(1000));
    look(10);
    assert_eq!(*seen.lock().unwrap(), [Stalled::Stands(Time(0))]);
    world.end_call();
    look(100);
    watch();
    world.clock().advance_to(Time(1001));
    look(1);
    assert_eq!(seen.lock().unwrap().pop(), Some(Stalled::Late(Time(1001))));
    world.end_call();
    assert_eq!(seen.lock().unwrap().len(), 1);
}

/// A call may look each millisecond for as long as it takes; one that looks as often while time creeps is found out.
#[test]
fn a_call_that_waits_long_may_look_often() {
    use platter_sim::Stalled;
    let looks_before_it_is_found_out = |step: u64| {
        let world = World::by_hand(1);
        let seen = Arc::new(std::sync::Mutex::new(None));
        let log = Arc::clone(&seen);
        world.watch_call(50, Time(u64::MAX), move |stalled| *log.lock().unwrap() = Some(stalled));
        (1..=20_000).find(|&look| {
            world.clock().advance_to(Time(look * step));
            let _ = world.clock().now();
            matches!(*seen.lock().unwrap(), Some(Stalled::Late(_)))
        })
    };
    assert_eq!(looks_before_it_is_found_out(1_000_000), None);
    assert!(looks_before_it_is_found_out(1000).is_some_and(|looks| looks < 11_000));
}

fn write(sector: u64, version: u8) -> Bio {
    Bio::write(sector * 512, vec![version; 512]).unwrap()
}

#[test]
fn a_plan_of_nothing_does_nothing() {
    let mut rig = Rig::faulty(FaultPlan::default());
    assert_eq!((rig.write(3, 7), rig.read(3), rig.flush()), (None, Ok(7), None));
    assert_eq!((rig.disk.injected(), rig.now()), (Injected::default(), Time(200_000)));
}

#[test]
fn spikes_and_stuck_commands_take_longer() {
    let mut rig = Rig::faulty(FaultPlan { spike_chance: ALWAYS, ..FaultPlan::default() });
    assert_eq!((rig.write(0, 1), rig.now()), (None, Time(100_100_000)));
    assert_eq!(rig.disk.injected(), Injected { spikes: 1, ..Injected::default() });
    let mut rig = Rig::faulty(FaultPlan { stuck_chance: ALWAYS, ..FaultPlan::default() });
    assert_eq!(rig.write(0, 1), None);
    assert!(rig.now() > Time(0) + Span::from_secs(3600));
}

#[test]
fn what_is_stuck_can_be_released() {
    let mut rig = Rig::faulty(FaultPlan { stuck_chance: ALWAYS, ..FaultPlan::default() });
    rig.submit(write(0, 1));
    rig.world.clock().advance_to(Time(1_000_000));
    rig.disk.settle();
    assert_eq!(rig.disk.release_stuck(), 1);
    rig.settle();
    assert_eq!((rig.kinds(), rig.now()), (vec![None], Time(1_000_000)));
    assert_eq!(rig.disk.release_stuck(), 0);
}

#[test]
fn errors_come_in_their_direction_and_place() {
    let mut rig = Rig::faulty(FaultPlan { read_error_chance: ALWAYS, ..FaultPlan::default() });
    assert_eq!((rig.write(0, 1), rig.read(0)), (None, Err(Kind::Io)));
    let mut rig = Rig::faulty(FaultPlan { write_error_chance: ALWAYS, ..FaultPlan::default() });
    assert_eq!((rig.write(0, 1), rig.read(0).is_ok()), (Some(Kind::Io), true));
    let bad = vec![BadSectors { sectors: 5..6, reads: true, writes: false }];
    let mut rig = Rig::faulty(FaultPlan { bad, ..FaultPlan::default() });
    assert_eq!((rig.write(5, 1), rig.read(5), rig.read(4)), (None, Err(Kind::Io), Ok(0)));
}

#[test]
fn only_the_bio_over_the_bad_sector_fails() {
    let bad = vec![BadSectors { sectors: 2..3, reads: true, writes: true }];
    let mut rig = Rig::faulty(FaultPlan { bad, ..FaultPlan::default() });
    rig.lane.queue.quiesce();
    for sector in 0..4 {
        let mut bio = Bio::read(sector * 512, vec![0; 512]).unwrap();
        bio.set_token(sector);
        rig.submit(bio);
    }
    rig.lane.queue.unquiesce();
    rig.settle();
    assert_eq!(rig.kinds(), [None, None, Some(Kind::Io), None]);
}

#[test]
fn a_failing_write_leaves_each_sector_old_or_new() {
    let mut seen = [false; 2];
    for seed in 0..20 {
        let plan = FaultPlan { write_error_chance: ALWAYS, seed, ..FaultPlan::default() };
        let mut rig = Rig::faulty(plan);
        rig.run(Bio::write(0, vec![9; 4096]).unwrap());
        (0..8).for_each(|sector| seen[usize::from(rig.read(sector) == Ok(9))] = true);
    }
    assert_eq!(seen, [true; 2]);
}

#[test]
fn lost_writes_are_acknowledged_and_misdirected_ones_are_elsewhere() {
    let mut rig = Rig::faulty(FaultPlan { lost_chance: ALWAYS, ..FaultPlan::default() });
    assert_eq!((rig.write(3, 7), rig.read(3), rig.disk.injected().lost), (None, Ok(0), 1));
    let mut rig = Rig::faulty(FaultPlan { misdirected_chance: ALWAYS, ..FaultPlan::default() });
    assert_eq!((rig.write(3, 7), rig.read(3), rig.disk.injected().misdirected), (None, Ok(0), 1));
    let found = (0..2048).filter(|&sector| rig.read(sector) == Ok(7)).count();
    assert_eq!(found, 1);
}

#[test]
fn bits_rot_for_good() {
    let mut rig = Rig::faulty(FaultPlan { rot_chance: ALWAYS, ..FaultPlan::default() });
    let mut read = || {
        let (_, mut bio) = rig.run(Bio::read(0, vec![0; 512]).unwrap());
        let buffer: Vec<u8> = bio.take_buffer().unwrap();
        buffer.iter().map(|byte| byte.count_ones()).sum::<u32>()
    };
    assert_eq!(read(), 1);
    assert!([0, 2].contains(&read()));
    rig.disk.set_faults(None);
    assert_eq!(rig.disk.injected().rotten, 2, "the count outlives the plan");
}

#[test]
fn a_flush_fails_by_number_and_makes_nothing_durable() {
    let supply = Supply::new();
    let plan = FaultPlan { flush_error_nth: Some(1), ..FaultPlan::default() };
    let mut rig = Rig::with(1, true, Some(plan), Some(supply.clone()));
    assert_eq!((rig.write(0, 1), rig.flush()), (None, None));
    assert_eq!((rig.write(1, 1), rig.flush()), (None, Some(Kind::Io)));
    supply.cut(rig.now(), Survivors::None);
    supply.restore();
    assert_eq!((rig.read(0), rig.read(1)), (Ok(1), Ok(0)));
}

/// A write with FUA counts as a flush of itself.
#[test]
fn a_dropped_flush_is_acknowledged_and_makes_nothing_durable() {
    let dropped = [(DroppedFlushes::None, 0), (DroppedFlushes::Nth(1), 1), (DroppedFlushes::All, 2)];
    for (fua, (dropped_flushes, count)) in
        [false, true].into_iter().flat_map(|fua| dropped.map(|row| (fua, row)))
    {
        let supply = Supply::new();
        let plan = FaultPlan { dropped_flushes, ..FaultPlan::default() };
        let mut rig = Rig::with(1, true, Some(plan), Some(supply.clone()));
        for sector in 0..2 {
            let mut bio = write(sector, 1);
            bio.add_flags(if fua { Flags::FUA } else { Flags::NONE });
            assert_eq!((rig.run(bio).0, if fua { None } else { rig.flush() }), (None, None));
        }
        assert_eq!((rig.read(0), rig.read(1)), (Ok(1), Ok(1)));
        supply.cut(rig.now(), Survivors::None);
        supply.restore();
        assert_eq!((rig.read(0), rig.read(1)), (Ok(u8::from(count < 2)), Ok(u8::from(count < 1))));
        assert_eq!(rig.disk.injected(), Injected { dropped_flushes: count, ..Injected::default() });
    }
}

#[test]
fn a_disk_dies_and_comes_back_with_its_contents() {
    let death = Death { when: When::At(Time(250_000)), lasts: Some(Span::from_millis(1)) };
    let mut rig = Rig::faulty(FaultPlan { death: Some(death), ..FaultPlan::default() });
    assert_eq!((rig.write(0, 1), rig.write(1, 1)), (None, None));
    assert_eq!((rig.read(0), rig.read(0)), (Err(Kind::Gone), Err(Kind::Gone)));
    assert_eq!(rig.now(), Time(250_000), "who asks a disk that is away does not wait");
    rig.world.clock().advance_to(Time(1_250_000));
    assert_eq!((rig.read(0), rig.read(1)), (Ok(1), Ok(1)));
    assert_eq!(rig.disk.injected(), Injected { deaths: 1, gone: 2, ..Injected::default() });
}

#[test]
fn a_disk_that_dies_with_a_command_has_room_when_it_comes_back() {
    let death = Death { when: When::Io(3), lasts: Some(Span::from_micros(1)) };
    let mut rig = Rig::faulty(FaultPlan { death: Some(death), ..FaultPlan::default() });
    // The disk takes four at once; the model still has its commands when it comes back.
    for sector in 0..4 {
        rig.submit(write(sector * 8, 1));
    }
    rig.world.clock().advance_to(Time(1_000));
    for sector in 4..12 {
        rig.submit(write(sector * 8, 2));
    }
    rig.settle();
    let kinds = rig.kinds();
    assert_eq!(kinds.iter().filter(|kind| **kind == Some(Kind::Gone)).count(), 4);
    assert_eq!((rig.read(0), rig.read(32), rig.read(88)), (Ok(0), Ok(2), Ok(2)));
}

#[test]
fn a_cut_keeps_what_was_flushed_and_fails_what_is_in_flight() {
    for survivors in [Survivors::None, Survivors::All] {
        let supply = Supply::new();
        let mut rig = Rig::with(1, true, None, Some(supply.clone()));
        rig.write(0, 1);
        rig.flush();
        rig.write(0, 2);
        let mut fua = write(1, 3);
        fua.add_flags(Flags::FUA);
        rig.run(fua);
        rig.submit(write(2, 4));
        supply.cut(rig.now(), survivors.clone());
        rig.settle();
        assert_eq!(rig.kinds(), [Some(Kind::Gone)]);
        assert_eq!(rig.read(0), Err(Kind::Gone), "there is no power");
        supply.restore();
        let all = survivors == Survivors::All;
        let expected = if all { (Ok(2), Ok(3), Ok(4)) } else { (Ok(1), Ok(3), Ok(0)) };
        assert_eq!((rig.read(0), rig.read(1), rig.read(2)), expected);
        let reports = supply.take_reports();
        let could: Lost = [(0, 2, 0), (0, 4, 2)].into_iter().collect();
        let lost = if all { Lost::new() } else { could.clone() };
        assert_eq!(reports, [CutReport { writes: 1, volatile: 1, lost, could, ..CutReport::default() }]);
    }
}

#[test]
fn a_disk_without_a_cache_loses_only_what_is_in_flight() {
    let supply = Supply::new();
    let mut rig = Rig::with(1, false, None, Some(supply.clone()));
    rig.write(0, 1);
    rig.submit(write(0, 2));
    supply.cut(rig.now(), Survivors::None);
    rig.settle();
    supply.restore();
    assert_eq!(rig.read(0), Ok(1));
}

#[test]
fn cuts_come_at_a_time_and_at_a_command() {
    let supply = Supply::new();
    let mut rig = Rig::with(1, true, None, Some(supply.clone()));
    supply.cut_at(Time(150_000), Survivors::None);
    assert_eq!((rig.write(0, 1), rig.write(0, 2)), (None, Some(Kind::Gone)));
    assert_eq!((rig.now(), supply.is_on(), supply.cuts()), (Time(150_000), false, 1));
    supply.restore();
    supply.cut_after(2, Survivors::None);
    assert_eq!((rig.write(0, 1), rig.write(0, 2), rig.write(0, 3)), (None, None, Some(Kind::Gone)));
    supply.restore();
    supply.cut_after(0, Survivors::None);
    supply.cut_at(rig.now() + Span(1), Survivors::None);
    supply.cancel();
    assert_eq!(rig.write(0, 1), None);
}

#[test]
fn disks_on_one_supply_fail_together() {
    let supply = Supply::new();
    let mut rigs = [(); 2].map(|()| Rig::with(1, true, None, Some(supply.clone())));
    rigs[1].write(0, 1);
    supply.cut_after(0, Survivors::None);
    assert_eq!(rigs[0].write(0, 1), Some(Kind::Gone));
    rigs[1].disk.settle();
    supply.restore();
    assert_eq!(rigs[1].read(0), Ok(0));
    assert_eq!(supply.take_reports().iter().map(|report| report.disk).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn the_same_seed_gives_the_same_life() {
    let life = |seed| {
        let plan = FaultPlan {
            spike_chance: 100_000,
            write_error_chance: 100_000,
            lost_chance: 50_000,
            ..FaultPlan::default()
        };
        let supply = Supply::new();
        let mut rig = Rig::with(seed, true, Some(plan), Some(supply.clone()));
        supply.cut_after(150, Survivors::Seeded(seed));
        for sector in 0..200 {
            rig.write(sector % 50, sector as u8);
        }
        supply.restore();
        let all: Vec<_> = (0..50).map(|sector| rig.read(sector)).collect();
        (all, rig.now(), rig.disk.injected(), supply.take_reports())
    };
    assert_eq!(life(1), life(1));
    assert_ne!(life(1), life(2));
}

#[test]
fn elevators_can_be_switched_under_faults() {
    let plan = FaultPlan {
        spike_chance: 200_000,
        spike: Span::from_millis(1),
        read_error_chance: 100_000,
        write_error_chance: 100_000,
        ..FaultPlan::default()
    };
    let mut rig = Rig::faulty(plan);
    let names: Vec<&str> = platter_elevators::TABLE.iter().map(|row| row.name).collect();
    for round in 0..40u64 {
        for i in 0..16u64 {
            let sector = (round * 7 + i * 13) % 100;
            let op = if i % 3 == 0 { Op::Read } else { Op::Write };
            // Whatever they read: all of them must end.
            let bio = match op {
                Op::Read => Bio::read(sector * 512, vec![0u8; 1024]),
                _ => Bio::write(sector * 512, vec![i as u8; 1024]),
            };
            rig.submit(bio.unwrap());
        }
        let name = names[round as usize % names.len()];
        let elevator = platter_elevators::by_name(name).map(|row| (row.make)()).filter(|_| round % 5 != 0);
        let now = rig.now();
        rig.lane.queue.switch_elevator(now, elevator);
    }
    rig.settle();
    let kinds = rig.kinds();
    assert_eq!(kinds.len(), 640);
    assert!(kinds.iter().flatten().all(|kind| *kind == Kind::Io));
    assert!(kinds.iter().flatten().count() > 10);
    assert!(rig.lane.queue.elevator_fault().is_none());
}

#[test]
fn what_happens_to_an_idle_disk_is_noticed_by_whoever_looks_when_something_is_next() {
    let supply = Supply::new();
    let rig = Rig::with(1, true, None, Some(supply.clone()));
    supply.cut_at(Time(500), Survivors::None);
    assert_eq!(rig.lane.next_wakeup(), Some(Time(500)));
    rig.world.clock().advance_to(Time(500));
    // Else a program that lets time pass to the next wake-up would never get past it.
    assert_eq!((rig.lane.next_wakeup(), supply.is_on()), (None, false));
}
