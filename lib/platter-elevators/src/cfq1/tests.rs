//! Test vectors of rounds; their notation is described in `cfq/vectors.rs`.

use super::*;
use crate::cfq::vectors::Step::{Absorb, Add, Done, Grow, Joins, Set, Take};
use crate::cfq::vectors::{Case, Runner, context, ms, play};
use alloc::format;

#[rustfmt::skip]
const CASES: &[Case] = &[
    Case { name: "one process alone: the lowest four, and again", steps: &[
        Add(0, "1R500 1R100 1R300 1R200 1R400"), Take(0, "1R100 1R200 1R300 1R400 1R500 -"),
    ]},
    Case { name: "requests that arrive later wait for the next refill", steps: &[
        Add(0, "1R100 1R200 1R300 1R400 1R500"), Take(0, "1R100"), Add(0, "1R0 1R250"),
        Take(0, "1R200 1R300 1R400 1R0 1R250 1R500 -"),
    ]},
    Case { name: "a pass takes one request of each, passes repeat up to the quantum", steps: &[
        Add(0, "1R100 1R101 1R102 2R500 2R501 2R502"), Take(0, "1R100 1R101 2R500 2R501 1R102 2R502 -"),
    ]},
    Case { name: "passes are whole: with three processes six are taken", steps: &[
        Add(0, "1R10 1R11 1R12 2R50 2R51 2R52 3R90 3R91 3R92"),
        Take(0, "1R10 1R11 2R50 2R51 3R90 3R91 1R12 2R52 3R92 -"),
    ]},
    Case { name: "five processes, one of each although the quantum is four", steps: &[
        Add(0, "1R10 1R11 2R20 2R21 3R30 4R40 5R50 5R51"),
        Take(0, "1R10 2R20 3R30 4R40 5R50 1R11 2R21 5R51 -"),
    ]},
    Case { name: "a deep process does not keep a shallow one waiting", steps: &[
        Add(0, "1R0 1R8 1R16 1R24 1R32 1R40 1R48 1R56 2R999"), Take(0, "1R0 1R8 1R16 2R999 1R24 1R32 1R40"),
    ]},
    Case { name: "the quirk: the front of the list is drained first, and the newest is in front", steps: &[
        Set("rotate", 0),
        Add(0, "1R0 1R8 1R16 1R24 1R32 1R40 2R80 2R88 2R96 2R104 2R112"),
        // Two passes of two requests, all of process 2; then its last request and three of process 1.
        Take(0, "2R80 2R88 2R96 2R104"), Take(0, "1R0 1R8 1R16 2R112"), Take(0, "1R24 1R32 1R40 -"),
    ]},
    Case { name: "a larger quantum", steps: &[
        Set("quantum", 6), Add(0, "1R40 1R50 1R60 2R10 2R20 2R30 2R35"), Take(0, "2R10 2R20 2R30 1R40 1R50 1R60 2R35 -"),
    ]},
    Case { name: "reads and writes share the tree", steps: &[
        Add(0, "1W30 1R20 1S10"), Take(0, "1S10 1R20 1W30 -"),
    ]},
    Case { name: "a request is sorted into the refill that it came with", steps: &[
        Add(0, "1R900 2R500 3R100 4R300"), Take(0, "3R100 4R300 2R500 1R900 -"),
    ]},
    Case { name: "requests at one position all leave", steps: &[
        Add(0, "1R100 1R100+16 2R100"), Take(0, "2R100 1R100 1R100+16 -"),
    ]},
    Case { name: "any bio may join an end, its own process a front, until the request is chosen", steps: &[
        Add(0, "1R100 2R500"),
        Joins("1R100", "2R108", true), Joins("1R100", "1R108", true),
        Joins("1R100", "2R92", false), Joins("1R100", "1R92", true), Joins("1R100", "3R92", false),
        Take(0, "1R100"), Joins("2R500", "2R508", false),
    ]},
    Case { name: "merges move and remove requests", steps: &[
        Add(0, "1R100 1R200 1R208 1R300"), Grow("1R200", "1R192+16"), Absorb("1R192+16", "1R208"),
        Grow("1R300", "1R50+258"), Take(0, "1R50+258 1R100 1R192+24 -"),
    ]},
    Case { name: "a request of the dispatch list takes another in", steps: &[
        Add(0, "1R100 1R108 1R200 1R300"), Take(0, "1R100"),
        Done(0, "1R100"), Add(0, "1R208 1R400"), Absorb("1R200", "1R208"),
        Take(0, "1R108 1R200+16 1R300 1R400 -"),
    ]},
    Case { name: "two requests of the dispatch list become one", steps: &[
        Add(0, "1R100 1R108 1R116 1R300"), Take(0, "1R100"), Absorb("1R108", "1R116"), Take(0, "1R108+16 1R300 -"),
    ]},
];

#[test]
fn vectors() {
    play(CASES, Cfq1::default);
}

#[test]
fn a_process_may_queue_its_share_of_the_pool() {
    // Number of processes with queued requests, and how many reads the first of them may have at most: one
    // more than its share, because a process is refused only once it has more than its share.
    for (processes, most) in [(1, 129), (2, 129), (63, 129), (64, 128), (100, 82), (1000, 9), (3000, 4)] {
        let mut runner = Runner::new(Cfq1::default());
        (1..processes).for_each(|process| runner.add(ms(0), &format!("{}R0", process + 1)));
        let mut reads = 0;
        while runner.elevator.may_queue(context(1), Dir::Read) == MayQueue::May {
            runner.add(ms(0), &format!("1R{}", reads * 8));
            reads += 1;
        }
        assert_eq!(reads, most, "with {processes} processes");
        assert_eq!(
            runner.elevator.may_queue(context(1), Dir::Write),
            MayQueue::May,
            "each direction has its own count"
        );
        assert_eq!(runner.elevator.may_queue(context(2), Dir::Read), MayQueue::May);
    }
}

#[test]
fn the_share_follows_the_parameters_and_the_pool() {
    let mut elevator = Cfq1::default();
    for (nr_requests, queued, pool, share) in [
        (8192, 8, 128, 128),
        (108, 8, 128, 100),
        (108, 100, 128, 8),
        (8, 8, 128, 3),
        (128, 8, 60, 60),
        (99, 0, 1, 3),
    ] {
        for (name, value) in [("nr_requests", nr_requests), ("queued", queued)] {
            elevator.set(name, value).expect("in range");
        }
        elevator.depth_updated(pool);
        assert_eq!(elevator.share(), share);
    }
}

#[test]
fn a_process_with_nothing_queued_has_no_account() {
    let mut runner = Runner::new(Cfq1::default());
    runner.elevator.depth_updated(3);
    for i in 0..4 {
        runner.add(ms(0), &format!("1R{}", i * 8));
    }
    assert_eq!(runner.elevator.may_queue(context(1), Dir::Read), MayQueue::No);
    runner.step(&Take(0, "1R0"));
    assert_eq!(runner.elevator.len(), 3, "the rest is on the dispatch list");
    assert_eq!(runner.elevator.may_queue(context(1), Dir::Read), MayQueue::May);
}
