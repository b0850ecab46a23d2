//! Test vectors of service; their notation is described in `cfq/vectors.rs`.

use super::*;
use crate::cfq::vectors::Step::{Absorb, Add, Done, Exit, Grow, Joins, May, Serve, Set, Take};
use crate::cfq::vectors::{Case, Runner, context, ms, play};
use alloc::format;

#[rustfmt::skip]
const CASES: &[Case] = &[
    Case { name: "one request of each, also beyond the quantum, sorted", steps: &[
        Add(0, "1R500 1R508 2R300 3R100 4R400 5R200"), Take(0, "3R100 5R200 2R300 4R400 1R500"),
        Take(0, "1R508 -"),
    ]},
    Case { name: "several requests of each, until a pass has reached the quantum", steps: &[
        Set("quantum", 3),
        Add(0, "1R0 1R8 1R16 2R100 2R108 2R116"), Take(0, "1R0 1R8 2R100 2R108"), Take(0, "2R116 1R16 -"),
    ]},
    Case { name: "the process with less service is the first of a pass", steps: &[
        Add(0, "1R0"), Take(0, "1R0"), Done(5, "1R0"),
        // At equal positions the dispatch list keeps the order of the pass.
        Add(5, "1R8 2R8"), Take(5, "2R8 1R8"), Done(15, "2R8 1R8"),
        Add(15, "1R16 2R16"), Take(15, "2R16 1R16 -"),
    ]},
    Case { name: "service outlives the requests, until the process ends", steps: &[
        Add(0, "1R0"), Take(0, "1R0"), Done(9, "1R0"),
        Add(10, "1R8 2R8"), Take(10, "2R8 1R8"), Done(30, "2R8 1R8"),
        Exit(31, 1), Add(31, "2R16 1R16"), Take(31, "1R16 2R16 -"),
    ]},
    Case { name: "service is the time with the driver, not on the dispatch list", steps: &[
        Add(0, "1R0 2R8"), Take(0, "1R0"), Done(10, "1R0"), Take(10, "2R8"), Done(15, "2R8"),
        Add(15, "1R16 2R16"), Take(15, "2R16 1R16 -"),
    ]},
    Case { name: "with equal service the one with fewer in flight goes first", steps: &[
        Add(0, "1R0 1R8 2R0"), Take(0, "1R0 2R0 1R8"), Add(0, "1R16 2R16"), Take(0, "2R16 1R16 -"),
    ]},
    Case { name: "the first pass leaves out processes with requests in flight", steps: &[
        Set("quantum", 2),
        Add(0, "1R0 1R8 1R16 2R100"), Take(0, "1R0 2R100"), Add(0, "3R200"), Take(0, "3R200 1R8 1R16 -"),
    ]},
    Case { name: "the nearest request, a distance back counting twice", steps: &[
        Set("quantum", 1),
        Add(0, "1R1000 1R1100 1R950 1R860"), Take(0, "1R860 1R950 1R1000 1R1100"),
        Add(0, "1R1050 1R1220"), Take(0, "1R1220 1R1050 -"),
    ]},
    Case { name: "find_best_crq=0: the lowest", steps: &[
        Set("quantum", 1), Set("find_best_crq", 0),
        Add(0, "1R1000 1R900"), Take(0, "1R900"), Add(0, "1R100"), Take(0, "1R100 1R1000 -"),
    ]},
    Case { name: "no way back beyond back_seek_max", steps: &[
        Set("quantum", 1), Set("back_seek_max", 10),
        Add(0, "1R1000"), Take(0, "1R1000"), Add(0, "1R980 1R987 1R9000"), Take(0, "1R9000 1R980 1R987 -"),
    ]},
    Case { name: "within back_seek_max", steps: &[
        Set("quantum", 1), Set("back_seek_max", 11),
        Add(0, "1R1000"), Take(0, "1R1000"), Add(0, "1R980 1R987 1R9000"), Take(0, "1R987 1R980 1R9000 -"),
    ]},
    Case { name: "synchronous before asynchronous", steps: &[
        Set("quantum", 1), Add(0, "1W10 1R5000 1S2000"), Take(0, "1S2000 1R5000 1W10 -"),
    ]},
    Case { name: "an expired request goes next, though only every fifo_batch_expire", steps: &[
        Set("quantum", 1),
        Add(0, "1R100 1R50000 1R90000"), Take(0, "1R100"), Add(1, "1R108 1R116 1R124 1R132"),
        Take(500, "1R108"), Take(501, "1R50000 1R116"), Take(625, "1R124"), Take(626, "1R90000 1R132 -"),
    ]},
    Case { name: "an asynchronous request expires after five seconds", steps: &[
        Set("quantum", 1),
        Add(0, "1W50000"), Add(4900, "1R100 1R108 1R116"), Take(5000, "1R100"), Take(5001, "1W50000 1R108 1R116 -"),
    ]},
    Case { name: "the quirk: a read expires after five seconds, a write after half of one", steps: &[
        Set("quantum", 1), Set("swap_fifo_expire", 1),
        Add(0, "1R100"), Take(0, "1R100"), Add(0, "1R50000 1W90000"), Add(100, "1R108 1R116 1R124 1R132"),
        Take(500, "1R108"), Take(501, "1W90000 1R116"), Take(5000, "1R124"), Take(5001, "1R50000 1R132 -"),
    ]},
    Case { name: "key_type tgid", steps: &[
        Set("quantum", 2), Add(0, "11R0 12R8 21R500"), Take(0, "11R0 12R8 21R500 -"),
    ]},
    Case { name: "key_type pgid: 11 and 12 are one group", steps: &[
        Set("key_type", 0), Set("quantum", 2), Add(0, "11R0 12R8 21R500"), Take(0, "11R0 21R500 12R8 -"),
    ]},
    Case { name: "key_type gid: the same", steps: &[
        Set("key_type", 3), Set("quantum", 2), Add(0, "11R0 12R8 21R500"), Take(0, "11R0 21R500 12R8 -"),
    ]},
    Case { name: "key_type uid: 11 and 21 are one user", steps: &[
        Set("key_type", 2), Set("quantum", 2), Add(0, "11R0 21R8 111R500"), Take(0, "11R0 111R500 21R8 -"),
    ]},
    Case { name: "any bio may join an end, its own process a front, until the request is chosen", steps: &[
        Add(0, "1R100 2R500"),
        Joins("1R100", "2R108", true), Joins("1R100", "2R92", false), Joins("1R100", "1R92", true),
        Take(0, "1R100"), Joins("2R500", "2R508", false),
    ]},
    Case { name: "merges keep the choice of the next request", steps: &[
        Set("quantum", 1),
        Add(0, "1R100"), Take(0, "1R100"), Add(0, "1R200 1R300 1R308"), Absorb("1R300", "1R308"),
        Grow("1R300+16", "1R150+166"), Take(0, "1R150+166"), Add(0, "1R192 1R400"), Absorb("1R192", "1R200"),
        Take(0, "1R400 1R192+16 -"),
    ]},
    Case { name: "a survivor has the age of the older", steps: &[
        Set("quantum", 1),
        Add(0, "1R100 1R5008"), Take(0, "1R100"), Add(400, "1R5000 1R108"), Absorb("1R5000", "1R5008"),
        Take(501, "1R5000+16 1R108 -"),
    ]},
    Case { name: "absorbed requests are not allocated any more", steps: &[
        Set("queued", 2),
        Add(0, "1R0 1R8"), May(1, Dir::Read, MayQueue::May), Absorb("1R0", "1R8"), May(1, Dir::Read, MayQueue::Must),
        Add(0, "1R16"), May(1, Dir::Read, MayQueue::May), Take(0, "1R0+16"), Absorb("1R0+16", "1R16"),
        May(1, Dir::Read, MayQueue::Must), Take(0, "-"),
    ]},
];

