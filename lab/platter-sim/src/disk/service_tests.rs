//! Whole commands on a small disk, against times worked out by hand. A revolution takes 10 ms, a sector 0.5 ms,
//! a seek of one cylinder 1 ms, one of nine 5 ms, a change of heads 1 ms.

use super::params::{
    Access, After, BusParams, ControlParams, DiskParams, LayoutParams, Mapping, MechanicsParams, SeekCurve,
    Skew, Sparing, WriteBack, ZoneParams,
};
use super::{MechanicalDisk, Options, Policy, SyntheticDisk};
use crate::model::{Command, Ended, Model};
use platter_block::bio::{IoPrio, Op};
use platter_block::time::Time;

const US: u64 = 1_000;
const SHEET: SyntheticDisk = SyntheticDisk {
    name: "sheet",
    rpm: 10_025,
    heads: 6,
    cylinders: 10_042,
    zones: 24,
    outer_sectors: 334,
    inner_sectors: 229,
    sectors: None,
    seek_one: 1_245 * US,
    seek_average: 5_600 * US,
    seek_full: 10_830 * US,
    head_switch: 176 * US,
    write_settle: 487 * US,
    cache_segments: 10,
    segment_sectors: 374,
    read_hit_overhead: 50 * US,
    read_overhead: 100 * US,
    write_overhead: 100 * US,
    bus_sector: 6_400_000,
    write_back: true,
};

fn tiny() -> DiskParams {
    let zone = ZoneParams {
        first_cylinder: 0,
        last_cylinder: 9,
        sectors_per_track: 20,
        first_offset: Skew::Sectors(0),
        reserved: 0,
        track_skew: Skew::Sectors(0),
        cylinder_skew: Skew::Sectors(0),
        spares: 0,
        slips: Vec::new(),
        remaps: Vec::new(),
    };
    let mut params = DiskParams::synthetic(&SHEET);
    params.layout = LayoutParams {
        heads: 2,
        cylinders: 10,
        mapping: Mapping::Ascending,
        sparing: Sparing::ZoneEnd,
        zones: vec![zone],
        sectors: None,
    };
    params.mechanics = MechanicsParams {
        access: Access::Positioned,
        rpm: 6000,
        seek: SeekCurve::Table(vec![(1, 1_000 * US), (9, 5_000 * US)]),
        head_switch: 1_000 * US,
        write_settle: 250_000,
    };
    params.control = ControlParams::default();
    params.bus = BusParams::default();
    params.cache.segment_size = 64;
    params.cache.write_back = WriteBack::Off;
    params.cache.write_prebuffering = false;
    params
}

fn disk(params: DiskParams, queue: Policy, depth: u32) -> MechanicalDisk {
    MechanicalDisk::new(params, Options { queue, depth }).unwrap()
}

fn command(tag: u32, op: Op, sector: u64, sectors: u32) -> Command {
    Command { tag, op, sector, sectors, fua: false, ioprio: IoPrio::default(), order: 0 }
}

/// Issues commands at their times in microseconds and gives back tags and ends, in microseconds.
fn run(mut disk: MechanicalDisk, commands: &[(u64, Command)]) -> Vec<(u32, u64)> {
    let mut ended: Vec<Ended> = Vec::new();
    for (at, command) in commands {
        disk.advance(Time(at * US), &mut ended);
        assert!(disk.accept(Time(at * US), command), "{command:?} refused");
    }
    while let Some(next) = disk.next_event() {
        disk.advance(next, &mut ended);
    }
    ended.iter().map(|end| (end.tag, end.at.0.div_ceil(US))).collect()
}

fn one(params: DiskParams, at: u64, command: Command) -> u64 {
    run(disk(params, Policy::None, 1), &[(at, command)])[0].1
}

#[test]
fn rotation_seeks_and_head_changes_of_reads() {
    for (at, sector, sectors, end) in [
        (0, 0, 1, 500),
        (0, 5, 1, 3_000),
        (0, 5, 4, 4_500),
        // Just missed: the next revolution.
        (1, 0, 1, 10_500),
        // Two sectors to the end of the track, a change of heads, the rest of a revolution.
        (0, 18, 4, 21_000),
        // The next cylinder is reached after 1 ms, the last after 5 ms.
        (0, 40, 1, 10_500),
        (0, 42, 1, 1_500),
        (0, 41, 1, 11_000),
        (0, 372, 1, 6_500),
        // The angle is the same after any number of revolutions: a day later.
        (86_400_000_000, 5, 1, 86_400_003_000),
    ] {
        let found = one(tiny(), at, command(1, Op::Read, sector, sectors));
        assert_eq!(found, end, "{sectors} sectors at {sector}, at {at} us");
    }
}

