//! Plans that find something which is not mended, kept as data: a seed leads to another plan when the generator changes, as with
//! a parameter of an elevator. Each is the smallest that was found. When its cause is mended it finds nothing, and becomes a
//! test of that.

use super::super::memory::Layout;
use super::super::plan::{
    Act, DiskPlan, ElevatorPlan, Io, Jitter, ModelPlan, Node, Plan, Share, Step, Unsound, Way,
};
use super::super::{Features, carry_out};
use platter_block::bio::{Context, Flags, IoPrio, Op};
use platter_block::driver::{Features as DiskFeatures, Geometry};
use platter_block::limits::Limits;
use platter_block::queue::{Ordered, Settings};
use platter_block::time::Span;
use platter_disk::disk_backend::{DiskSettings, OnReturn};
use platter_sim::catalogue::Choices;
use platter_sim::disk::Policy;
use platter_sim::fault::{BadSectors, Blow, FaultPlan, Lands, Strike};
use std::sync::Arc;

const IO: Io = Io {
    op: Op::Read,
    at: 0,
    blocks: 1,
    flags: Flags::NONE,
    deadline: None,
    layout: Layout::Whole,
    context: Context::new(1),
    ioprio: IoPrio::NONE,
    handle: None,
    again: false,
    unsound: None,
    lent: false,
};

fn disk(choices: Choices, queue: Settings, faults: FaultPlan, owner_only: bool) -> DiskPlan {
    DiskPlan {
        model: ModelPlan::Known("ide2004", choices),
        settings: DiskSettings::default().with_queue(queue).with_caller_plug(false),
        elevator: None,
        faults,
        owner_only,
        transport: None,
    }
}

fn submit(way: Way, ios: impl IntoIterator<Item = Io>) -> Act {
    Act::Submit { way, ios: ios.into_iter().collect(), hold: false }
}

fn sectors(from: u64, to: u64) -> Node {
    Node::Part { from, to, of: Share::Sectors, below: Box::new(Node::Disk(0)) }
}

/// A disk that takes its commands in random order.
fn jittery(jitter: Jitter, queue: Settings, faults: FaultPlan, owner_only: bool) -> DiskPlan {
    DiskPlan {
        model: ModelPlan::Jittery(jitter),
        settings: DiskSettings::default().with_queue(queue),
        elevator: None,
        faults,
        owner_only,
        transport: None,
    }
}

fn cache(values: [i64; 10], below: Node) -> Node {
    let names = [
        "size",
        "readahead",
        "window",
        "write",
        "background",
        "dirty",
        "expire",
        "interval",
        "congestion",
        "gather",
    ];
    Node::Layer { row: "cache", values: names.into_iter().zip(values).collect(), members: vec![below] }
}

fn plan(seed: u64, disk: DiskPlan, stack: Node, steps: impl IntoIterator<Item = (u64, Act)>) -> Arc<Plan> {
    over(seed, vec![disk], stack, steps)
}

fn over(
    seed: u64,
    disks: Vec<DiskPlan>,
    stack: Node,
    steps: impl IntoIterator<Item = (u64, Act)>,
) -> Arc<Plan> {
    let features = Features::default();
    let steps = steps.into_iter().map(|(number, act)| Step { number, act }).collect();
    Arc::new(Plan { seed, features, disks, stack, channels: 1, steps })
}

/// The kind of what a plan finds.
fn found(plan: &Arc<Plan>) -> Option<&'static str> {
    // The readahead policy of a cache is a number among these.
    platter_repro::policies::register_readahead();
    carry_out(plan, None, false).found.map(|found| found.class)
}

