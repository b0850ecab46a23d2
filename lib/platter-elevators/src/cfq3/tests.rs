//! Test vectors of time slices; their notation is described in `cfq/vectors.rs`.

use super::order::Walk;
use super::queue::Mean;
use super::*;
use crate::cfq::vectors::Step::{Absorb, Add, Done, Exit, Force, Grow, Joins, May, Serve, Set, Take, Wake};
use crate::cfq::vectors::{Case, Runner, ms, play};
use alloc::format;
use alloc::vec::Vec;
use platter_block::time::Span;

mod preemption;
mod shares;

#[rustfmt::skip]
const CASES: &[Case] = &[
    Case { name: "a queue keeps the disk while it has requests", steps: &[
        Add(0, "1R0 1R8 1R16 1R24 1R32 1R40 2R1000"), Take(0, "1R0 1R8 1R16 1R24 1R32 1R40 -"),
    ]},
    Case { name: "waits for requests in flight, then eight milliseconds for the next one", steps: &[
        Add(0, "1R0 2R1000"), Take(0, "1R0 -"), Wake(None), Done(5, "1R0"), Take(5, "-"), Wake(Some(13)),
        Add(12, "1R8"), Wake(None), Take(12, "1R8 -"), Done(13, "1R8"), Wake(Some(21)),
        Take(20, "-"), Take(21, "2R1000"),
    ]},
    Case { name: "no wait with force", steps: &[
        Add(0, "1R0 2R1000 3R2000@i"), Take(0, "1R0"), Force(0, "2R1000 3R2000@i -"),
    ]},
    Case { name: "no wait when there is nothing to send", steps: &[
        Add(0, "1R0"), Take(0, "1R0"), Done(1, "1R0"), Take(1, "-"), Wake(None),
        // After the eight milliseconds it continues all the same.
        Add(50, "1R8"), Take(50, "1R8"),
    ]},
    Case { name: "a process that comes too late lines up again", steps: &[
        Add(0, "1R0"), Take(0, "1R0"), Done(1, "1R0"), Add(2, "2R1000"), Add(10, "1R8"), Take(10, "2R1000"),
    ]},
    Case { name: "slice_idle=0: no wait, not even for requests in flight", steps: &[
        Set("slice_idle", 0), Set("quantum", 2),
        Add(0, "1R0 1R8 1R16 2R1000"), Take(0, "1R0 1R8 2R1000 1R16 -"),
    ]},
    Case { name: "the end of the slice does not shorten the wait, but the next look after it does", steps: &[
        Add(0, "1R0 2R1000"), Take(0, "1R0"), Done(95, "1R0"), Take(95, "-"), Wake(Some(103)), Take(100, "-"),
        Take(101, "2R1000"),
    ]},
    Case { name: "no wait after the slice", steps: &[
        Add(0, "1R0 2R1000"), Take(0, "1R0"), Done(101, "1R0"), Take(101, "2R1000"),
    ]},
    Case { name: "a slice of level 4 lasts 100 ms", steps: &[
        Set("quantum", 1),
        Add(0, "1R0 1R8 1R16 2R1000"), Take(0, "1R0"), Take(100, "1R8"), Take(101, "2R1000"),
    ]},
    Case { name: "a slice of level 7 lasts 40 ms", steps: &[
        Set("quantum", 1),
        Add(0, "1R0@7 1R8@7 1R16@7 2R1000@7"), Take(0, "1R0@7"), Take(40, "1R8@7"), Take(41, "2R1000@7"),
    ]},
    Case { name: "a request that was waited for is sent although the slice has ended since", steps: &[
        Add(0, "1R0 2R1000"), Take(0, "1R0"), Done(95, "1R0"), Take(95, "-"), Add(99, "1R8"),
        Take(101, "1R8"), Done(102, "1R8"), Take(102, "2R1000"),
    ]},
    Case { name: "real time goes first, then best effort", steps: &[
        Set("slice_idle", 0),
        Add(0, "1R100@0 2R200@r7 3R300@r0"),
        // Two of real time: in order of arrival.
        Serve(0, "2R200@r7 3R300@r0 1R100@0"),
    ]},
    Case { name: "real time comes between any two slices", steps: &[
        Set("slice_idle", 0),
        Add(0, "1R100@4 2R200@4 3R300@4"), Take(0, "1R100@4"), Add(0, "4R400@r4"), Done(1, "1R100@4"),
        Serve(1, "4R400@r4 2R200@4 3R300@4"),
    ]},
    Case { name: "the idle class waits until the disk was quiet for 100 ms", steps: &[
        Add(0, "1R0"), Take(0, "1R0"), Done(1, "1R0"), Add(2, "2R500@i"),
        Take(2, "-"), Wake(Some(9)), Take(9, "-"), Wake(Some(101)), Take(100, "-"), Take(101, "2R500@i"),
    ]},
    Case { name: "the idle class goes at once on an unused disk", steps: &[
        Add(0, "2R500@i 2R508@i"), Serve(0, "2R500@i 2R508@i"),
    ]},
    Case { name: "the idle class sends one request at a time", steps: &[
        Add(0, "2R500@i 2R508@i"), Take(0, "2R500@i"), Add(0, "1R0"), Take(0, "1R0"), Done(1, "1R0"),
        Take(1, "-"), Wake(Some(9)), Take(9, "-"), Wake(Some(101)), Force(9, "2R508@i"),
    ]},
    Case { name: "no wait for the idle class", steps: &[
        Add(0, "2R500@i 3R0@i"), Serve(0, "2R500@i 3R0@i"),
    ]},
    Case { name: "a process that seeks is waited for as others are, while there are two samples", steps: &[
        Add(0, "1R0"), Serve(0, "1R0"), Add(2, "1R10000000"), Serve(2, "1R10000000"),
        Add(4, "1R20000000 2R50"), Serve(4, "1R20000000"), Take(5, "-"), Wake(Some(13)),
    ]},
    Case { name: "from the third on 2 ms only", steps: &[
        Add(0, "1R0"), Serve(0, "1R0"), Add(2, "1R10000000"), Serve(2, "1R10000000"),
        Add(4, "1R20000000"), Serve(4, "1R20000000"), Add(6, "1R30000000 2R50"), Serve(6, "1R30000000"),
        Take(7, "-"), Wake(Some(9)), Take(9, "2R50"),
    ]},
    Case { name: "2.6.16: never", steps: &[
        Set("kernel", 0),
        Add(0, "1R0"), Serve(0, "1R0"), Add(2, "1R10000000"), Serve(2, "1R10000000"),
        Add(4, "1R20000000"), Serve(4, "1R20000000"), Add(6, "1R30000000 2R50"), Serve(6, "1R30000000"),
        Take(7, "-"), Wake(Some(17)),
    ]},
    Case { name: "no wait for a process that has ended", steps: &[
        Add(0, "1R0 2R100"), Take(0, "1R0"), Done(1, "1R0"), Take(1, "-"), Exit(2, 2), Take(2, "-"),
        Exit(3, 1), Take(3, "2R100"),
    ]},
    Case { name: "nor for one that ends before its last request completes; its number starts afresh", steps: &[
        Add(0, "1R0 2R100"), Take(0, "1R0"), Exit(0, 1), Done(1, "1R0"), Take(1, "2R100"), Done(2, "2R100"),
        Add(3, "1R8 2R108"), Take(3, "2R108"), Done(104, "2R108"), Add(104, "2R116"), Take(104, "1R8 -"),
        Done(105, "1R8"), Take(105, "-"), Wake(Some(113)),
    ]},
    Case { name: "two samples of a long think time are not believed", steps: &[
        Add(0, "1R0"), Serve(0, "1R0"), Add(17, "1R8"), Serve(17, "1R8"), Add(34, "1R16 2R1000"),
        Serve(34, "1R16"), Take(35, "-"), Wake(Some(43)),
    ]},
    Case { name: "the third turns the wait off", steps: &[
        Add(0, "1R0"), Serve(0, "1R0"), Add(17, "1R8"), Serve(17, "1R8"), Add(34, "1R16"), Serve(34, "1R16"),
        Add(51, "1R24 2R1000"), Take(51, "1R24 2R1000"),
    ]},
    Case { name: "a short one turns it on again", steps: &[
        Add(0, "1R0"), Serve(0, "1R0"), Add(17, "1R8"), Serve(17, "1R8"), Add(34, "1R16"), Serve(34, "1R16"),
        Add(51, "1R24"), Serve(51, "1R24"), Add(52, "1R32"), Serve(52, "1R32"), Add(53, "1R40"), Serve(53, "1R40"),
        Add(54, "1R48"), Serve(54, "1R48"), Add(55, "1R56"), Serve(55, "1R56"), Add(56, "1R64"), Serve(56, "1R64"),
        Add(57, "1R72 2R1000"), Take(57, "1R72 -"),
    ]},
    Case { name: "no wait for a seeking process on a device that queues", steps: &[
        Add(0, "1R0 1R10000000 1R20000000 1R30000000 1R40000000"), Take(0, "1R0 1R10000000 1R20000000 1R30000000 1R40000000"),
        Done(1, "1R0 1R10000000 1R20000000 1R30000000 1R40000000"),
        Add(2, "1R50000000 2R50"), Take(2, "1R50000000 2R50"),
    ]},
    Case { name: "four at once do not say that it queues", steps: &[
        Add(0, "1R0 1R10000000 1R20000000 1R30000000"), Take(0, "1R0 1R10000000 1R20000000 1R30000000"),
        Done(1, "1R0 1R10000000 1R20000000 1R30000000"),
        Add(2, "1R50000000 2R50"), Take(2, "1R50000000 -"),
    ]},
    Case { name: "an expired request begins a slice, and is looked for only then", steps: &[
        Set("quantum", 1),
        Add(0, "1R1000 1R50000 1R90000"), Take(0, "1R1000"), Add(1, "1R1008 1R1016 1R1024 2R7"),
        Take(100, "1R1008"), Done(101, "1R1000 1R1008"), Take(101, "2R7"), Done(102, "2R7"),
        // The slice begins before the oldest request expires.
        Take(110, "1R1016"), Take(126, "1R1024"), Add(127, "2R15 1R1032"), Take(211, "2R15"), Done(211, "2R15"),
        Take(219, "1R50000 1R1032 1R90000"),
    ]},
    Case { name: "an asynchronous request expires after 250 ms", steps: &[
        Set("quantum", 1), Set("slice_async_rq", 1),
        Add(0, "1W1000@7 1W50000@7 1W90000@7 1W1008@7"), Take(0, "1W1000@7 1W1008@7"), Add(200, "1W1016@7"),
        Take(251, "1W50000@7 1W1016@7"),
    ]},
    Case { name: "a queue with requests in flight waits for them before its next slice", steps: &[
        Set("quantum", 1),
        Add(0, "1R0@0 1R8@0 2R1000@7 2R1008@7 3R2000@7"), Take(0, "1R0@0"), Take(181, "2R1000@7"),
        Take(222, "3R2000@7"), Done(222, "3R2000@7"), Done(223, "1R0@0"), Take(230, "1R8@0"),
    ]},
    Case { name: "unless there is no other queue", steps: &[
        Set("quantum", 1), Add(0, "1R0 1R8 1R16"), Take(0, "1R0"), Take(101, "1R8"),
    ]},
    Case { name: "reads and synchronous writes are one queue, asynchronous writes of all another", steps: &[
        Add(0, "1R0 1S8 1W1000 2W1008"),
        Joins("1R0", "1R8", true), Joins("1R0", "2R8", false), Joins("1S8", "1S16", true), Joins("1S8", "1W16", false),
        Joins("1W1000", "2W1008", true), Joins("1W1000", "1S1008", false), Joins("1W1000", "1W1008@3", false),
        Take(0, "1R0"), Joins("1S8", "1S16", false),
    ]},
    Case { name: "merges keep the choice of the next request", steps: &[
        Set("quantum", 1),
        Add(0, "1R100"), Take(0, "1R100"), Add(0, "1R200 1R300 1R308"), Absorb("1R300", "1R308"),
        Grow("1R300+16", "1R150+166"), Take(0, "1R150+166"), Add(0, "1R192 1R400"), Absorb("1R192", "1R200"),
        Take(0, "1R400 1R192+16 -"),
    ]},
    Case { name: "merges on the dispatch list", steps: &[
        Add(0, "1R0 1R8 1R16 1R24 2R500"), Take(0, "1R0"), Absorb("1R8", "1R16"), Take(0, "1R8+16 1R24 -"),
        Done(1, "1R0 1R8+16 1R24"), Take(1, "-"), Wake(Some(9)), Take(9, "2R500 -"),
    ]},
    Case { name: "a process that is waited for may always have a request", steps: &[
        Add(0, "1R0 2R100"), May(1, Dir::Read, MayQueue::May), Take(0, "1R0"), Done(1, "1R0"),
        May(1, Dir::Write, MayQueue::Must), May(2, Dir::Read, MayQueue::May), Take(9, "2R100"),
        May(1, Dir::Read, MayQueue::May),
    ]},
    Case { name: "up to 2.6.17 each process may always have eight requests", steps: &[
        Set("kernel", 1), Add(0, "1R0 1R8 1R16 1R24 1R32 1R40 1R48"), May(1, Dir::Read, MayQueue::Must),
        Add(0, "1R56"), May(1, Dir::Read, MayQueue::May), May(2, Dir::Read, MayQueue::Must),
        Take(0, "1R0"), May(1, Dir::Read, MayQueue::May), Done(1, "1R0"), May(1, Dir::Read, MayQueue::Must),
        Add(1, "1S0"), May(1, Dir::Read, MayQueue::Must), May(1, Dir::Write, MayQueue::Must),
    ]},
    Case { name: "2.6.16 sends two at once", steps: &[
        Set("kernel", 0), Add(0, "1R0 1R8 1R16 2R1000"), Take(0, "1R0 1R8 -"), Done(1, "1R0"), Take(1, "1R16 -"),
        Done(2, "1R8"), Done(3, "1R16"), Take(3, "-"), Wake(Some(13)),
        Take(13, "2R1000"), Add(13, "3W0 3W8 3W16"), Done(14, "2R1000"), Take(24, "3W0 3W8 3W16"),
    ]},
    Case { name: "2.6.16: nor does the next queue while the driver is full", steps: &[
        Set("kernel", 0), Set("quantum", 1), Add(0, "1R0 1R8 1R16 2R1000"), Take(0, "1R0 1R8"), Take(101, "-"),
        Wake(None), Force(101, "2R1000"),
    ]},
    Case { name: "a process changes its priority", steps: &[
        Set("slice_idle", 0),
        Add(0, "1R0@5 2R100@3 3R200@3"), Add(0, "3R208@r0"), Take(0, "3R200@3 3R208@r0"), Done(1, "3R200@3 3R208@r0"),
        Add(1, "2R108@i"), Serve(1, "1R0@5"), Take(2, "-"), Wake(Some(102)),
    ]},
];