#[test]
fn writes_settle_and_pay_their_overheads() {
    // 1.25 ms to the next cylinder: sector 2 passes at 1 ms, sector 3 at 1.5 ms.
    assert_eq!(one(tiny(), 0, command(1, Op::Write, 42, 1)), 11_500);
    assert_eq!(one(tiny(), 0, command(1, Op::Write, 43, 1)), 2_000);
    let mut params = tiny();
    params.control.write_miss = After { read: 600 * US, write: 0 };
    params.control.write_complete = 30 * US;
    params.control.reselect_first = 20 * US;
    assert_eq!(one(params, 0, command(1, Op::Write, 43, 1)), 12_050, "overhead makes it miss its sector");
}

#[test]
fn a_write_waits_for_its_data_turn_by_turn() {
    let mut params = tiny();
    params.bus.write_sector = 1_000_000_000;
    // Data are there after 1, 2 and 3 ms; sectors pass at 2.5, 3 and 3.5 ms.
    assert_eq!(one(params.clone(), 0, command(1, Op::Write, 5, 3)), 4_000);
    // Sector 2 passes at 1 ms, in time; the data of sector 3 miss its pass at 1.5 ms and meet the next one.
    assert_eq!(one(params, 0, command(1, Op::Write, 2, 3)), 12_500);
}

#[test]
fn a_slow_bus_decides_the_end_of_a_read() {
    let mut params = tiny();
    params.bus.read_sector = 1_000_000_000;
    assert_eq!(one(params.clone(), 0, command(1, Op::Read, 0, 4)), 4_500);
    params.control.read_disconnect.read = 100 * US;
    params.control.reselect_first = 200 * US;
    params.control.data_preparation = 50 * US;
    params.control.hold_bus_read = true;
    // The bus is taken again once the first sector is there.
    assert_eq!(one(params, 0, command(1, Op::Read, 0, 4)), 4_750);
}

#[test]
fn a_read_without_a_watermark_asks_for_the_bus_until_its_data_are_there() {
    // Turns that take no time must end as well.
    for (turn, end) in [(0, 4_500), (300 * US, 4_500), (700 * US, 4_900)] {
        let mut params = tiny();
        params.cache.watermark_by_request = false;
        params.cache.read_watermark = 0;
        params.control.reselect_first = turn;
        assert_eq!(one(params, 0, command(0, Op::Read, 5, 4)), end, "turns of {turn} ns");
    }
}

#[test]
fn reads_of_what_was_read_ahead_cost_no_positioning() {
    let mut params = tiny();
    params.control.read_hit = After { read: 20 * US, write: 40 * US };
    let read = |sector, sectors| command(2, Op::Read, sector, sectors);
    for (at, second, end) in [
        (5_000, read(4, 2), 5_020),
        // Half of it has passed: the rest follows as it does.
        (5_000, read(8, 4), 6_000),
        // What the first read delivered is still there.
        (5_000, read(0, 1), 5_020),
    ] {
        let ends =
            run(disk(params.clone(), Policy::None, 1), &[(0, command(1, Op::Read, 0, 1)), (at, second)]);
        assert_eq!(ends, [(1, 500), (2, end)], "{second:?}");
    }
}

#[test]
fn written_back_data_reach_the_medium_by_the_flush() {
    let mut params = tiny();
    params.cache.write_back = WriteBack::On;
    params.bus.write_sector = 100_000_000;
    let commands = [(0, command(1, Op::Write, 43, 1)), (200, command(2, Op::Flush, 0, 0))];
    assert_eq!(run(disk(params.clone(), Policy::Fcfs, 8), &commands), [(1, 100), (2, 2_000)]);
    let durable = Command { fua: true, ..command(1, Op::Write, 43, 1) };
    assert_eq!(one(params.clone(), 0, durable), 2_000);
    let disk = disk(params, Policy::Fcfs, 8);
    assert!(disk.geometry().features.write_cache);
    assert_eq!((disk.geometry().size, disk.depth()), (400 * 512, 8));
}

#[test]
fn writes_that_follow_each_other_go_in_one_sweep() {
    let mut params = tiny();
    params.cache.write_back = WriteBack::On;
    params.bus.write_sector = 10_000_000;
    let write = |tag, sector| command(tag, Op::Write, sector, 2);
    let commands =
        [(0, write(1, 6)), (100, write(2, 8)), (200, write(3, 10)), (300, command(4, Op::Flush, 0, 0))];
    // Six sectors from 3 ms on.
    let ends = run(disk(params, Policy::Fcfs, 8), &commands);
    assert_eq!(ends, [(1, 20), (2, 120), (3, 220), (4, 6_000)]);
}

