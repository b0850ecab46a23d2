//! The queue of one lane does what the shared queue without an elevator does with the same bios: it starts the same
//! requests in the same order, completes the bios with the same status, and counts the same.

use crate::disk::{FakeDisk, Mode, Rng};
use crate::rig::{Done, Feed, Io, Queued, Rig};
use platter_block::bio::{Flags, Op};
use platter_block::driver::Features;
use platter_block::lane::Cancel;
use platter_block::limits::Limits;
use platter_block::queue::Settings;
use platter_block::time::Span;

const SIZE: u64 = 128 << 10;

fn pick<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.below(of.len() as u64) as usize]
}

/// The disk and the settings of a seed.
fn setup(seed: u64, faults: bool) -> (FakeDisk, Settings) {
    let mut rng = Rng(seed);
    let limits = Limits::unlimited(512)
        .with_max_transfer(pick(&mut rng, &[4096, 20480, 1 << 20]))
        .with_max_segments(pick(&mut rng, &[3, 16, 128]))
        .with_max_segment_size(pick(&mut rng, &[4096, 1 << 16]))
        .with_segment_boundary(pick(&mut rng, &[0, 0, 4096]))
        .with_chunk(pick(&mut rng, &[0, 0, 16384]))
        .with_max_discard(pick(&mut rng, &[4096, 1 << 20]));
    let features =
        Features::default().with_write_cache(rng.chance(50)).with_fua(rng.chance(50)).with_read_only(false);
    let mut disk = FakeDisk::new(SIZE, limits, features, seed);
    disk.mode = pick(&mut rng, &[Mode::Prompt, Mode::Shuffled]);
    disk.room = pick(&mut rng, &[3, usize::MAX, usize::MAX]);
    disk.no_zeroes = rng.chance(30);
    if faults {
        disk.partial = pick(&mut rng, &[0, 0, 20]);
        disk.transient = pick(&mut rng, &[0, 0, 20]);
        disk.obeys = pick(&mut rng, &[0, 50, 100]);
        disk.bad.extend((0..pick(&mut rng, &[0, 0, 3])).map(|_| rng.below(SIZE / 512)));
    }
    let settings = Settings {
        depth: 1 + rng.below(12) as u32,
        nr_requests: 1 + rng.below(20) as u32,
        merges: rng.chance(80),
        plug: None,
        timeout: (faults && rng.chance(50)).then_some(Span::from_millis(20)),
        slow_timeout: (faults && rng.chance(50)).then_some(Span::from_millis(40)),
        abort_grace: rng.chance(50).then_some(Span::from_millis(10)),
        ..Settings::default()
    };
    (disk, settings)
}

/// A bio that may go to the queue of one lane.
fn io(rng: &mut Rng, near: &mut u64) -> Io {
    let op = pick(rng, &[Op::Read, Op::Read, Op::Write, Op::Write, Op::Discard, Op::WriteZeroes]);
    let flags = [Flags::NONE, Flags::NONE, Flags::SYNC, Flags::NOMERGE, Flags::READAHEAD, Flags::BORROWED];
    let blocks = 1 + if rng.chance(20) { rng.below(48) } else { rng.below(3) };
    let last = SIZE / 512 - blocks;
    let pos = if rng.chance(60) { (*near).min(last) } else { rng.below(last + 1) };
    *near = pos + blocks;
    let half = (blocks / 2 * 512) as usize;
    let len = (blocks * 512) as usize;
    let lens = if op.has_data() && rng.chance(30) { vec![half, len - half] } else { vec![len] };
    Io { lens, ..Io::new(op, pos * 512, 0) }.with(pick(rng, &flags))
}

