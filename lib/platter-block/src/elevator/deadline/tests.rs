//! Test vectors: when requests arrive, and in which order they leave.
//!
//! Requests are written as direction, position and (where it is not 8) `+` length: `R100`, `W64+16`.

use super::*;
use crate::bio::{Context, IoPrio, Op};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

enum Step {
    /// At a time in milliseconds, these requests arrive.
    Add(u64, &'static str),
    /// At a time in milliseconds, the elevator is asked for as many requests as given and returns these; `-`
    /// is none.
    Take(u64, &'static str),
    /// The first request absorbs the second, which follows it.
    Absorb(&'static str, &'static str),
    /// The first request grows by a bio into the second one.
    Grow(&'static str, &'static str),
}
use Step::{Absorb, Add, Grow, Take};

struct Case {
    name: &'static str,
    rule: BatchRule,
    settings: &'static [(&'static str, i64)],
    steps: &'static [Step],
}

use BatchRule::{Any, Contiguous, ContiguousOldest};

#[rustfmt::skip]
const CASES: &[Case] = &[
    Case { name: "rising positions from the lowest", rule: Contiguous, settings: &[], steps: &[
        Add(0, "R500 R100 R300"), Take(0, "R100 R300 R500 -"),
    ]},
    Case { name: "rising positions from the oldest, then from the oldest behind", rule: Any, settings: &[], steps: &[
        Add(0, "R300 R100 R500 R200"), Take(0, "R300 R500 R100 R200 -"),
    ]},
    Case { name: "a request between the last and the next waits for the next sweep", rule: Any, settings: &[], steps: &[
        Add(0, "R100 R300"), Take(0, "R100"), Add(0, "R200 R400"), Take(0, "R300 R400 R200 -"),
    ]},
    Case { name: "past the highest, back to the lowest", rule: Contiguous, settings: &[], steps: &[
        Add(0, "R300 R400"), Take(0, "R300"), Add(0, "R200 R100"), Take(0, "R400 R100 R200 -"),
    ]},
    Case { name: "past the highest, back to the oldest", rule: Any, settings: &[], steps: &[
        Add(0, "R300 R400"), Take(0, "R300"), Add(0, "R200 R100"), Take(0, "R400 R200 R100 -"),
    ]},
    Case { name: "past the highest, back to the oldest, in 2.6.24 too", rule: ContiguousOldest, settings: &[], steps: &[
        Add(0, "R300 R400"), Take(0, "R300"), Add(0, "R200 R100"), Take(0, "R400 R200 R100 -"),
    ]},
    Case { name: "a batch is a number of requests wherever they lie",
        rule: Any, settings: &[("fifo_batch", 2), ("writes_starved", 1)], steps: &[
        Add(0, "R10 R20 R30 R40 R50 W100 W200 W300"),
        Take(0, "R10 R20 W100 W200 R30 R40 W300 R50 -"),
    ]},
    Case { name: "a batch is a number of contiguous requests",
        rule: Contiguous, settings: &[("fifo_batch", 3), ("writes_starved", 1)], steps: &[
        Add(0, "R0 R8 R16 R24 R32 W1000 W2000"),
        Take(0, "R0 R8 R16 W1000 R24 R32 W2000 -"),
    ]},
    Case { name: "a used up batch that goes on is a choice for every request",
        rule: Contiguous, settings: &[("fifo_batch", 2), ("writes_starved", 3)], steps: &[
        Add(0, "R0 R8 R16 R24 R32 R40 R48 R56 W1000"),
        // Choices: (R0 R8) (R16) (R24), then the write; from the lowest: (R32 R40) (R48) (R56).
        Take(0, "R0 R8 R16 R24 W1000 R32 R40"),
        Add(0, "W2000"),
        Take(0, "R48 R56 W2000 -"),
    ]},
    Case { name: "in 2.6.24 every choice is a whole batch",
        rule: ContiguousOldest, settings: &[("fifo_batch", 2), ("writes_starved", 3)], steps: &[
        Add(0, "R0 R8 R16 R24 R32 R40 R48 R56 W1000"),
        Take(0, "R0 R8 R16 R24 R32 R40 W1000 R48 R56 -"),
    ]},
    Case { name: "a gap ends a contiguous batch", rule: ContiguousOldest, settings: &[("writes_starved", 1)], steps: &[
        Add(0, "R0 R16 W1000"), Take(0, "R0 W1000 R16 -"),
    ]},
    Case { name: "a back merge closes the gap", rule: ContiguousOldest, settings: &[("writes_starved", 1)], steps: &[
        Add(0, "R0 R16 W1000"), Grow("R0", "R0+16"), Take(0, "R0+16 R16 W1000 -"),
    ]},
    Case { name: "the third choice goes to writes", rule: Any, settings: &[("fifo_batch", 1)], steps: &[
        Add(0, "R1 R2 R3 R4 R5 W100 W200"), Take(0, "R1 R2 W100 R3 R4 W200 R5 -"),
    ]},
    Case { name: "choices without waiting writes are not counted", rule: Any, settings: &[("fifo_batch", 1)], steps: &[
        Add(0, "R1 R2 R3 R4 R5 R6"), Take(0, "R1 R2 R3"), Add(0, "W100"), Take(0, "R4 R5 W100 R6 -"),
    ]},
    Case { name: "writes_starved=0 always prefers writes",
        rule: Any, settings: &[("fifo_batch", 1), ("writes_starved", 0)], steps: &[
        Add(0, "R1 R2 W100 W200"), Take(0, "W100 W200 R1 R2 -"),
    ]},
    Case { name: "fifo_batch=0 chooses for every request", rule: Any, settings: &[("fifo_batch", 0)], steps: &[
        Add(0, "R1 R2 R3 W100"), Take(0, "R1 R2 W100 R3 -"),
    ]},
    Case { name: "an expired request waits for the end of the batch", rule: Any, settings: &[("fifo_batch", 4)], steps: &[
        Add(0, "R100 R50 R200 R300 R400 R450"), Take(0, "R100"), Take(501, "R200 R300 R400 R50 R450 -"),
    ]},
    Case { name: "a request expires after its time, not at it", rule: Any, settings: &[("fifo_batch", 4)], steps: &[
        Add(0, "R100 R50 R200 R300 R400 R450"), Take(0, "R100"), Take(500, "R200 R300 R400 R450 R50 -"),
    ]},
    Case { name: "an expired request starts a contiguous batch afresh",
        rule: Contiguous, settings: &[("fifo_batch", 2), ("writes_starved", 1)], steps: &[
        Add(0, "R100 R40"), Take(0, "R40"), Add(0, "R16 R24 R32"), Take(501, "R100"),
        Add(501, "W1000"), Take(501, "R16 R24 W1000 R32 -"),
    ]},
    Case { name: "writes expire after five seconds", rule: Any, settings: &[("fifo_batch", 1)], steps: &[
        Add(0, "W100 W50 W200 W300"), Take(0, "W100"), Take(5000, "W200"), Take(5001, "W50 W300 -"),
    ]},
    Case { name: "a new time limit holds for what arrives from then on",
        rule: Any, settings: &[("fifo_batch", 1), ("read_expire", 20)], steps: &[
        Add(0, "R100 R50 R200 R300"), Take(0, "R100"), Take(20, "R200"), Take(21, "R50 R300 -"),
    ]},
    Case { name: "a survivor inherits the earlier expiry and its place", rule: Any, settings: &[("fifo_batch", 1)], steps: &[
        Add(0, "R20 R208"), Add(100, "R50"), Add(400, "R200"),
        Absorb("R200", "R208"), Take(0, "R20"), Take(501, "R200+16 R50 -"),
    ]},
    Case { name: "an older survivor keeps its own", rule: Any, settings: &[("fifo_batch", 1)], steps: &[
        Add(0, "R20 R200"), Add(100, "R50"), Add(400, "R208"),
        Absorb("R200", "R208"), Take(0, "R20"), Take(501, "R200+16 R50 -"),
    ]},
    Case { name: "when the next request is absorbed its follower is next", rule: Any, settings: &[], steps: &[
        Add(0, "R100 R200 R208 R300"), Take(0, "R100"), Add(0, "R192"),
        Absorb("R192", "R200"), Take(0, "R208 R300 R192+16 -"),
    ]},
    Case { name: "a front merge moves a request in the order", rule: Any, settings: &[], steps: &[
        Add(0, "R100 R200 R150"), Grow("R200", "R140+68"), Take(0, "R100 R140+68 R150 -"),
    ]},
    Case { name: "requests at one position all leave", rule: Any, settings: &[], steps: &[
        Add(0, "R100 R100+16 R100+24 R50"), Take(0, "R100 R100+16 R100+24 R50 -"),
    ]},
];

