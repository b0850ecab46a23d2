//! Test vectors; the notation of requests is described in `vectors`.

use super::*;
use crate::vectors::Runner;
use crate::vectors::Step::{self, Absorb, Add, Grow, Refuse, Set, Take};
use alloc::vec::Vec;

struct Case {
    name: &'static str,
    steps: &'static [Step],
}

/// Indices of words.
const PER_SCAN: i64 = 0;
const RHEL3: i64 = 5;

#[rustfmt::skip]
const ORDER: &[Case] = &[
    Case { name: "rising positions, reads and writes in one order", steps: &[
        Add(0, "R100 W300 R200 W400"), Take(0, "R100 R200 W300 W400 -"),
    ]},
    Case { name: "a request before the head goes to the tail", steps: &[
        Add(0, "R100 R300 R50"), Take(0, "R100 R300 R50 -"),
    ]},
    Case { name: "a wrap point takes what lies above it or below what follows", steps: &[
        Add(0, "R100 R300 R50 R400 R20"), Take(0, "R100 R300 R400 R20 R50 -"),
    ]},
    Case { name: "above the second run is the tail", steps: &[
        Add(0, "R100 R300 R50 R60"), Take(0, "R100 R300 R50 R60 -"),
    ]},
    Case { name: "nothing is put behind the last for its position, so an earlier run takes it", steps: &[
        Add(0, "R100 R300 R50 R250 R200"), Take(0, "R100 R200 R250 R300 R50 -"),
    ]},
    Case { name: "neighbours at one position are a wrap point", steps: &[
        Add(0, "R100 R100+16 R50"), Take(0, "R100 R50 R100+16 -"),
    ]},
    Case { name: "a front merge changes the order that others see", steps: &[
        Add(0, "R100 R300"), Grow("R300", "R200+108"), Add(0, "R250"), Take(0, "R100 R200+108 R250 -"),
    ]},
    Case { name: "of two requests that a bio could join, the one closest to the tail", steps: &[
        Add(0, "R100+16 R108"), Refuse("R100+16", "R100+24"), Grow("R108", "R108+16"),
    ]},
    Case { name: "at a front that the scan reaches first", steps: &[
        Add(0, "R100 W108 R116"), Refuse("R100", "R100+16"), Grow("R116", "R108+16"),
    ]},
    Case { name: "between neighbours the first, which absorbs the second", steps: &[
        Add(0, "R100 R116"), Grow("R100", "R100+16"),
    ]},
    Case { name: "a request that could not grow for its size does not end the scan", steps: &[
        Add(0, "R100 R84+24"), Refuse("R100", "R100+16"), Set("max_sectors", 24), Refuse("R84+24", "R84+32"),
        Grow("R100", "R100+16"), Grow("R100+16", "R100+24"), Refuse("R100+24", "R100+32"),
    ]},
    Case { name: "a protected head", steps: &[
        Set("protect_head", 1), Add(0, "R100 R300 R200"),
        Refuse("R100", "R100+16"), Refuse("R100", "R92+16"), Grow("R300", "R300+16"),
        Take(0, "R100"), Refuse("R300+16", "R300+24"), Take(0, "R300+16 R200 -"),
    ]},
];