/// A discard was acknowledged while an older write of its sectors, a hard barrier sent as an ordered tag after the elevator was
/// switched, could still reach them: the simulated disk ended it before the tag.
#[test]
fn a_barrier_does_not_land_over_a_discard() {
    let choices = Choices {
        queue: Some(Policy::Sptf),
        write_cache: Some(true),
        seed: 875_716_589_685_822_098,
        ..Choices::default()
    };
    let queue = Settings {
        depth: 20,
        nr_requests: 39,
        timeout: Some(Span::from_secs(30)),
        ordered: Ordered::Tag,
        ..Settings::default()
    };
    let faults = FaultPlan {
        seed: 8_934_253_182_916_513_397,
        spike_chance: 100_000,
        spike: Span::from_secs(40),
        ..FaultPlan::default()
    };
    let cfq = ElevatorPlan {
        name: "cfq",
        params: vec![
            ("slice_sync", 0),
            ("slice_async_rq", 55),
            ("slice_idle", 0),
            ("fifo_expire_async", 0),
            ("idle_grace", 0),
            ("low_latency", 0),
        ],
    };
    let (one, two) = (Context::new(1).thread(1), Context::new(2));
    let read = Io { at: 1, blocks: 2, context: one, ioprio: IoPrio::from_raw(24_577), again: true, ..IO };
    let barrier = Io {
        op: Op::Write,
        at: 26,
        flags: Flags::HARD_BARRIER,
        context: one,
        ioprio: IoPrio::from_raw(8195),
        ..IO
    };
    let write = Io { op: Op::Write, at: 18, blocks: 2, context: two, ioprio: IoPrio::from_raw(6), ..IO };
    let discard = Io {
        op: Op::Discard,
        at: 26,
        blocks: 2,
        deadline: Some(Span::from_secs(1)),
        context: two,
        ioprio: IoPrio::from_raw(7),
        ..IO
    };
    let steps = [
        (1, Act::Switch(Some(cfq))),
        (2, submit(Way::Channel(0), [read])),
        (7, submit(Way::Channel(0), [barrier])),
        (25, submit(Way::Future, [write])),
        (28, Act::Pass),
        (30, submit(Way::Channel(0), [discard])),
    ];
    let plan = plan(930_070_216, disk(choices, queue, faults, false), sectors(8, 88), steps);
    assert_eq!(found(&plan), None);
}

/// Readahead is carried out behind a read whose deadline has passed and that waits behind a slow one.
#[test]
fn readahead_goes_on_behind_a_read_that_is_late() {
    let choices = Choices { seed: 9_715_432_281_546_694_368, ..Choices::default() };
    let queue = Settings { depth: 30, nr_requests: 18, timeout: None, ..Settings::default() };
    let stack = cache([163_840, 4, 16_384, 0, 50, 100, 1000, 5000, 1, 64], sectors(48, 304));
    let first = Io {
        at: 1,
        deadline: Some(Span::from_millis(5)),
        layout: Layout::Pieces(300),
        context: Context::new(1).thread(1),
        ioprio: IoPrio::from_raw(7),
        ..IO
    };
    let ahead = Io {
        at: 205,
        blocks: 3,
        flags: Flags::READAHEAD,
        context: Context::new(4),
        ioprio: IoPrio::from_raw(24_578),
        ..IO
    };
    let slow = Strike { op: Some(Op::Read), blow: Blow::Spike(Span::from_millis(50)) };
    let steps = [
        (0, Act::Strike(0, slow)),
        (4, submit(Way::Channel(0), [first, ahead])),
        (7, Act::Cancel(2_587_006_524)),
    ];
    let disk = disk(choices, queue, FaultPlan::default(), true);
    assert_eq!(found(&plan(930_081_289, disk, stack, steps)), None);
}