#[test]
fn prebuffered_writes_complete_while_the_arm_is_busy() {
    let mut params = tiny();
    params.cache.write_back = WriteBack::On;
    params.cache.write_prebuffering = true;
    params.cache.write_segments = 3;
    params.bus.write_sector = 10_000_000;
    let write = |tag, sector| (0, command(tag, Op::Write, sector, 1));
    let commands = [write(1, 43), write(2, 100), write(3, 200), write(4, 300)];
    let ends = run(disk(params, Policy::Fcfs, 8), &commands);
    // The fourth waits for a segment: until the first is on the medium.
    assert_eq!(ends, [(1, 10), (2, 20), (3, 30), (4, 2_010)]);
}

#[test]
fn access_on_arrival_takes_at_most_a_revolution() {
    let mut params = tiny();
    // The head comes down in sector 4 of 2 to 9: those from 5 on pass first, then 2 to 4, up to 12.5 ms.
    for op in [Op::Read, Op::Write] {
        assert_eq!(one(params.clone(), 2_200, command(1, op, 2, 8)), 15_000, "{op:?} in order");
    }
    (params.cache.zero_latency_read, params.cache.zero_latency_write) = (true, true);
    for op in [Op::Read, Op::Write] {
        assert_eq!(one(params.clone(), 2_200, command(1, op, 2, 8)), 12_500, "{op:?} on arrival");
        assert_eq!(
            one(params.clone(), 5_200, command(1, op, 2, 8)),
            15_000,
            "{op:?} before its first sector"
        );
    }
}

#[test]
fn commands_larger_than_a_segment_wait_for_the_bus() {
    let mut params = tiny();
    (params.cache.segment_size, params.cache.read_ahead_maximum) = (8, 8);
    // The bus keeps up: twelve sectors in a row.
    assert_eq!(one(params.clone(), 0, command(1, Op::Read, 0, 12)), 6_000);
    // It does not: sector 8 finds no room at 4 ms and goes by once more.
    params.bus.read_sector = 4_000_000_000;
    assert_eq!(one(params.clone(), 0, command(1, Op::Read, 0, 12)), 48_500);
    params.bus.read_sector = 0;
    params.bus.write_sector = 1_000_000_000;
    // The data of sector 7 miss its pass at 3.5 ms; from the next one on all are in time.
    assert_eq!(one(params, 0, command(1, Op::Write, 4, 12)), 18_000);
}

#[test]
fn discards_cost_overhead_and_zeroes_no_bus() {
    let mut params = tiny();
    params.control.write_miss = After { read: 70 * US, write: 70 * US };
    params.bus.write_sector = 1_000_000_000;
    assert_eq!(one(params.clone(), 0, command(1, Op::Discard, 0, 400)), 70);
    assert_eq!(one(params, 0, command(1, Op::WriteZeroes, 5, 3)), 4_000);
}

/// A discard needs no arm, and yet it follows an ordered tag that is with the arm while another command waits.
#[test]
fn a_discard_does_not_end_before_the_ordered_tag_that_it_follows() {
    let with = |at, order, command: Command| (at, Command { order, ..command });
    let commands = [
        with(0, 0, command(0, Op::Read, 0, 1)),
        with(0, 1, command(1, Op::Write, 200, 1)),
        with(0, 2, command(2, Op::Read, 5, 1)),
        // The read of sector 0 has ended after 500 us.
        with(600, 2, command(3, Op::Discard, 200, 1)),
    ];
    let ended = run(disk(tiny(), Policy::Fcfs, 4), &commands);
    let at = |tag| ended.iter().find(|(other, _)| *other == tag).unwrap().1;
    assert!(at(1) < at(3), "{ended:?}");
}

#[test]
fn each_policy_takes_its_own_next() {
    let read = |tag, sector| (0, command(tag, Op::Read, sector, 1));
    for (policy, commands, order) in [
        (Policy::Fcfs, [read(0, 200), read(1, 190), read(2, 360), read(3, 240)], [0, 1, 2, 3]),
        (Policy::Sstf, [read(0, 200), read(1, 360), read(2, 240), read(3, 190)], [0, 3, 2, 1]),
        (Policy::CLook, [read(0, 200), read(1, 190), read(2, 360), read(3, 240)], [0, 3, 2, 1]),
        // After sector 0: sector 21 needs a change of heads and just misses, sector 45 can be met, 39 is later.
        (Policy::Sstf, [read(0, 0), read(1, 21), read(2, 45), read(3, 39)], [0, 1, 3, 2]),
        (Policy::Sptf, [read(0, 0), read(1, 21), read(2, 45), read(3, 39)], [0, 2, 3, 1]),
    ] {
        let ends = run(disk(tiny(), policy, 4), &commands);
        let found: Vec<u32> = ends.iter().map(|&(tag, _)| tag).collect();
        assert_eq!(found, order, "{policy:?} {ends:?}");
    }
}