#[test]
fn vectors() {
    play(CASES, Cfq2::default);
}

#[test]
fn accounts_shrink_after_a_second() {
    let mut process = Process::default();
    // The tick, service added behind the scaling, divisor; and the resulting account.
    for (at, service, divisor, used) in [
        (0, 800, 8, 800),
        (1000, 0, 8, 800), // a second, not more
        (1001, 8, 8, 108), // what is added is not scaled
        (2001, 8, 8, 116),
        (2002, 7, 8, 21),
        (3003, 8, 10, 10),
        (3004, 1, 10, 11),
    ] {
        process.decay(at, divisor);
        process.service_used += service;
        assert_eq!(process.service_used, used, "at {at} ms");
    }
    // A process that becomes busy again: scaled, and the account stays as old.
    process.arrive(4003);
    assert_eq!((process.service_used, process.service_start), (11, Some(3003)));
    process.arrive(4004);
    process.arrive(4004);
    assert_eq!((process.service_used, process.service_start), (0, Some(3003)));
}

#[test]
fn four_requests_in_the_driver_turn_tagged_on() {
    let mut runner = Runner::new(Cfq2::default());
    runner.step(&Set("quantum", 1));
    for step in [
        Add(0, "1R0 1R8 1R16 1R24 2R100 2R108 2R116"),
        Take(0, "1R0"),
        Done(50, "1R0"),
        Take(50, "2R100 1R8 1R16"),
    ] {
        runner.step(&step);
    }
    assert_eq!(runner.elevator.get("tagged"), Some(0));
    runner.step(&Take(50, "2R108"));
    assert_eq!(runner.elevator.get("tagged"), Some(1));
    // From here on requests count when the driver takes them, not their time; the accounts are kept.
    runner.step(&Done(60, "2R100 2R108 1R8 1R16"));
    runner.step(&Serve(60, "2R116 1R24"));
    let used = [1, 2].map(|process| {
        let slot = runner.elevator.processes.find(runner.elevator.key(context(process)));
        slot.map(|slot| runner.elevator.processes[slot].service_used)
    });
    assert_eq!(used, [Some(51), Some(1)]);
}

