//! Test vectors: when requests arrive, and in which order and when they leave.
//!
//! A request is written as process, kind and first sector, followed by length and priority if they are not
//! the defaults: `1R100` is a read of process 1 at sector 100, 8 sectors long; `2W64+16` an asynchronous
//! write of 16 sectors; `3S64` a synchronous write; `1R8@6` has level 6 of best effort, `@r0` level 0 of real
//! time, `@i` the idle class. Process 123 is of group 12 and user 1.

use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};
use platter_block::bio::{Class, Context, IoPrio, Op};
use platter_block::elevator::{Dir, Elevator, MayQueue, RequestId, RequestInfo};
use platter_block::time::{Span, Time};

/// A step of a test. Numbers are times in milliseconds unless stated otherwise.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// These requests arrive.
    Add(u64, &'static str),
    /// The elevator is asked for as many requests as given and returns these; `-` is none.
    Take(u64, &'static str),
    /// The same with `force`.
    Force(u64, &'static str),
    /// These requests complete.
    Done(u64, &'static str),
    /// These requests are taken and complete, one after the other, a millisecond each.
    Serve(u64, &'static str),
    /// The elevator's next wake-up.
    Wake(Option<u64>),
    /// The answer to whether a process may have another request.
    May(u32, Dir, MayQueue),
    /// Whether the second request, as a bio, may join the first, which is queued.
    Joins(&'static str, &'static str, bool),
    /// The first absorbs the second, which follows it.
    Absorb(&'static str, &'static str),
    /// The first grows into the second.
    Grow(&'static str, &'static str),
    /// A process exits.
    Exit(u64, u32),
    /// A parameter is set.
    Set(&'static str, i64),
}

/// The steps of a test on a fresh elevator.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) steps: &'static [Step],
}

/// Runs all cases.
pub(crate) fn play<E: Elevator>(cases: &[Case], make: impl Fn() -> E) {
    for case in cases {
        let mut runner = Runner { case: case.name, ..Runner::new(make()) };
        case.steps.iter().for_each(|step| runner.step(step));
    }
}

/// A point in time.
pub(crate) fn ms(ms: u64) -> Time {
    Time(0) + Span::from_millis(ms)
}

/// The context of a process.
pub(crate) fn context(process: u32) -> Context {
    Context::new(process).in_group(process / 10).of_user(process / 100)
}

fn priority(text: &str) -> IoPrio {
    let (class, level) = match text.split_at(text.len().min(1)) {
        ("", _) => return IoPrio::NONE,
        ("i", _) => (Class::Idle, "7"),
        ("r", level) => (Class::RealTime, level),
        _ => (Class::BestEffort, text),
    };
    IoPrio::new(class, level.parse().expect("a level"))
}

/// Parses the text of a request.
pub(crate) fn parse(text: &str) -> RequestInfo {
    let (text, prio) = text.split_once('@').unwrap_or((text, ""));
    let kind = text.find(|c: char| !c.is_ascii_digit()).expect("a kind");
    let (process, rest) = text.split_at(kind);
    let (kind, range) = rest.split_at(1);
    let (start, len) = range.split_once('+').unwrap_or((range, "8"));
    let number = |text: &str| text.parse::<u64>().expect("a number");
    RequestInfo {
        pos: number(start) * 512,
        len: number(len) * 512,
        dir: if kind == "R" { Dir::Read } else { Dir::Write },
        op: if kind == "R" { Op::Read } else { Op::Write },
        sync: kind != "W",
        ioprio: priority(prio),
        context: context(process.parse().expect("a process")),
    }
}

/// An elevator and the requests it was given.
pub(crate) struct Runner<E> {
    pub(crate) elevator: E,
    /// Name of the case, for messages.
    case: &'static str,
    /// By index: the text, and whether the request has completed or was absorbed.
    requests: Vec<(String, RequestInfo, bool)>,
}

impl<E: Elevator> Runner<E> {
    pub(crate) fn new(elevator: E) -> Runner<E> {
        Runner { elevator, case: "", requests: vec![] }
    }

    fn id(index: usize) -> RequestId {
        RequestId { index: index as u32, generation: 1 }
    }

    fn find(&self, text: &str) -> usize {
        let same = |(name, _, gone): &(String, RequestInfo, bool)| !gone && name == text;
        self.requests.iter().position(same).expect("a request of the case")
    }

    pub(crate) fn add(&mut self, now: Time, text: &str) {
        let (id, info) = (Self::id(self.requests.len()), parse(text));
        self.elevator.insert(now, id, &info);
        self.requests.push((text.into(), info, false));
    }

    pub(crate) fn take(&mut self, now: Time, force: bool) -> String {
        let taken = self.elevator.dispatch(now, force);
        taken.map_or("-".into(), |id| self.requests[id.index as usize].0.clone())
    }

    pub(crate) fn done(&mut self, now: Time, text: &str) {
        let at = self.find(text);
        self.requests[at].2 = true;
        let info = self.requests[at].1;
        self.elevator.completed(now, Self::id(at), &info);
    }

    fn take_all(&mut self, at: u64, expected: &str, force: bool) {
        let taken: Vec<String> = expected.split(' ').map(|_| self.take(ms(at), force)).collect();
        assert_eq!(taken.join(" "), expected, "{}: at {at} ms", self.case);
    }

    fn grow(&mut self, at: usize, text: &str, new: RequestInfo) {
        let old = core::mem::replace(&mut self.requests[at].1, new);
        self.requests[at].0 = text.into();
        self.elevator.merged(Self::id(at), &old, &new);
    }

    pub(crate) fn step(&mut self, step: &Step) {
        match *step {
            Step::Add(at, list) => list.split(' ').for_each(|text| self.add(ms(at), text)),
            Step::Take(at, expected) => self.take_all(at, expected, false),
            Step::Force(at, expected) => self.take_all(at, expected, true),
            Step::Done(at, list) => list.split(' ').for_each(|text| self.done(ms(at), text)),
            Step::Serve(at, list) => {
                for (at, text) in (at..).zip(list.split(' ')) {
                    self.take_all(at, text, false);
                    self.done(ms(at + 1), text);
                }
            }
            Step::Wake(at) => assert_eq!(self.elevator.next_wakeup(), at.map(ms), "{}", self.case),
            Step::May(process, dir, answer) => {
                assert_eq!(
                    self.elevator.may_queue(context(process), dir),
                    answer,
                    "{}: {process}",
                    self.case
                );
            }
            Step::Joins(request, bio, answer) => {
                let at = self.find(request);
                let allowed = self.elevator.allow_merge(Self::id(at), &self.requests[at].1, &parse(bio));
                assert_eq!(allowed, answer, "{}: {bio} joins {request}", self.case);
            }
            Step::Absorb(survivor, absorbed) => {
                let (s, a) = (self.find(survivor), self.find(absorbed));
                let (old, gone) = (self.requests[s].1, self.requests[a].1);
                assert_eq!(old.end(), gone.pos, "a wrong test case");
                self.elevator.absorbed(Self::id(s), Self::id(a), &gone);
                self.requests[a].2 = true;
                let len = old.len + gone.len;
                let text = format!("{}+{}", survivor.split('+').next().expect("a part"), len / 512);
                self.grow(s, &text, RequestInfo { len, ..old });
            }
            Step::Grow(from, to) => self.grow(self.find(from), to, parse(to)),
            Step::Exit(at, process) => self.elevator.exited(ms(at), context(process)),
            Step::Set(name, value) => self.elevator.set(name, value).expect("a parameter in range"),
        }
    }
}