/// A write through a cache is late: cfq, which has idled before, holds it back, so no disk has it. The soak ended all faults, let no
/// time pass, and took the write for over; then a flush was refused because of it.
#[test]
fn a_late_write_may_be_with_an_elevator() {
    let limits = Limits::unlimited(512)
        .with_memory_align(512)
        .with_length_align(512)
        .with_max_transfer(20_480)
        .with_max_segments(128)
        .with_max_segment_size(4096)
        .with_segment_boundary(4096)
        .with_chunk(16_384)
        .with_max_discard(4096)
        .with_discard_granularity(512)
        .with_write_zeroes(false);
    let mut features = DiskFeatures::NONE.with_write_cache(true);
    features.ordered_tags = true;
    let jitter = Jitter {
        geometry: Geometry::new(118_784, limits).with_features(features),
        depth: 10,
        least: 939_900,
        jitter: 100_000,
        seed: 5_372_248_008_984_076_927,
    };
    let queue =
        Settings { depth: 18, nr_requests: 15, timeout: None, ordered: Ordered::Tag, ..Settings::default() };
    let faults = FaultPlan { seed: 2_351_207_901_696_704_755, ..FaultPlan::default() };
    let params = vec![("slice_async", 0), ("slice_idle", 178), ("back_seek_max", 0), ("idle_grace", 0)];
    let elevator = Some(ElevatorPlan { name: "cfq", params });
    let disk = DiskPlan { elevator, ..jittery(jitter, queue, faults, false) };
    let values = vec![("op", 0), ("chance", 300_000), ("times", 3), ("seed", 3_674_363_898)];
    let error = Node::Layer { row: "error", values, members: vec![Node::Disk(0)] };
    let stack = cache([98_304, 2, 16_384, 1, 0, 50, 1000, 1, 1, 0], error);
    let soft = Flags::FUA.union(Flags::SOFT_BARRIER);
    let of = |context, prio| Io { context, ioprio: IoPrio::from_raw(prio), ..IO };
    let [three, four] = [3, 4].map(Context::new);
    let first = Io { op: Op::Write, at: 29, blocks: 2, ..of(three, 16_386) };
    let ahead = Io {
        at: 234,
        blocks: 8,
        flags: Flags::READAHEAD,
        deadline: Some(Span::from_secs(45)),
        ..of(four.thread(1), 24_578)
    };
    let pieces =
        Io { at: 205, flags: soft, layout: Layout::Pieces(512), ..of(Context::new(1).thread(1), 16_386) };
    let barrier = Io { op: Op::Write, at: 240, flags: soft, ..of(three, 2) };
    let more = Io { at: 114, blocks: 3, flags: Flags::READAHEAD, ..of(four.thread(1), 1) };
    let read = Io { at: 76, blocks: 6, flags: Flags::SYNC, ..of(four, 6) };
    let late = Io { op: Op::Write, at: 85, deadline: Some(Span::from_millis(50)), ..of(four.thread(1), 3) };
    let steps = [
        (5, submit(Way::Channel(0), [first])),
        (7, submit(Way::Channel(0), [ahead, pieces])),
        (43, submit(Way::Channel(0), [barrier, more])),
        (44, submit(Way::Channel(0), [read])),
        (52, Act::Settle),
        (53, submit(Way::Channel(0), [late])),
    ];
    assert_eq!(found(&plan(1_060_002_989, disk, stack, steps)), None);
}

