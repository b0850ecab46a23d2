//! Test vectors: when requests arrive, and in which order they leave.
//!
//! Requests are written as direction, position, and `!` for real time or `~` for idle: `R100`, `W64!`, `R8~`.

use super::*;
use crate::bio::Op;
use alloc::string::String;
use alloc::vec::Vec;

enum Step {
    /// At a time in milliseconds, these requests arrive.
    Add(u64, &'static str),
    /// At a time in milliseconds, the elevator is asked for as many requests as given and returns these; `-`
    /// is none.
    Take(u64, &'static str),
    /// The same with `force`.
    Force(u64, &'static str),
    /// These requests complete.
    Done(&'static str),
    /// The first request absorbs the second.
    Absorb(&'static str, &'static str),
}
use Step::{Absorb, Add, Done, Force, Take};

struct Case {
    name: &'static str,
    settings: &'static [(&'static str, i64)],
    steps: &'static [Step],
}

#[rustfmt::skip]
const CASES: &[Case] = &[
    Case { name: "real time, then best effort, then idle", settings: &[], steps: &[
        Add(0, "R1~ R2 R3! R4~ R5 R6!"),
        Take(0, "R3! R6! -"), Done("R3! R6!"),
        Take(0, "R2 R5 -"), Done("R2 R5"), Take(0, "R1~ R4~ -"),
    ]},
    Case { name: "a lower class waits for the last one in flight of a higher", settings: &[], steps: &[
        Add(0, "R3! R6! R1"), Take(0, "R3! R6! -"), Done("R3!"), Take(0, "-"), Done("R6!"), Take(0, "R1 -"),
    ]},
    Case { name: "a higher class does not wait for a lower", settings: &[], steps: &[
        Add(0, "R1~"), Take(0, "R1~"), Add(0, "R2"), Take(0, "R2"), Add(0, "R3!"), Take(0, "R3! -"),
    ]},
    Case { name: "levels within a class do not count", settings: &[], steps: &[
        Add(0, "R1 R2 R3"), Take(0, "R1 R2 R3 -"),
    ]},
    Case { name: "by force nothing waits, but the order stays", settings: &[], steps: &[
        Add(0, "R1~ R2 R3!"), Force(0, "R3! R2 R1~ -"),
    ]},
    Case { name: "after ten seconds a request leaves before those of higher classes", settings: &[], steps: &[
        Add(0, "R1 R2"), Add(5000, "R3"), Add(0, "R10! R11! R12! R13! R14! R15!"),
        Take(9999, "R10!"), Take(10_000, "R1 R2 R11!"), Take(14_999, "R12!"), Take(15_000, "R3 R13!"),
    ]},
    Case { name: "idle requests age too, after best effort ones", settings: &[], steps: &[
        Add(0, "R1~ R2 R10! R11!"), Take(10_000, "R2 R1~ R10! R11! -"),
    ]},
    Case { name: "within a batch only the age of its next request counts", settings: &[("prio_aging_expire", 100)], steps: &[
        Add(0, "R50"), Add(90, "R30"), Take(90, "R50"), Done("R50"),
        // The sweep of the best effort class is at R60, which is young; R30 lies behind it.
        Add(150, "R60 R1!"), Take(190, "R1!"), Done("R1!"), Take(190, "R60 R30 -"),
    ]},
    Case { name: "with one class there is nothing to age against", settings: &[("prio_aging_expire", 0)], steps: &[
        Add(0, "R30 R10 R20"), Take(1, "R30 R10 R20 -"),
    ]},
    Case { name: "a new age limit holds at once", settings: &[("prio_aging_expire", 20)], steps: &[
        Add(0, "R1 R10! R11!"), Take(19, "R10!"), Take(20, "R1 R11! -"),
    ]},
    Case { name: "a batch is a number of requests wherever they lie",
        settings: &[("fifo_batch", 2), ("writes_starved", 1)], steps: &[
        Add(0, "R10 R20 R30 R40 R50 W100 W200 W300"),
        Take(0, "R10 R20 W100 W200 R30 R40 W300 R50 -"),
    ]},
    Case { name: "the third choice goes to writes", settings: &[("fifo_batch", 1)], steps: &[
        Add(0, "R1 R2 R3 R4 R5 W100 W200"), Take(0, "R1 R2 W100 R3 R4 W200 R5 -"),
    ]},
    Case { name: "each direction goes on where it was", settings: &[("fifo_batch", 1), ("writes_starved", 1)], steps: &[
        Add(0, "R10 R30 R20 W100 W300 W200"), Take(0, "R10 W100 R20 W200 R30 W300 -"),
    ]},
    Case { name: "a sweep takes in what arrives before it", settings: &[], steps: &[
        Add(0, "R100 R300"), Take(0, "R100"), Add(0, "R200 R50"), Take(0, "R200 R300 R50 -"),
    ]},
    Case { name: "and when nothing was left of it", settings: &[], steps: &[
        Add(0, "R100"), Take(0, "R100 -"), Add(0, "R50 R200 R150"), Take(0, "R150 R200 R50 -"),
    ]},
    Case { name: "past the highest, back to the oldest", settings: &[], steps: &[
        Add(0, "R300 R400"), Take(0, "R300"), Add(0, "R200 R100"), Take(0, "R400 R200 R100 -"),
    ]},
    Case { name: "an expired request waits for the end of the batch", settings: &[("fifo_batch", 4)], steps: &[
        Add(0, "R100 R50 R200 R300 R400 R450"), Take(0, "R100"), Take(501, "R200 R300 R400 R50 R450 -"),
    ]},
    Case { name: "a batch goes on in another class", settings: &[("fifo_batch", 2), ("writes_starved", 1)], steps: &[
        Add(0, "R10 W20"), Take(0, "R10"), Done("R10"), Add(0, "R30! W40!"),
        // The batch has one request; real time has no position to continue from, so it chooses anew. Writes
        // were passed over once, and that counts in the other class too.
        Take(0, "W40! R30! -"),
    ]},
    Case { name: "a request that absorbs the next of a sweep takes its place", settings: &[], steps: &[
        Add(0, "R100 R192 R200 R300"), Take(0, "R100"), Absorb("R192", "R200"), Take(0, "R192 R300 -"),
    ]},
    Case { name: "an absorbed request holds no lower class back", settings: &[], steps: &[
        Add(0, "R192! R200! R1"), Absorb("R192!", "R200!"), Take(0, "R192! -"), Done("R192!"), Take(0, "R1 -"),
    ]},
];

struct Runner {
    elevator: MqDeadline,
    requests: Vec<(String, RequestId, RequestInfo)>,
}

fn parse(text: &str) -> RequestInfo {
    let dir = if text.starts_with('R') { Dir::Read } else { Dir::Write };
    let class = match text.chars().last() {
        Some('!') => Class::RealTime,
        Some('~') => Class::Idle,
        _ => Class::None,
    };
    let pos: u64 = text[1..].trim_end_matches(['!', '~']).parse().expect("a position");
    RequestInfo {
        pos,
        len: 8,
        dir,
        op: if dir == Dir::Read { Op::Read } else { Op::Write },
        sync: dir == Dir::Read,
        // Lower levels at lower positions: levels must not matter.
        ioprio: IoPrio::new(class, 7 - pos.min(7) as u8),
        context: Context::new(0),
    }
}

impl Runner {
    fn find(&self, text: &str) -> (RequestId, RequestInfo) {
        let (_, id, info) =
            self.requests.iter().find(|(name, ..)| name == text).expect("a request of the case");
        (*id, *info)
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Add(ms, list) => {
                for text in list.split(' ') {
                    let id = RequestId { index: self.requests.len() as u32, generation: 1 };
                    let info = parse(text);
                    self.elevator.insert(Time(ms * 1_000_000), id, &info);
                    self.requests.push((text.into(), id, info));
                }
            }
            Take(ms, expected) => self.take(ms, expected, false),
            Force(ms, expected) => self.take(ms, expected, true),
            Done(list) => {
                for text in list.split(' ') {
                    let (id, info) = self.find(text);
                    self.elevator.completed(Time(0), id, &info);
                }
            }
            Absorb(survivor, absorbed) => {
                let ((s, old), (a, gone)) = (self.find(survivor), self.find(absorbed));
                assert_eq!((old.end(), old.dir), (gone.pos, gone.dir), "a wrong test case");
                self.elevator.absorbed(s, a, &gone);
                self.elevator.merged(s, &old, &RequestInfo { len: old.len + gone.len, ..old });
            }
        }
    }

    fn take(&mut self, ms: u64, expected: &str, force: bool) {
        let mut one = || match self.elevator.dispatch(Time(ms * 1_000_000), force) {
            Some(id) => {
                self.requests.iter().find(|(_, known, _)| *known == id).expect("a known request").0.clone()
            }
            None => "-".into(),
        };
        let taken: Vec<String> = expected.split(' ').map(|_| one()).collect();
        assert_eq!(taken.join(" "), expected);
    }
}

#[test]
fn vectors() {
    for case in CASES {
        std::println!("{}", case.name);
        let mut runner = Runner { elevator: MqDeadline::default(), requests: Vec::new() };
        for &(name, value) in case.settings {
            runner.elevator.set(name, value).expect("a parameter in range");
        }
        case.steps.iter().for_each(|step| runner.step(step));
    }
}

#[test]
fn async_depth_bounds_the_writes_that_have_requests() {
    let mut runner = Runner { elevator: MqDeadline::default(), requests: Vec::new() };
    let may = |runner: &Runner, dir| runner.elevator.may_queue(Context::new(1), dir);
    runner.step(&Add(0, "W1 W2 W3"));
    assert_eq!(may(&runner, Dir::Write), MayQueue::May, "without a limit");
    runner.elevator.set("async_depth", 3).expect("in range");
    assert_eq!((may(&runner, Dir::Write), may(&runner, Dir::Read)), (MayQueue::No, MayQueue::May));
    runner.step(&Take(0, "W1"));
    assert_eq!(may(&runner, Dir::Write), MayQueue::No, "it is not done yet");
    runner.step(&Done("W1"));
    assert_eq!(may(&runner, Dir::Write), MayQueue::May);
}
