//! Test vectors of elevators: when requests arrive, and in which order they leave.
//!
//! Requests are written as an optional process and a colon, a letter (`R` read, `W` write, `S` synchronous
//! write), the first sector, and (if it is not 8) `+` and the number of sectors: `R100`, `b:W64+16`. Without
//! a process they are of process `a`. Times are in milliseconds.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use platter_block::bio::{Context, IoPrio, Op};
use platter_block::elevator::{Dir, Elevator, RequestId, RequestInfo};
use platter_block::time::Time;

#[derive(Debug)]
pub(super) enum Step {
    /// These requests arrive.
    Add(u64, &'static str),
    /// The elevator is asked for as many requests as given and returns these; `-` is none.
    Take(u64, &'static str),
    /// These dispatched requests complete.
    Done(u64, &'static str),
    /// Each request is asked for at this time, returned (`-`: not) and completed at once.
    Serve(u64, &'static str),
    /// The first request grows by a bio, which the elevator allows, into the second one.
    Grow(&'static str, &'static str),
    /// The elevator does not allow that merge.
    Refuse(&'static str, &'static str),
    /// The first request absorbs the second, which follows it.
    Absorb(&'static str, &'static str),
    /// The process exits.
    Exit(u64, char),
    /// The elevator's next wake-up.
    Wake(Option<u64>),
    /// A parameter is set.
    Set(&'static str, i64),
}

struct Known {
    name: String,
    id: RequestId,
    info: RequestInfo,
}

pub(super) struct Runner<E> {
    pub(super) elevator: E,
    known: Vec<Known>,
}

pub(super) fn at(ms: u64) -> Time {
    Time(ms * 1_000_000)
}

pub(super) fn process(letter: char) -> Context {
    Context::new(letter as u32)
}

pub(super) fn parse(text: &str) -> RequestInfo {
    let (owner, text) = text.split_once(':').unwrap_or(("a", text));
    let (letter, range) = text.split_at(1);
    let (pos, len) = range.split_once('+').unwrap_or((range, "8"));
    let number = |text: &str| text.parse::<u64>().expect("a number");
    RequestInfo {
        pos: number(pos) * 512,
        len: number(len) * 512,
        dir: if letter == "R" { Dir::Read } else { Dir::Write },
        op: if letter == "R" { Op::Read } else { Op::Write },
        sync: letter != "W",
        ioprio: IoPrio::NONE,
        context: process(owner.chars().next().expect("a letter")),
    }
}

impl<E: Elevator> Runner<E> {
    pub(super) fn new(elevator: E) -> Runner<E> {
        Runner { elevator, known: Vec::new() }
    }

    /// The last request of this name.
    fn find(&self, name: &str) -> usize {
        self.known.iter().rposition(|known| known.name == name).unwrap_or_else(|| panic!("no request {name}"))
    }

    pub(super) fn run(&mut self, steps: &[Step]) {
        steps.iter().for_each(|step| self.step(step));
    }

    pub(super) fn step(&mut self, step: &Step) {
        match *step {
            Step::Add(ms, list) => list.split(' ').for_each(|name| self.add(ms, name)),
            Step::Take(ms, list) => {
                let taken: Vec<String> = list.split(' ').map(|_| self.take(ms)).collect();
                assert_eq!(taken.join(" "), list, "at {ms} ms");
            }
            Step::Done(ms, list) => list.split(' ').for_each(|name| self.done(ms, name)),
            Step::Serve(ms, list) => {
                for name in list.split(' ') {
                    assert_eq!(self.take(ms), name, "of {list} at {ms} ms");
                    if name != "-" {
                        self.done(ms, name);
                    }
                }
            }
            Step::Grow(from, to) => self.grow(from, to),
            Step::Refuse(from, to) => assert!(!self.may_grow(from, to), "{from} may become {to}"),
            Step::Absorb(survivor, absorbed) => self.absorb(survivor, absorbed),
            Step::Exit(ms, letter) => self.elevator.exited(at(ms), process(letter)),
            Step::Wake(ms) => assert_eq!(self.elevator.next_wakeup(), ms.map(at)),
            Step::Set(name, value) => self.elevator.set(name, value).expect("a parameter in range"),
        }
    }

    fn add(&mut self, ms: u64, name: &str) {
        let id = RequestId { index: self.known.len() as u32, generation: 1 };
        let info = parse(name);
        self.elevator.insert(at(ms), id, &info);
        self.known.push(Known { name: name.to_string(), id, info });
    }

    fn take(&mut self, ms: u64) -> String {
        let Some(id) = self.elevator.dispatch(at(ms), false) else { return "-".into() };
        self.known.iter().find(|known| known.id == id).expect("a known request").name.clone()
    }

    fn done(&mut self, ms: u64, name: &str) {
        let Known { id, info, .. } = self.known[self.find(name)];
        self.elevator.completed(at(ms), id, &info);
    }

    fn may_grow(&self, from: &str, to: &str) -> bool {
        let (Known { id, info, .. }, new) = (&self.known[self.find(from)], parse(to));
        let pos = if new.pos < info.pos { new.pos } else { info.end() };
        let bio = RequestInfo { pos, len: new.len - info.len, ..*info };
        self.elevator.allow_merge(*id, info, &bio)
    }

    fn grow(&mut self, from: &str, to: &str) {
        assert!(self.may_grow(from, to), "{from} may not become {to}");
        let place = self.find(from);
        self.turn_into(place, to, parse(to));
    }

    fn absorb(&mut self, survivor: &str, absorbed: &str) {
        let (at, gone) = (self.find(survivor), self.find(absorbed));
        let (old, gone_info) = (self.known[at].info, self.known[gone].info);
        assert_eq!((old.end(), old.dir), (gone_info.pos, gone_info.dir), "a wrong test case");
        self.elevator.absorbed(self.known[at].id, self.known[gone].id, &gone_info);
        let new = RequestInfo { len: old.len + gone_info.len, ..old };
        let start = survivor.split('+').next().expect("a start");
        self.turn_into(at, &alloc::format!("{start}+{}", new.len / 512), new);
    }

    fn turn_into(&mut self, place: usize, name: &str, new: RequestInfo) {
        let known = &mut self.known[place];
        self.elevator.merged(known.id, &known.info, &new);
        (known.name, known.info) = (name.to_string(), new);
    }
}