struct Runner {
    elevator: Deadline,
    requests: Vec<(String, RequestId, RequestInfo)>,
}

fn full(text: &str) -> String {
    if text.contains('+') { text.into() } else { format!("{text}+8") }
}

fn parse(text: &str) -> RequestInfo {
    let (dir, range) = text.split_at(1);
    let (pos, len) = range.split_once('+').expect("a length");
    RequestInfo {
        pos: pos.parse().expect("a position"),
        len: len.parse().expect("a length"),
        dir: if dir == "R" { Dir::Read } else { Dir::Write },
        op: if dir == "R" { Op::Read } else { Op::Write },
        sync: dir == "R",
        ioprio: IoPrio::NONE,
        context: Context::new(0),
    }
}

impl Runner {
    fn find(&self, text: &str) -> usize {
        let text = full(text);
        self.requests.iter().position(|(name, ..)| *name == text).expect("a request of the case")
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Add(ms, list) => {
                for text in list.split(' ').map(full) {
                    let id = RequestId { index: self.requests.len() as u32, generation: 1 };
                    let info = parse(&text);
                    self.elevator.insert(Time(ms * 1_000_000), id, &info);
                    self.requests.push((text, id, info));
                }
            }
            Take(ms, expected) => {
                let taken: Vec<String> = (0..expected.split(' ').count()).map(|_| self.take(ms)).collect();
                let expected: Vec<String> =
                    expected.split(' ').map(|t| if t == "-" { t.into() } else { full(t) }).collect();
                assert_eq!(taken, expected);
            }
            Absorb(survivor, absorbed) => {
                let (s, a) = (self.find(survivor), self.find(absorbed));
                let (old, gone) = (self.requests[s].2, self.requests[a].2);
                assert_eq!((old.end(), old.dir), (gone.pos, gone.dir), "a wrong test case");
                self.elevator.absorbed(self.requests[s].1, self.requests[a].1, &gone);
                self.grow(s, RequestInfo { len: old.len + gone.len, ..old });
            }
            Grow(from, to) => {
                let at = self.find(from);
                self.grow(at, parse(&full(to)));
            }
        }
    }

    fn grow(&mut self, at: usize, new: RequestInfo) {
        let (name, id, info) = &mut self.requests[at];
        self.elevator.merged(*id, info, &new);
        *info = new;
        *name = format!("{}{}+{}", &name[..1], new.pos, new.len);
    }

    fn take(&mut self, ms: u64) -> String {
        let Some(id) = self.elevator.dispatch(Time(ms * 1_000_000), false) else { return "-".into() };
        self.requests.iter().find(|(_, known, _)| *known == id).expect("a known request").0.clone()
    }
}