/// A write takes 40 s, is not aborted at its timeout of 30 s, and then ends with an error that passes: the program was told of that.
#[test]
fn what_took_too_long_does_not_end_with_an_error_that_passes() {
    let limits = Limits::unlimited(512).with_segment_boundary(4096).with_max_segments(128);
    let small = limits.with_max_transfer(4096);
    let disk = |geometry, depth, least, jitter, seed| Jitter { geometry, depth, least, jitter, seed };
    let timeout = Some(Span::from_secs(30));
    let queue = |depth, nr_requests| Settings {
        depth,
        nr_requests,
        timeout,
        slow_timeout: timeout,
        ..Settings::default()
    };
    let volatile = DiskFeatures::NONE.with_write_cache(true);
    let first = Geometry::new(20_480, small.with_length_align(512).with_max_segment_size(4096));
    let faults = FaultPlan {
        seed: 13_418_593_040_980_687_865,
        spike_chance: 100_000,
        spike: Span::from_secs(40),
        transient_chance: 10_000,
        bad: vec![BadSectors { sectors: 7..9, reads: true, writes: true }],
        ..FaultPlan::default()
    };
    let second = Geometry::new(24_576, small.with_memory_align(512).with_max_segment_size(65_536));
    let third = limits.with_memory_align(4).with_max_segment_size(4096).with_chunk(16_384);
    let third = Geometry::new(32_768, third.with_max_transfer(1 << 20).with_write_zeroes(false));
    let mut disks = vec![
        jittery(
            disk(first.with_features(volatile), 4, 924_167, 4_000_000, 11_304_262_982_933_798_243),
            queue(26, 3),
            faults,
            false,
        ),
        jittery(
            disk(second, 4, 593_888, 100_000, 3_979_872_932_195_984_920),
            queue(31, 33),
            FaultPlan { seed: 7_855_676_322_759_281_154, ..FaultPlan::default() },
            true,
        ),
        jittery(
            disk(third.with_features(volatile.with_fua(true)), 20, 20_761, 1, 9_903_934_505_250_191_609),
            Settings { plug: None, slow_timeout: None, ..queue(15, 28) },
            FaultPlan { seed: 9_690_341_544_449_563_537, ..FaultPlan::default() },
            true,
        ),
    ];
    disks[..2].iter_mut().for_each(|disk| disk.settings.on_return = OnReturn::Stay);
    let members = (0..3).map(Node::Disk).collect();
    let stack = Node::Layer { row: "raid0", values: vec![("chunk", 65_536), ("sizes", 2)], members };
    let of = |context, prio| Io { context, ioprio: IoPrio::from_raw(prio), ..IO };
    let [one, two, three, four] = [1, 2, 3, 4].map(Context::new);
    let split = Layout::Split(300);
    let writes = [
        Io { op: Op::Write, at: 4, ..of(three, 0) },
        Io { op: Op::Write, at: 6, flags: Flags::FUA, layout: split, ..of(three, 24_576) },
    ];
    let mixed = [
        Io { op: Op::Write, at: 6, blocks: 2, layout: split, ..of(two.thread(1), 0) },
        Io { at: 7, blocks: 2, layout: Layout::Pieces(1024), again: true, ..of(one, 16_386) },
    ];
    let reads = [Io { at: 11, ..of(one.thread(1), 24_576) }, Io { at: 4, layout: split, ..of(three, 1) }];
    let last = Io { op: Op::Write, at: 0, ..of(four.thread(1), 16_385) };
    let steps = [
        (4, submit(Way::Channel(0), writes)),
        (12, submit(Way::Channel(0), mixed)),
        (13, submit(Way::Channel(0), reads)),
        (15, submit(Way::Channel(0), [last])),
    ];
    assert_eq!(found(&over(4354, disks, stack, steps)), None);
}

/// During a call a disk is silent, and is failed until the program accepts it, which the soak did not see, because it does not look
/// at disks during a call.
#[test]
fn a_disk_may_fall_silent_during_a_call() {
    let limits = Limits::unlimited(4096)
        .with_memory_align(4)
        .with_length_align(4096)
        .with_max_transfer(20_480)
        .with_max_segments(3)
        .with_max_segment_size(4096)
        .with_max_discard(4096);
    let mut features = DiskFeatures::NONE;
    features.ordered_tags = true;
    let jitter = Jitter {
        geometry: Geometry::new(20_480, limits).with_features(features),
        depth: 26,
        least: 882_227,
        jitter: 100_000,
        seed: 1_490_760_088_093_713_627,
    };
    let queue = Settings {
        depth: 25,
        nr_requests: 7,
        timeout: Some(Span::from_secs(30)),
        slow_timeout: Some(Span::from_secs(60)),
        abort_grace: Some(Span::from_secs(1)),
        ordered: Ordered::Tag,
        ..Settings::default()
    };
    let faults = FaultPlan {
        seed: 5_028_591_755_730_828_671,
        stuck_chance: 20_000,
        stuck: Span::from_secs(3600),
        stuck_lands: Lands::Either,
        ..FaultPlan::default()
    };
    let mut disk = jittery(jitter, queue, faults, true);
    disk.settings.on_return = OnReturn::Stay;
    let stack = cache([65_536, 8, 4096, 0, 100, 100, 1, 5000, 1, 4], Node::Disk(0));
    let of = |context, prio| Io { context, ioprio: IoPrio::from_raw(prio), ..IO };
    let [one, three, four] = [1, 3, 4].map(Context::new);
    let write = Io { op: Op::Write, at: 140, layout: Layout::Pieces(300), ..of(one, 24_581) };
    let read = Io { at: 42, blocks: 2, unsound: Some(Unsound::Misplaced), ..of(one, 2) };
    let stuck = Strike { op: Some(Op::Write), blow: Blow::Stuck(Span::from_secs(3600), Lands::Late) };
    let writes = [
        Io { op: Op::Write, at: 11, blocks: 2, ..of(three, 24_579) },
        Io { op: Op::Write, at: 4, layout: Layout::Odd, ..of(four, 6) },
    ];
    let flush = Io { op: Op::Flush, blocks: 0, layout: Layout::Pieces(4096), ..of(four, 24_581) };
    let last = Io { op: Op::Write, at: 85, blocks: 2, flags: Flags::NOMERGE, ..of(four.thread(1), 0) };
    let steps = [
        (7, submit(Way::Call, [write])),
        (10, Act::Pass),
        (19, submit(Way::Call, [read])),
        (22, Act::Strike(0, stuck)),
        (43, submit(Way::Channel(0), writes)),
        (50, submit(Way::Call, [flush])),
        (52, submit(Way::Channel(0), [last])),
        (96, Act::Pass),
    ];
    assert_eq!(found(&plan(4853, disk, stack, steps)), None);
}