#[test]
fn vectors() {
    play(CASES, Cfq::default);
}

#[test]
fn slices_and_requests_of_each_level() {
    let tunables = Tunables::new("cfq");
    let slices = |sync| (0..8).map(|level| tunables.slice(sync, level).as_millis()).collect::<Vec<_>>();
    assert_eq!(slices(true), [180, 160, 140, 120, 100, 80, 60, 40]);
    assert_eq!(slices(false), [72, 64, 56, 48, 40, 32, 24, 16]);
    let most: Vec<u64> = (0..8).map(|level| tunables.max_rq(level)).collect();
    assert_eq!(most, [32, 28, 24, 20, 16, 12, 8, 4]);
}

#[test]
fn an_asynchronous_queue_sends_its_requests_and_then_others_go() {
    for (level, most) in [(0, 32), (4, 16), (7, 4)] {
        let mut runner = Runner::new(Cfq::default());
        (0..40).for_each(|i| runner.add(ms(0), &format!("{i}W{}@{level}", i * 8)));
        runner.add(ms(0), &format!("99R5000@{level}"));
        let sent = (0..41).take_while(|_| runner.take(ms(0), false).contains('W')).count();
        assert_eq!(sent, most, "level {level}");
    }
}

#[test]
fn low_latency_shortens_slices() {
    let mut tunables = Tunables::new("cfq");
    assert_eq!(tunables.slice_among(true, 4, 100), Span::from_millis(100));
    tunables.set("low_latency", 1).expect("in range");
    // Level, number of queues, milliseconds.
    for (level, queues, slice) in
        [(4, 3, 100), (4, 6, 50), (0, 6, 90), (7, 6, 20), (4, 100, 16), (0, 100, 28)]
    {
        let found = tunables.slice_among(true, level, queues).as_millis();
        assert_eq!(found, slice, "level {level} among {queues}");
    }
    assert_eq!(tunables.slice_among(false, 4, 100), Span::from_millis(40));
    tunables.set("target_latency", 600).expect("in range");
    assert_eq!(tunables.slice_among(true, 4, 6), Span::from_millis(100));
}

