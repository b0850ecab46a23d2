//! Turns of reads and writes, the order within them, and expiry. Without waiting unless stated otherwise.

use super::*;
use crate::vectors::Step::{Absorb, Grow};

#[rustfmt::skip]
const BATCHES: &[Case] = &[
    Case { name: "reads have their time, then writes", steps: &[
        Add(0, "R0 R8 R16 R24 W1000 W1008"), Serve(0, "R0"), Serve(500, "R8"),
        Serve(501, "W1000 W1008 R16 R24 -"),
    ]},
    Case { name: "reads without competing writes renew their time", steps: &[
        Add(0, "R0"), Serve(0, "R0"), Add(400, "R8"), Serve(400, "R8"), Add(450, "R16 R24 W1000"),
        Serve(900, "R16"), Serve(901, "W1000 R24"),
    ]},
    Case { name: "writes without competing reads go at once", steps: &[
        Add(0, "W1000 W1008"), Serve(0, "W1000 W1008"), Take(0, "-"),
    ]},
    Case { name: "five writes a batch to begin with in 2.6.0, then as many as fit in 50 ms", steps: &[
        Set("kernel", 0), Set("antic_expire", 0), Set("write_expire", 10000), Set("read_expire", 10000),
        Add(0, "R0 R8 R16 R24 R32 W100 W200 W300 W400 W500 W600 W700"),
        Serve(0, "R0"), Serve(201, "W100 W200 W300 W400 W500"), Serve(202, "R8"),
        // It took 1 ms: twice as many.
        Add(202, "W800 W900 W1000 W1100 W1200 W1300 W1400 W1500 W1600"),
        Serve(402, "R16"), Serve(403, "W600 W700 W800 W900 W1000 W1100 W1200 W1300 W1400 W1500 R24"),
    ]},
    Case { name: "the time of writes ends their batch too", steps: &[
        Set("write_expire", 10000),
        Add(0, "R0 R8 W100 W200 W300 W400"), Serve(0, "R0"), Serve(501, "W100"), Serve(626, "W200"),
        Serve(627, "R8 W300 W400"),
    ]},
    Case { name: "a batch of reads has its time from its first completion", steps: &[
        Set("read_expire", 10000), Set("write_expire", 10000),
        Add(0, "R0 R8 R16 R24 W100 W200"), Serve(0, "R0"), Serve(501, "W100"),
        Add(627, "R32"), Take(627, "R8"), Take(2000, "R16"), Done(2000, "R8 R16"), Take(2500, "R24"),
        Take(2501, "-"), Done(2501, "R24"), Take(2501, "W200"),
    ]},
    Case { name: "a change waits until the driver is empty", steps: &[
        Add(0, "R0 R8 R16 W1000 W1008"), Take(0, "R0 R8"), Take(501, "- -"), Done(505, "R0"), Take(505, "-"),
        Wake(None), Done(510, "R8"), Take(510, "W1000 W1008 -"), Done(511, "W1008"), Take(511, "-"),
        Done(511, "W1000"), Take(511, "R16"),
    ]},
    Case { name: "and the batch has its time from then on", steps: &[
        Set("write_expire", 10000),
        Add(0, "R0 R8 W1000 W1008 W1016"), Take(0, "R0"), Take(501, "-"), Done(510, "R0"),
        Serve(510, "W1000"), Serve(635, "W1008"), Serve(636, "R8 W1016"),
    ]},
    Case { name: "in the kernels' code it had none", steps: &[
        Set("stale_write_batch", 1),
        Add(0, "R0 R8 W1000 W1008 W1016"), Take(0, "R0"), Take(501, "-"), Done(510, "R0"), Take(510, "R8"),
    ]},
    Case { name: "but with an empty driver it had", steps: &[
        Set("stale_write_batch", 1),
        Add(0, "R0 R8 W1000 W1008"), Serve(0, "R0"), Serve(501, "W1000 W1008 R8"),
    ]},
];

#[rustfmt::skip]
const ORDER: &[Case] = &[
    Case { name: "rising positions", steps: &[
        Add(0, "R300 R100 R200"), Serve(0, "R100 R200 R300 -"),
    ]},
    Case { name: "behind counts twice", steps: &[
        Add(0, "R10000"), Serve(0, "R10000"), Add(0, "R10108 R9959"), Serve(0, "R9959 R10108"),
    ]},
    Case { name: "of equal costs the higher position", steps: &[
        Add(0, "R10000"), Serve(0, "R10000"), Add(0, "R9958 R10108"), Serve(0, "R10108 R9958"),
    ]},
    Case { name: "within 512 MiB behind", steps: &[
        Add(0, "R3000000"), Serve(0, "R3000000"), Add(0, "R1951432 R99000000"), Serve(0, "R1951432"),
    ]},
    Case { name: "not farther", steps: &[
        Add(0, "R3000000"), Serve(0, "R3000000"), Add(0, "R1951431 R99000000"), Serve(0, "R99000000 R1951431"),
    ]},
    Case { name: "of two too far behind the lower", steps: &[
        Add(0, "R3000000"), Serve(0, "R3000000"), Add(0, "R1000 R500"), Serve(0, "R500 R1000"),
    ]},
    Case { name: "at the highest, the lowest competes with the one before", steps: &[
        Add(0, "R3000000 R2999000 R100"), Serve(0, "R100 R2999000"), Add(0, "R500 R2998000"),
        Serve(0, "R3000000 R2998000 R500"),
    ]},
    Case { name: "requests at one position all leave", steps: &[
        Add(0, "R100 R100+16 R100+24"), Serve(0, "R100 R100+16 R100+24 -"),
    ]},
    Case { name: "each direction has a position of its own", steps: &[
        Add(0, "R1000"), Serve(0, "R1000"), Add(0, "W990 W5"), Serve(0, "W5 W990"),
    ]},
    Case { name: "a front merge moves a request in the order", steps: &[
        Add(0, "R100 R200 R150"), Grow("R200", "R140+68"), Serve(0, "R100 R140+68 R150 -"),
    ]},
    Case { name: "when the nearest is absorbed another one is nearest", steps: &[
        Add(0, "R300 R100 R92"), Absorb("R92", "R100"), Serve(0, "R92+16 R300 -"),
    ]},
    Case { name: "the nearest grows at its front and stays known", steps: &[
        Add(0, "R300 R100"), Grow("R100", "R92+16"), Serve(0, "R92+16 R300 -"),
    ]},
];