/// The flush before a write of zeroes that is a soft barrier takes 40 s, and is aborted after 30 s, so later flushes fail. The soak knew
/// that only of hard barriers.
#[test]
fn a_soft_barrier_that_times_out_may_have_flushed() {
    let limits = Limits::unlimited(512)
        .with_memory_align(512)
        .with_length_align(512)
        .with_max_transfer(1 << 20)
        .with_max_segments(3)
        .with_max_segment_size(4096)
        .with_max_discard(1 << 20)
        .with_discard_granularity(512);
    let features = DiskFeatures::NONE.with_write_cache(true).with_fua(true);
    let jitter = Jitter {
        geometry: Geometry::new(86_016, limits).with_features(features),
        depth: 24,
        least: 529_539,
        jitter: 100_000,
        seed: 9_051_858_528_793_335_772,
    };
    let timeout = Some(Span::from_secs(30));
    let queue = Settings {
        depth: 24,
        nr_requests: 38,
        timeout,
        slow_timeout: timeout,
        abort_grace: Some(Span::from_secs(1)),
        ..Settings::default()
    };
    let faults = FaultPlan { seed: 6_551_858_371_307_122_398, ..FaultPlan::default() };
    let mut disk = jittery(jitter, queue, faults, false);
    (disk.settings.on_return, disk.settings.caller_plug) = (OnReturn::Stay, false);
    let slow = Strike { op: Some(Op::Flush), blow: Blow::Spike(Span::from_secs(40)) };
    let zeroes = Io {
        op: Op::WriteZeroes,
        at: 24,
        blocks: 2,
        flags: Flags::SOFT_BARRIER,
        layout: Layout::Pieces(4096),
        context: Context::new(3),
        ioprio: IoPrio::from_raw(16_391),
        ..IO
    };
    let steps = [(38, Act::Strike(0, slow)), (69, submit(Way::Channel(0), [zeroes]))];
    assert_eq!(found(&plan(1_070_300_278, disk, Node::Disk(0), steps)), None);
}

/// A disk with a write cache that has 30 s for each flush, and aborts one that takes longer.
fn patient(seed: u64) -> DiskPlan {
    let limits = Limits::unlimited(512).with_max_discard(1 << 20).with_discard_granularity(512);
    let features = DiskFeatures::NONE.with_write_cache(true).with_fua(true);
    let jitter = Jitter {
        geometry: Geometry::new(65_536, limits).with_features(features),
        depth: 16,
        least: 500_000,
        jitter: 100_000,
        seed,
    };
    let timeout = Some(Span::from_secs(30));
    let queue = Settings { timeout, slow_timeout: timeout, ..Settings::default() };
    let mut disk =
        jittery(jitter, queue, FaultPlan { abort_chance: 1_000_000, ..FaultPlan::default() }, false);
    disk.settings.caller_plug = false;
    disk
}