#[test]
fn a_walk_visits_level_p_eight_minus_p_times() {
    let mut walk = Walk::default();
    let levels: Vec<u8> = (0..36).map(|_| walk.step()).collect();
    assert_eq!(levels[..10], [0, 0, 1, 0, 1, 2, 0, 1, 2, 3]);
    assert_eq!(levels[28..], [0, 1, 2, 3, 4, 5, 6, 7]);
    let tunables = Tunables::new("cfq");
    let time = |level: u8| {
        let visits = levels.iter().filter(|&&visited| visited == level).count() as u64;
        assert_eq!(visits, 8 - u64::from(level));
        visits * tunables.slice(true, level).as_millis()
    };
    let times: Vec<u64> = (0..8).map(time).collect();
    assert_eq!(times, [1440, 1120, 840, 600, 400, 240, 120, 40]);
    assert_eq!(walk.step(), 0, "and again");
}

#[test]
fn means_decay_by_an_eighth() {
    let mut mean = Mean::default();
    // Sample, whether the mean is used, mean: in whole numbers.
    for (sample, believed, value) in [(16, false, 20), (16, false, 18), (16, true, 17), (0, true, 12)] {
        mean.add(sample);
        assert_eq!((mean.is_believed(), mean.mean), (believed, value));
    }
    let mut seek = Mean::default();
    seek.add_seek(u64::MAX);
    assert_eq!(seek.mean, (2 << 20) + 4, "cut");
}