#[test]
fn a_full_queue_refuses() {
    let mut disk = disk(tiny(), Policy::Fcfs, 2);
    assert!(disk.accept(Time(0), &command(1, Op::Read, 0, 1)));
    assert!(disk.accept(Time(0), &command(2, Op::Read, 40, 1)));
    assert!(!disk.accept(Time(0), &command(3, Op::Read, 80, 1)));
    let mut ended = Vec::new();
    disk.advance(Time(500 * US), &mut ended);
    assert_eq!(ended.len(), 1);
    assert!(disk.accept(Time(500 * US), &command(3, Op::Read, 80, 1)));
}

#[test]
fn wrong_options_are_named() {
    let wrong = |params: DiskParams, queue, depth| {
        MechanicalDisk::new(params, Options { queue, depth }).unwrap_err().to_string()
    };
    assert_eq!(wrong(tiny(), Policy::None, 2), "queue depth is 2: expected 1 to 1 with this queue");
    let mut params = tiny();
    params.mechanics.rpm = 10;
    assert_eq!(wrong(params, Policy::Fcfs, 2), "rotation speed (in rpms) is 10: expected 1000 to 100000");
    let mut params = tiny();
    params.cache.write_segments = 11;
    assert!(
        wrong(params, Policy::Fcfs, 2).starts_with("maximum number of write segments is 11: expected 1 to")
    );
}

/// Numbers for tests (Marsaglia's xorshift).
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Mixed commands on a disk of a data sheet, `depth` of them at a time; a sum over all ends.
fn mixed(policy: Policy, seed: u64) -> (u64, u64) {
    let mut disk = disk(DiskParams::synthetic(&SHEET), policy, 16);
    let (mut state, mut now, mut ended, mut inside) = (seed, Time(0), Vec::new(), 0_u64);
    let (mut sum, mut count, mut last) = (0_u64, 0_u64, Time(0));
    for tag in 0..3_000_u32 {
        let op = match random(&mut state) % 16 {
            0 => Op::Flush,
            1 => Op::Discard,
            2 => Op::WriteZeroes,
            3..8 => Op::Write,
            _ => Op::Read,
        };
        let sectors = if op == Op::Flush { 0 } else { 1 + (random(&mut state) % 900) as u32 };
        let sector = random(&mut state) % (disk.sectors() - 1000);
        let fua = random(&mut state).is_multiple_of(8);
        while inside == 16 || (inside > 0 && random(&mut state).is_multiple_of(4)) {
            now = disk.next_event().unwrap().max(now);
            disk.advance(now, &mut ended);
            inside -= ended.len() as u64;
            for end in ended.drain(..) {
                assert!(last <= end.at && end.at <= now, "ends come in order");
                last = end.at;
                count += 1;
                sum = sum.wrapping_mul(31).wrapping_add(end.at.0 ^ u64::from(end.tag));
            }
        }
        assert!(disk.accept(now, &Command { fua, ..command(tag, op, sector, sectors) }));
        inside += 1;
    }
    while let Some(next) = disk.next_event() {
        disk.advance(next, &mut ended);
    }
    (sum, count + ended.len() as u64)
}

#[test]
fn every_command_ends_once_and_always_at_the_same_time() {
    for policy in [Policy::Fcfs, Policy::CLook, Policy::Sstf, Policy::Sptf] {
        let first = mixed(policy, 7);
        assert_eq!(first.1, 3_000, "{policy:?}");
        assert_eq!(first, mixed(policy, 7));
        assert_ne!(first.0, mixed(policy, 8).0);
    }
}

#[test]
fn a_disk_of_a_data_sheet_meets_its_figures() {
    let disk = disk(DiskParams::synthetic(&SHEET), Policy::None, 1);
    // 24 zones from 334 to 229 sectors a track.
    let mean = f64::from(334 + 229) / 2.0;
    let expected = mean * 6.0 * 10_042.0;
    assert!((disk.sectors() as f64 / expected - 1.0).abs() < 0.01, "{}", disk.sectors());
    let curve = &DiskParams::synthetic(&SHEET).mechanics.seek;
    let table = super::seek::seek_table(curve, 10_042).unwrap();
    let n = 10_042_f64;
    let weigh = |(distance, &time): (usize, &u64)| time as f64 * 2.0 * (n - distance as f64) / (n * n);
    let mean: f64 = table.iter().enumerate().map(weigh).sum();
    assert!((mean / 5.6e6 - 1.0).abs() < 0.005, "mean seek {mean}");
    assert_eq!(table[1], 1_245 * US);
    assert!((table[10_041] as f64 / 10.83e6 - 1.0).abs() < 0.005);
    assert!(table.windows(2).all(|pair| pair[0] <= pair[1]), "seeks rise with distance");
}