#[test]
fn a_process_may_always_have_eight_and_at_most_its_share() {
    // Number of busy processes, and how many reads the first of them may have.
    for (processes, most) in [(1, 64), (2, 64), (4, 32), (10, 12), (16, 8), (100, 8)] {
        let mut runner = Runner::new(Cfq2::default());
        (1..processes).for_each(|process| runner.add(ms(0), &format!("{}R0", process + 1)));
        for reads in 0..most {
            // A process without a record has sent nothing yet.
            let answer = if (1..8).contains(&reads) { MayQueue::Must } else { MayQueue::May };
            assert_eq!(runner.elevator.may_queue(context(1), Dir::Read), answer, "{reads} of {most}");
            runner.add(ms(0), &format!("1R{}", reads * 8));
        }
        assert_eq!(runner.elevator.may_queue(context(1), Dir::Read), MayQueue::No, "{most}");
        assert_eq!(runner.elevator.may_queue(context(1), Dir::Write), MayQueue::Must);
    }
}

#[test]
fn requests_count_until_they_complete() {
    let mut runner = Runner::new(Cfq2::default());
    runner.elevator.depth_updated(2);
    for step in [
        Set("queued", 2),
        Add(0, "1R0 1R8"),
        May(1, Dir::Read, MayQueue::No),
        Take(0, "1R0 1R8"),
        // No process is busy, so only the largest share counts.
        May(1, Dir::Read, MayQueue::May),
        Done(1, "1R8"),
        May(1, Dir::Read, MayQueue::Must),
    ] {
        runner.step(&step);
    }
}