#[rustfmt::skip]
const PASSOVER: &[Case] = &[
    Case { name: "two seeks and no more", steps: &[
        Set("read_latency", 32), Add(0, "R100 R500 R200 R300 R400"), Take(0, "R100 R200 R300 R500 R400 -"),
    ]},
    Case { name: "a cheaper seek is passed over more often", steps: &[
        Set("read_latency", 32), Set("seek_cost", 8), Add(0, "R100 R500 R200 R300 R400 R450 R475"),
        Take(0, "R100 R200 R300 R400 R450 R500 R475 -"),
    ]},
    Case { name: "a request at the tail costs no other request", steps: &[
        Set("read_latency", 16), Add(0, "R500 R600 R700 R800 R550"), Take(0, "R500 R550 R600 R700 R800 -"),
    ]},
    Case { name: "a merge passes over at the cost of one", steps: &[
        Set("write_latency", 2), Add(0, "R100 W500"),
        Grow("R100", "R100+16"), Grow("R100+16", "R100+24"), Refuse("R100+24", "R100+32"),
        Add(0, "R200"), Take(0, "R100+24 W500 R200 -"),
    ]},
    Case { name: "a used up request still grows at its end, and only there", steps: &[
        Set("write_latency", 2), Add(0, "R100 W500"),
        Grow("R100", "R100+16"), Grow("R100+16", "R100+24"),
        Grow("W500", "W500+16"), Refuse("W500+16", "W492+24"), Grow("W500+16", "W500+24"),
    ]},
    Case { name: "a front merge costs the request itself", steps: &[
        Set("write_latency", 1), Add(0, "W500"),
        Grow("W500", "W492+16"), Refuse("W492+16", "W484+24"), Grow("W492+16", "W492+24"),
    ]},
    Case { name: "joining costs no other request", steps: &[
        Set("write_latency", 1), Add(0, "R100 R108 W500"), Absorb("R100", "R108"),
        Grow("R100+16", "R100+24"), Refuse("R100+24", "R100+32"),
    ]},
];

#[rustfmt::skip]
const SCANNED: &[Case] = &[
    Case { name: "every look costs", steps: &[
        Set("write_latency", 2), Add(0, "R100 W500 R200 R300 R400"), Take(0, "R100 R200 R300 W500 R400 -"),
    ]},
    Case { name: "also one that leads to the tail", steps: &[
        Set("write_latency", 3), Add(0, "R100 W500 R600 R700 R200 R300"),
        Take(0, "R100 R200 W500 R600 R700 R300 -"),
    ]},
    Case { name: "a request with too little left to grow ends the scan of its direction", steps: &[
        Set("read_latency", 11), Add(0, "R100 R500 R200 R300 R400 R450"),
        Take(0, "R100 R200 R300 R400 R500 R450 -"),
    ]},
    Case { name: "a merge costs those behind its sectors", steps: &[
        Set("write_latency", 40), Add(0, "R100 W500"),
        // 40 - 17 - 17 - 17
        Grow("R100", "R100+24"), Grow("R100+24", "R100+40"), Grow("R100+40", "R100+56"),
        Refuse("R100+56", "R100+72"), Add(0, "R200"), Take(0, "R100+56 W500 R200 -"),
    ]},
    Case { name: "a front merge costs the request itself its sectors", steps: &[
        Set("write_latency", 20), Add(0, "W500"),
        // 20 - 9 - 9
        Grow("W500", "W492+16"), Grow("W492+16", "W484+24"),
        Refuse("W484+24", "W476+32"), Refuse("W484+24", "W484+32"), Grow("W484+24", "W483+25"),
    ]},
    Case { name: "a used up request does not even grow at its end", steps: &[
        Set("write_latency", 1), Add(0, "R50 W500 R100"), Refuse("W500", "W500+16"),
    ]},
];

#[rustfmt::skip]
const BOMB: &[Case] = &[
    Case { name: "a read behind six writes", steps: &[
        Add(0, "W0 W100 W200 W300 W400 W500 W600 W700 R1000"),
        Take(0, "W0 W100 W200 W300 W400 W500 R1000 W600 W700 -"),
    ]},
    Case { name: "large writes count for more", steps: &[
        Add(0, "W0+64 W100+64 W200+127 W300+64 R1000"), Take(0, "W0+64 W100+64 W200+127 R1000 W300+64 -"),
    ]},
    Case { name: "the sorted place when it comes earlier", steps: &[
        Add(0, "W0 W100 W200 W300 W400 W500 W600 W700 R150"),
        Take(0, "W0 W100 R150 W200 W300 W400 W500 W600 W700 -"),
    ]},
    Case { name: "not past another read", steps: &[
        Add(0, "W0 W100 W200 W300 W400 W500 W600 W700 R1000 R2000 R900"),
        Take(0, "W0 W100 W200 W300 W400 W500 R900 R1000 R2000 W600 W700 -"),
    ]},
    Case { name: "writes go where they went", steps: &[
        Add(0, "W0 W100 W200 W300 W400 W500 W600 W50"), Take(0, "W0 W50 W100 W200 W300 W400 W500 W600 -"),
    ]},
    Case { name: "behind fewer by request", steps: &[
        Set("max_bomb_segments", 1), Add(0, "W500 W600 R100"), Take(0, "W500 R100 W600 -"),
    ]},
    Case { name: "never ahead of a protected head", steps: &[
        Set("max_bomb_segments", 1), Set("protect_head", 1), Add(0, "W500 W600 W700 R100"),
        Take(0, "W500 W600 R100 W700 -"),
    ]},
];