/// The next flush of a disk stays there until it is aborted.
fn flush_sticks(disk: u32) -> Act {
    let stuck = Blow::Stuck(Span::from_secs(3600), Lands::Early);
    Act::Strike(disk, Strike { op: Some(Op::Flush), blow: stuck })
}

/// The flush before the data of a write is aborted, and the program sees nothing of that, because it has dropped the channel. The
/// next flush fails with it.
#[test]
fn a_flush_fails_with_one_of_a_dropped_channel() {
    let write = Io { op: Op::Write, at: 3, flags: Flags::PREFLUSH, ..IO };
    let flush = Io { op: Op::Flush, blocks: 0, ..IO };
    let steps = [
        (1, Act::OpenChannel),
        (2, flush_sticks(0)),
        (3, submit(Way::Channel(0), [write])),
        (4, Act::DropChannel(0)),
        (5, Act::Jump(Span::from_secs(1))),
        (6, submit(Way::Channel(1), [flush])),
    ];
    assert_eq!(found(&plan(1_100_047_538, patient(1), Node::Disk(0), steps)), None);
}

/// An array has two flushes of a disk for one write, because two of its members lie there. One is aborted, the other repeats its
/// failure, and the write ends as the latter.
#[test]
fn a_write_may_repeat_the_failure_of_its_own_flush() {
    let part =
        |from, to, disk| Node::Part { from, to, of: Share::Sectors, below: Box::new(Node::Disk(disk)) };
    let stripes = Node::Layer {
        row: "raid0",
        values: vec![("chunk", 8192)],
        members: vec![part(0, 64, 0), part(0, 48, 1)],
    };
    let stack = Node::Layer { row: "concat", values: Vec::new(), members: vec![stripes, part(48, 104, 1)] };
    let write = Io { op: Op::Write, at: 3, blocks: 2, flags: Flags::HARD_BARRIER, ..IO };
    let steps = [(0, flush_sticks(1)), (1, submit(Way::Channel(0), [write]))];
    assert_eq!(found(&over(1_100_047_537, vec![patient(1), patient(2)], stack, steps)), None);
}

/// A write through a cache of several shards ends with the error of a page that another one wrote back meanwhile. The flush before its
/// data is aborted, so the next one fails, and the program has seen no other sign of that.
#[test]
fn a_write_may_hide_the_failure_of_its_flush() {
    let mut disk = patient(2);
    let ModelPlan::Jittery(jitter) = &mut disk.model else { unreachable!("a patient disk is jittery") };
    let limits = Limits::unlimited(4096).with_max_segments(3).with_max_segment_size(4096);
    jitter.geometry = Geometry::new(61_440, limits).with_features(DiskFeatures::NONE.with_write_cache(true));
    jitter.jitter = 4_000_000;
    let mut stack = cache([327_680, 10, 0, 0, 0, 50, 1000, 1000, 1, 4], Node::Disk(0));
    if let Node::Layer { values, .. } = &mut stack {
        values.extend([("shards", 2), ("extent", 16_384)]);
    }
    let io = |op, at, blocks, flags| Io { op, at, blocks, flags, ..IO };
    let first = [io(Op::Read, 6, 1, Flags::FUA), io(Op::Write, 7, 6, Flags::SYNC)];
    let durable = io(Op::Write, 0, 2, Flags::FUA | Flags::PREFLUSH);
    let last = [io(Op::Write, 4, 8, Flags::NONE), io(Op::Read, 3, 1, Flags::SYNC)];
    let steps = [
        (5, submit(Way::Channel(0), first)),
        (22, flush_sticks(0)),
        (23, submit(Way::Channel(0), [durable])),
        (24, submit(Way::Channel(0), last)),
        (29, Act::Strike(0, Strike { op: Some(Op::Write), blow: Blow::Error })),
    ];
    assert_eq!(found(&plan(1_500_001_965, disk, stack, steps)), None);
}