#[test]
fn vectors() {
    for case in CASES {
        std::println!("{}", case.name);
        let mut elevator = Deadline::with_rule(case.rule);
        assert_eq!(elevator.get("batch_rule"), Some(case.rule as i64));
        for &(name, value) in case.settings {
            elevator.set(name, value).expect("a parameter in range");
        }
        let mut runner = Runner { elevator, requests: Vec::new() };
        case.steps.iter().for_each(|step| runner.step(step));
    }
}

#[test]
fn a_refused_value_changes_nothing() {
    let mut elevator = Deadline::default();
    for (name, value) in
        [("read_expire", -1), ("front_merges", 2), ("batch_rule", 3), ("fifo_batch", 1 << 31)]
    {
        let old = elevator.get(name);
        let error = elevator.set(name, value).expect_err("out of range");
        assert!(error.0.contains(name) && error.0.contains("deadline"), "{error}");
        assert_eq!(elevator.get(name), old);
    }
    assert!(elevator.set("quantum", 1).expect_err("no such parameter").0.contains("fifo_batch"));
    assert!(elevator.front_merges());
    elevator.set("front_merges", 0).expect("in range");
    assert!(!elevator.front_merges());
}

#[test]
fn unknown_ids_are_ignored() {
    let mut runner = Runner { elevator: Deadline::default(), requests: Vec::new() };
    runner.step(&Add(0, "R100 R108"));
    let unknown = RequestId { index: 0, generation: 9 };
    let info = parse("R100+8");
    runner.elevator.merged(unknown, &info, &parse("R0+108"));
    runner.elevator.absorbed(runner.requests[1].1, unknown, &info);
    runner.elevator.absorbed(runner.requests[1].1, runner.requests[1].1, &info);
    runner.elevator.insert(Time(0), unknown, &info);
    assert_eq!(runner.elevator.len(), 2);
    runner.step(&Take(0, "R100 R108 -"));
}