fn play(cases: &[Case], settings: &[(&str, i64)]) {
    for case in cases {
        std::println!("{}", case.name);
        let mut elevator = Linus::default();
        settings.iter().for_each(|&(name, value)| elevator.set(name, value).expect("in range"));
        Runner::new(elevator).run(case.steps);
    }
}

#[test]
fn one_list_in_rising_runs() {
    for accounting in [PER_SCAN, PER_SCAN + 1] {
        play(ORDER, &[("accounting", accounting)]);
    }
}

#[test]
fn ageing_by_passing_over() {
    play(PASSOVER, &[]);
}

#[test]
fn ageing_by_looks() {
    play(SCANNED, &[("accounting", PER_SCAN)]);
}

#[test]
fn reads_behind_few_writes() {
    play(BOMB, &[("kernel", RHEL3)]);
}

fn budgets(runner: &Runner<Linus>) -> Vec<i64> {
    runner.elevator.list.iter().map(|entry| entry.budget).collect()
}

#[test]
fn budgets_after_each_step() {
    let mut runner = Runner::new(Linus::default());
    runner.run(&[Add(0, "W100 R300 W500 R200")]);
    assert_eq!(budgets(&runner), [8192, 2048, 2048 - 16, 8192 - 16]);
    runner.step(&Grow("R300", "R300+16"));
    assert_eq!(budgets(&runner), [8192, 2048, 2048 - 16, 8192 - 17]);
    runner.run(&[Add(0, "W108"), Absorb("W100", "W108")]);
    assert_eq!(budgets(&runner), [8192, 2048 - 16, 2048 - 32, 8192 - 33], "the smaller of two equal budgets");

    let mut runner = Runner::new(Linus::default());
    runner.run(&[Set("accounting", PER_SCAN), Add(0, "W100 R300 W500 R200")]);
    assert_eq!(budgets(&runner), [8192 - 3, 2048, 2048 - 2, 8192 - 1]);
    runner.step(&Grow("R300", "R300+24"));
    assert_eq!(budgets(&runner), [8192 - 3, 2048, 2048 - 3, 8192 - 18]);
    runner.step(&Grow("R200", "R192+16"));
    assert_eq!(budgets(&runner), [8192 - 3, 2048 - 9, 2048 - 12, 8192 - 27]);
}

/// A new request looks at all that wait, up to one whose budget is used up.
#[test]
fn scans_are_counted() {
    let mut linus = Linus::default();
    let add = |linus: &mut Linus, index: u32, sector: u64| {
        let info = RequestInfo {
            pos: sector * 512,
            len: 4096,
            dir: Dir::Read,
            op: platter_block::bio::Op::Read,
            sync: true,
            ioprio: platter_block::bio::IoPrio::NONE,
            context: platter_block::bio::Context::new(1),
        };
        let before = linus.scanned();
        linus.insert(Time(0), RequestId { index, generation: 0 }, &info);
        linus.scanned() - before
    };
    assert_eq!([0, 1, 2, 3].map(|index| add(&mut linus, index, 100 * u64::from(index))), [0, 1, 2, 3]);
    linus.list[1].budget = 0;
    assert_eq!(add(&mut linus, 4, 250), 3);
    while linus.dispatch(Time(0), false).is_some() {}
    assert_eq!(linus.scanned(), 9);
}