#[test]
fn kernels_set_their_values() {
    let mut elevator = Cfq::default();
    let names = ["slice_idle", "queued", "max_depth", "service_tree", "seeky_idle"];
    for (kernel, values) in
        [(0, [10, 8, 2, 0, 0]), (1, [14, 8, 0, 0, 2]), (2, [8, 0, 0, 0, 2]), (3, [8, 0, 0, 1, 2])]
    {
        elevator.set("kernel", kernel).expect("in range");
        assert_eq!(names.map(|name| elevator.get(name)), values.map(Some));
    }
    assert_eq!(elevator.params()[0].name, "kernel", "so that others may be set after it");
}

#[test]
fn threads_end_alone_and_with_their_process() {
    let mut runner = Runner::new(Cfq::default());
    runner.step(&Add(0, "7R0 8R100"));
    let queue = |runner: &Runner<Cfq>, task: Context| {
        let slot = runner.elevator.queues.find(task.task());
        slot.map(|slot| runner.elevator.queues[slot].alive)
    };
    let thread = Context::new(7).thread(1);
    let info = RequestInfo { context: thread, ..crate::cfq::vectors::parse("7R8") };
    runner.elevator.insert(ms(0), RequestId { index: 9, generation: 1 }, &info);
    let alive = |runner: &Runner<Cfq>| [Context::new(7), thread, Context::new(8)].map(|c| queue(runner, c));
    runner.elevator.exited(ms(0), Context::new(7).thread(2));
    assert_eq!(alive(&runner), [Some(true); 3]);
    runner.elevator.exited(ms(0), thread);
    assert_eq!(alive(&runner), [Some(true), Some(false), Some(true)]);
    runner.elevator.exited(ms(0), Context::new(7));
    assert_eq!(alive(&runner), [Some(false), Some(false), Some(true)]);
}