#[rustfmt::skip]
const EXPIRY: &[Case] = &[
    Case { name: "the oldest goes first once in its time", steps: &[
        Add(0, "R1000 R900000 R5000000 R1008 R1016 R900008"), Serve(0, "R1000"),
        Serve(126, "R900000 R900008 R1016"), Serve(250, "R1008"), Add(250, "R1024 R1032 R1040"),
        Serve(250, "R1024"), Serve(251, "R5000000"),
    ]},
    Case { name: "not at its time, but after", steps: &[
        Add(0, "R1000 R900000 R1008"), Serve(0, "R1000"), Serve(125, "R1008"),
    ]},
    Case { name: "a batch of reads begins with the oldest", steps: &[
        Add(0, "W100"), Take(0, "W100"), Add(0, "R5000 R0 R4000"), Done(0, "W100"), Serve(0, "R5000 R4000 R0"),
    ]},
    Case { name: "a batch of writes begins with the nearest", steps: &[
        Add(0, "W5000 W0 W4000"), Serve(0, "W0 W4000 W5000"),
    ]},
    Case { name: "writes expire after 250 ms", steps: &[
        Add(0, "W100"), Serve(0, "W100"), Add(0, "W9000 W108 W116 W124"), Serve(250, "W108"), Serve(251, "W116"),
    ]},
    Case { name: "and are looked at once in that time", steps: &[
        Add(0, "W100"), Serve(0, "W100"), Add(0, "W9000 W108 W116 W124"), Serve(249, "W108"), Serve(251, "W9000"),
    ]},
    Case { name: "a survivor is as old as the older of the two", steps: &[
        Add(0, "R1000 R908"), Add(50, "R5000"), Add(100, "R900 R1008"), Absorb("R900", "R908"),
        Serve(100, "R900+16"), Add(110, "R1016"), Serve(126, "R1000"),
    ]},
    Case { name: "and in its place", steps: &[
        Add(0, "R1000 R9008"), Add(50, "R5000"), Add(100, "R9000 R1008"), Absorb("R9000", "R9008"),
        Serve(0, "R1000"), Serve(126, "R9000+16"),
    ]},
];

fn play_without_waiting(cases: &[Case]) {
    for case in cases {
        std::println!("{}", case.name);
        let mut runner = runner();
        runner.step(&Set("antic_expire", 0));
        runner.run(case.steps);
    }
}

#[test]
fn batches_alternate() {
    play_without_waiting(BATCHES);
}

#[test]
fn the_nearest_goes_next() {
    play_without_waiting(ORDER);
}

#[test]
fn the_oldest_goes_first_when_it_is_late() {
    play_without_waiting(EXPIRY);
}

#[test]
fn the_number_of_writes_follows_the_time_they_took() {
    #[rustfmt::skip]
    let table = [
        // Time taken, writes left, whether it idled; writes per batch before and after. The target is 125 ms.
        (376,  0, false, 40, 20),
        (375,  0, false, 40, 39),
        (126,  0, false, 40, 39),
        (126,  5, false, 40, 39),
        (376,  0, true,  40, 40),
        (125,  0, false, 40, 40),
        (124,  0, false, 40, 41),
        (124,  0, true,  40, 41),
        (124,  1, false, 40, 40),
        ( 42,  0, false, 40, 41),
        ( 41,  0, false, 40, 80),
        (  0,  0, false, 40, 80),
        (376,  0, false,  1,  1),
        (126,  0, false,  1,  1),
        (  0,  0, false, 1 << 32, 1 << 32),
    ];
    for (took, left, idled, before, after) in table {
        let batch =
            Batch { expires: 1125, writes_left: left, writes: before, idled, fresh: true, ..Batch::new() };
        let mut elevator = Anticipatory { batch, ..Anticipatory::default() };
        elevator.batch_completion(1000 + took, SYNC);
        assert_eq!(elevator.batch.writes, after, "{took} ms, {left} left, idled: {idled}");
        assert_eq!((elevator.batch.expires, elevator.batch.fresh), (1500 + took, false));
        elevator.batch_completion(3000, SYNC);
        assert_eq!(elevator.batch.expires, 1500 + took, "only the first completion");
    }
}