#[test]
fn a_survivor_takes_the_smaller_budget() {
    let mut runner = Runner::new(Linus::default());
    runner.run(&[Add(0, "W100 W108"), Set("write_latency", 5), Add(0, "W116")]);
    runner.step(&Absorb("W108", "W116"));
    assert_eq!(budgets(&runner), [8192, 5]);
    runner.step(&Absorb("W100", "W108+16"));
    assert_eq!(budgets(&runner), [5]);
    runner.step(&Take(0, "W100+24 -"));
}

#[test]
fn what_a_bombed_read_passes_pays() {
    let mut runner = Runner::new(Linus::default());
    runner.run(&[Set("max_bomb_segments", 1), Set("write_latency", 8), Add(0, "W500 W600 R100 W700")]);
    assert_eq!(budgets(&runner), [8, 2048, 8 - 16, 8]);
    // Its budget is used up, but that does not stop another read that passes no read.
    runner.run(&[Take(0, "W500 R100"), Add(0, "R200"), Take(0, "W600 R200 W700 -")]);
}

#[test]
fn kernels_set_what_they_had() {
    #[rustfmt::skip]
    let table = [
        ("2.4.0",     0, 1_000_000, 2_000_000, 16, 0),
        ("2.4.1",     0,      8192,    16_384, 16, 0),
        ("2.5.35",    1,      1024,      2048, 16, 0),
        ("2.4.20",    1,      2048,      8192, 16, 0),
        ("io-stalls", 1,       128,       512,  1, 0),
        ("rhel3",     1,      2048,      8192, 16, 6),
    ];
    let mut elevator = Linus::default();
    for (name, accounting, read, write, seek, bomb) in table {
        let value = PARAMS[KERNEL].words.iter().position(|word| *word == name).expect("a word of the table");
        elevator.set("kernel", value as i64).expect("in range");
        let got = PARAMS.each_ref().map(|p| elevator.get(p.name).expect("a parameter"));
        assert_eq!(got, [value as i64, accounting, read, write, seek, bomb, 0, 0], "{name}");
        for (name, value) in [("read_latency", 7), ("seek_cost", 3)] {
            elevator.set(name, value).expect("in range");
            assert_eq!(elevator.get(name), Some(value));
        }
    }
    assert_eq!(elevator.get("write_latency"), Some(8192), "one at a time");
}

#[test]
fn only_neighbours_in_the_list_become_one() {
    let mut runner = Runner::new(Linus::default());
    runner.step(&Add(0, "R100 W104 R108 R116"));
    let id = |index| RequestId { index, generation: 1 };
    assert!(!runner.elevator.allow_join(id(0), id(2)), "a write stands between them");
    assert!(runner.elevator.allow_join(id(2), id(3)));
    assert!(!runner.elevator.allow_join(id(3), id(2)) && !runner.elevator.allow_join(id(3), id(9)));
    runner.step(&Set("max_sectors", 15));
    assert!(!runner.elevator.allow_join(id(2), id(3)));
    runner.step(&Set("max_sectors", 16));
    assert!(runner.elevator.allow_join(id(2), id(3)));
}

#[test]
fn unknown_ids_are_ignored() {
    let mut runner = Runner::new(Linus::default());
    runner.step(&Add(0, "R100 R108"));
    let unknown = RequestId { index: 0, generation: 9 };
    let info = crate::vectors::parse("R100");
    runner.elevator.merged(unknown, &info, &crate::vectors::parse("R0+108"));
    runner.elevator.absorbed(RequestId { index: 1, generation: 1 }, unknown, &info);
    runner.elevator.absorbed(
        RequestId { index: 1, generation: 1 },
        RequestId { index: 1, generation: 1 },
        &info,
    );
    assert!(!runner.elevator.allow_merge(unknown, &info, &info));
    runner.step(&Take(0, "R100 R108 -"));
}
