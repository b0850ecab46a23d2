//! Plans that find something which is not mended, kept as data: a seed leads to another plan when the generator changes, as with
//! a parameter of an elevator. Each is the smallest that was found. When its cause is mended it finds nothing, and becomes a
//! test of that.

use super::super::memory::Layout;
use super::super::plan::{Act, DiskPlan, ElevatorPlan, Io, ModelPlan, Node, Plan, Share, Step, Way};
use super::super::{Features, carry_out};
use platter_block::bio::{Context, Flags, IoPrio, Op};
use platter_block::queue::{Ordered, Settings};
use platter_block::time::Span;
use platter_disk::disk_backend::DiskSettings;
use platter_sim::catalogue::Choices;
use platter_sim::disk::Policy;
use platter_sim::fault::{Blow, FaultPlan, Strike};
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

fn plan(seed: u64, disk: DiskPlan, stack: Node, steps: impl IntoIterator<Item = (u64, Act)>) -> Arc<Plan> {
    let features = Features::default();
    let steps = steps.into_iter().map(|(number, act)| Step { number, act }).collect();
    Arc::new(Plan { seed, features, disks: vec![disk], stack, channels: 1, steps })
}

/// The kind of what a plan finds.
fn found(plan: &Arc<Plan>) -> Option<&'static str> {
    carry_out(plan, None, false).found.map(|found| found.class)
}

/// A discard is acknowledged while an older write of its sectors, a hard barrier sent as an ordered tag after the elevator was
/// switched, can still reach them.
#[test]
fn a_barrier_lands_over_a_discard() {
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
    assert_eq!(found(&plan), Some("late"));
}

/// Readahead is carried out behind a read whose deadline has passed and that waits behind a slow one.
#[test]
fn readahead_goes_on_behind_a_read_that_is_late() {
    let choices = Choices { seed: 9_715_432_281_546_694_368, ..Choices::default() };
    let queue = Settings { depth: 30, nr_requests: 18, timeout: None, ..Settings::default() };
    let cache = vec![
        ("size", 163_840),
        ("readahead", 4),
        ("window", 16_384),
        ("write", 0),
        ("background", 50),
        ("dirty", 100),
        ("expire", 1000),
        ("interval", 5000),
        ("congestion", 1),
        ("gather", 64),
    ];
    let stack = Node::Layer { row: "cache", values: cache, members: vec![sectors(48, 304)] };
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