/// A life of a queue that depends only on the seed. `late`: bios are taken back, and the disk keeps requests for long.
fn live<L: Queued>(seed: u64, mut rig: Rig<L>, late: bool) -> Rig<L> {
    let (mut rng, mut near, mut trap) = (Rng(seed ^ 0x5eed), 0, 0);
    rig.guards = late;
    for _ in 0..120 {
        match rng.below(100) {
            0..70 => {
                if late && rng.chance(25) {
                    near = trap;
                }
                let io = io(&mut rng, &mut near);
                if late {
                    rig.run();
                }
                if rig.conflicts(&io) {
                    rig.disk().keeps.clear();
                    rig.drain();
                }
                let patience = pick(&mut rng, &[1_000_000, 100_000_000]);
                let deadline = (late && rng.chance(50)).then(|| rig.now + Span(1 + rng.below(patience)));
                rig.submit(Io { deadline, ..io });
            }
            70..90 => rig.run(),
            90..95 => rig.now += Span(rng.below(if late { 40_000_000 } else { 4_000_000 })),
            95 if late => {
                let token = rng.below(rig.tokens().max(1));
                rig.run();
                rig.lane.cancel(rig.now, &Cancel::token(token));
            }
            96..98 if late => {
                let sector = rng.below(SIZE / 512);
                rig.disk().keeps.extend(sector..sector + 8);
                trap = sector;
            }
            98 => {
                rig.disk().keeps.clear();
                rig.drain();
            }
            _ => rig.run(),
        }
    }
    rig.disk().keeps.clear();
    rig.drain();
    rig
}

fn assert_equal<A: Queued, B: Queued>(seed: u64, one: &mut Rig<A>, other: &mut Rig<B>) {
    let (log, expected) = (one.disk().log.clone(), other.disk().log.clone());
    let common = log.iter().zip(&expected).take_while(|(one, other)| one == other).count();
    let from = common.saturating_sub(6);
    let rest = (log.iter().skip(from).take(12), expected.iter().skip(from).take(12));
    assert!(
        log == expected,
        "seed {seed}:\n{:?}\n{:?}",
        rest.0.collect::<Vec<_>>(),
        rest.1.collect::<Vec<_>>()
    );
    let statuses = |done: &[Done]| done.iter().map(|done| (done.token, done.status)).collect::<Vec<_>>();
    assert_eq!(statuses(&one.done), statuses(&other.done), "seed {seed}");
    let (counts, expected) = (one.counts(), other.counts());
    assert!(counts.rows().eq(expected.rows()), "seed {seed}: {counts:?} {expected:?}");
    assert_eq!(counts.depth, expected.depth, "seed {seed}");
    for op in Op::ALL {
        let (own, other) = (one.statistics(), other.statistics());
        assert!(own.latency(op).eq(other.latency(op)), "seed {seed}: {op}");
    }
}

#[test]
fn both_queues_treat_the_same_bios_equally() {
    for seed in 0..200 {
        let ((disk, settings), (same, _)) = (setup(seed, false), setup(seed, false));
        let mut direct = live(seed, Rig::direct(disk, settings, Feed::AtOnce), false);
        let mut shared = live(seed, Rig::with(same, settings, None), false);
        assert_equal(seed, &mut direct, &mut shared);
    }
}

#[test]
fn common_bios_are_treated_as_others_are() {
    for (seed, late) in (0..200).flat_map(|seed| [(seed, false), (seed, true)]) {
        let ((disk, settings), (same, _)) = (setup(seed, late), setup(seed, late));
        let mut common = live(seed, Rig::direct(disk, settings, Feed::Common), late);
        let mut batch = live(seed, Rig::direct(same, settings, Feed::Batch), late);
        // A refused common bio is offered to the driver again in the same round.
        if common.counts().refusals == 0 {
            assert_equal(seed, &mut common, &mut batch);
        }
    }
}

#[test]
fn late_and_cancelled_bios_leave_the_queue_of_one_lane() {
    let mut kinds = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let (disk, settings) = setup(seed, true);
        let rig = live(seed, Rig::direct(disk, settings, Feed::Common), true);
        kinds.extend(rig.done.iter().filter_map(Done::kind).map(|kind| format!("{kind:?}")));
    }
    for kind in ["Cancelled", "Gone", "Io", "TimedOut", "WouldBlock"] {
        assert!(kinds.contains(kind), "{kind} never happened, in {kinds:?}");
    }
}

/// A request holds a limited number of bios. Those beyond the limit form another request, and all of them complete.
#[test]
fn the_number_of_bios_in_a_request_is_bounded() {
    const BIOS: u64 = 70_000;
    let disk = FakeDisk::new(BIOS * 512, Limits::unlimited(512), Features::default(), 1);
    let mut rig = Rig::direct(disk, Settings::default(), Feed::Common);
    for block in 0..BIOS {
        rig.submit(Io::new(Op::Discard, block * 512, 512));
    }
    rig.drain();
    assert_eq!(rig.done.len() as u64, BIOS);
    assert!(rig.disk().starts().iter().all(|start| start.2 <= 1024 * 512));
}
