//! Tests the contract of elevators: a driver plays the queue, makes random moves, keeps its own records and
//! reports what an elevator did wrong.

use platter_block::bio::{Class, Context, IoPrio, Op};
use platter_block::elevator::{Dir, Elevator, RequestId, RequestInfo};
use platter_block::time::{Span, Time};
use proptest::prelude::*;

/// Most requests at once.
const PLACES: usize = 48;
const PAGE: u64 = 4096;

/// A move of the queue. Numbers that select a request count the requests that qualify, modulo their number.
#[derive(Clone, Debug)]
pub(crate) enum Move {
    /// A new request of `pages` at `page`.
    Insert { read: bool, sync: bool, page: u64, pages: u64, context: u32, class: Class, level: u8 },
    /// Asks for a request.
    Dispatch { force: bool },
    /// A dispatched request completes.
    Complete(usize),
    /// A queued request absorbs the one that follows it on the disk, if there is one.
    Absorb(usize),
    /// A bio joins a queued request.
    Grow { request: usize, pages: u64, front: bool },
    /// This many microseconds pass.
    Wait(u64),
    /// Sets a parameter to its default, smallest, largest or middle value.
    Set { param: usize, choice: u8 },
    /// A process exits, even if it has requests in flight.
    Exit(u32),
}

fn class() -> impl Strategy<Value = Class> {
    prop_oneof![
        6 => Just(Class::None),
        2 => Just(Class::BestEffort),
        1 => Just(Class::RealTime),
        1 => Just(Class::Idle),
    ]
}

fn insert() -> impl Strategy<Value = Move> {
    // Few pages, so that requests often touch, overlap or coincide.
    (any::<bool>(), any::<bool>(), 4..100u64, 1..4u64, 0..4u32, class(), 0..8u8).prop_map(
        |(read, sync, page, pages, context, class, level)| Move::Insert {
            read,
            sync: sync || read,
            page,
            pages,
            context,
            class,
            level,
        },
    )
}

/// A sequence of moves.
pub(crate) fn moves() -> impl Strategy<Value = Vec<Move>> {
    let any_move = prop_oneof![
        10 => insert(),
        6 => any::<bool>().prop_map(|force| Move::Dispatch { force }),
        5 => any::<usize>().prop_map(Move::Complete),
        3 => any::<usize>().prop_map(Move::Absorb),
        2 => (any::<usize>(), 1..3u64, any::<bool>())
            .prop_map(|(request, pages, front)| Move::Grow { request, pages, front }),
        3 => prop_oneof![0..200u64, 0..8_000u64, 0..3_000_000u64].prop_map(Move::Wait),
        1 => (any::<usize>(), any::<u8>()).prop_map(|(param, choice)| Move::Set { param, choice }),
        1 => (0..4u32).prop_map(Move::Exit),
    ];
    prop::collection::vec(any_move, 0..400)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Queued,
    Started,
}

struct Place {
    generation: u32,
    state: State,
    info: RequestInfo,
}

/// Plays the queue for one elevator.
pub(crate) struct Driver {
    elevator: Box<dyn Elevator>,
    now: Time,
    places: Vec<Place>,
    free: Vec<usize>,
}

/// `Err` describes what the elevator did wrong.
pub(crate) type Verdict<T = ()> = Result<T, String>;

impl Driver {
    /// A driver for a fresh elevator.
    pub(crate) fn new(mut elevator: Box<dyn Elevator>) -> Driver {
        elevator.reserve(PLACES);
        let info = RequestInfo {
            pos: 0,
            len: 0,
            dir: Dir::Read,
            op: Op::Read,
            sync: true,
            ioprio: IoPrio::NONE,
            context: Context::new(0),
        };
        let places = (0..PLACES).map(|_| Place { generation: 1, state: State::Free, info }).collect();
        Driver { elevator, now: Time(1), places, free: (0..PLACES).rev().collect() }
    }

    /// Makes all moves, then drains the elevator: by force, or by waking it when it asks.
    pub(crate) fn play(&mut self, moves: &[Move], force: bool) -> Verdict {
        for one in moves {
            self.make(one)?;
            self.check_len()?;
        }
        self.drain(force)
    }

    fn id(&self, place: usize) -> RequestId {
        RequestId { index: place as u32, generation: self.places[place].generation }
    }

    fn in_state(&self, state: State) -> Vec<usize> {
        (0..PLACES).filter(|&place| self.places[place].state == state).collect()
    }

    fn pick(&self, state: State, number: usize) -> Option<usize> {
        let all = self.in_state(state);
        all.get(number.checked_rem(all.len())?).copied()
    }

    fn check_len(&self) -> Verdict {
        let (queued, len) = (self.in_state(State::Queued).len(), self.elevator.len());
        if len != queued || self.elevator.is_empty() != (queued == 0) {
            return Err(format!("len() is {len} with {queued} requests queued"));
        }
        Ok(())
    }

    fn make(&mut self, one: &Move) -> Verdict {
        match *one {
            Move::Insert { read, sync, page, pages, context, class, level } => {
                self.insert(RequestInfo {
                    pos: page * PAGE,
                    len: pages * PAGE,
                    dir: if read { Dir::Read } else { Dir::Write },
                    op: if read { Op::Read } else { Op::Write },
                    sync,
                    ioprio: IoPrio::new(class, level),
                    context: Context::new(context),
                });
                Ok(())
            }
            Move::Dispatch { force } => self.take(force).map(|_| ()),
            Move::Complete(number) => {
                self.complete(number);
                Ok(())
            }
            Move::Absorb(number) => {
                self.absorb(number);
                Ok(())
            }
            Move::Grow { request, pages, front } => {
                self.grow(request, pages * PAGE, front);
                Ok(())
            }
            Move::Wait(us) => {
                self.now += Span::from_micros(us);
                Ok(())
            }
            Move::Set { param, choice } => self.set(param, choice),
            Move::Exit(process) => {
                self.elevator.exited(self.now, Context::new(process));
                Ok(())
            }
        }
    }

    fn insert(&mut self, info: RequestInfo) {
        let Some(place) = self.free.pop() else { return };
        self.places[place].state = State::Queued;
        self.places[place].info = info;
        self.elevator.insert(self.now, self.id(place), &info);
    }

    fn release(&mut self, place: usize) {
        self.places[place].state = State::Free;
        self.places[place].generation += 1;
        self.free.push(place);
    }

    fn complete(&mut self, number: usize) {
        let Some(place) = self.pick(State::Started, number) else { return };
        let info = self.places[place].info;
        self.elevator.completed(self.now, self.id(place), &info);
        self.release(place);
    }

    fn absorb(&mut self, number: usize) {
        let Some(survivor) = self.pick(State::Queued, number) else { return };
        let old = self.places[survivor].info;
        let follows = |&place: &usize| {
            let info = &self.places[place].info;
            place != survivor
                && info.pos == old.end()
                && (info.dir, info.sync, info.ioprio) == (old.dir, old.sync, old.ioprio)
                && self.elevator.allow_merge(self.id(survivor), &old, info)
                && self.elevator.allow_join(self.id(survivor), self.id(place))
        };
        let Some(absorbed) = self.in_state(State::Queued).into_iter().find(follows) else { return };
        let gone = self.places[absorbed].info;
        let new = RequestInfo { len: old.len + gone.len, ..old };
        self.elevator.absorbed(self.id(survivor), self.id(absorbed), &gone);
        self.elevator.merged(self.id(survivor), &old, &new);
        self.places[survivor].info = new;
        self.release(absorbed);
    }

    fn grow(&mut self, number: usize, bytes: u64, front: bool) {
        let Some(place) = self.pick(State::Queued, number) else { return };
        let old = self.places[place].info;
        let pos = if front { old.pos.saturating_sub(bytes) } else { old.end() };
        let len = if front { old.pos - pos } else { bytes };
        let bio = RequestInfo { pos, len, ..old };
        if len == 0 || front && !self.elevator.front_merges() {
            return;
        }
        if self.elevator.allow_merge(self.id(place), &old, &bio) {
            let new = RequestInfo { pos: old.pos.min(pos), len: old.len + len, ..old };
            self.elevator.merged(self.id(place), &old, &new);
            self.places[place].info = new;
        }
    }

    fn set(&mut self, param: usize, choice: u8) -> Verdict {
        let params = self.elevator.params();
        let Some(p) = param.checked_rem(params.len()).map(|at| &params[at]) else { return Ok(()) };
        let value = [p.default, p.min, p.max, p.min + (p.max - p.min) / 2][usize::from(choice) % 4];
        self.elevator.set(p.name, value).map_err(|error| format!("a value in range was refused: {error}"))?;
        match self.elevator.get(p.name) {
            Some(now) if now == value => Ok(()),
            now => Err(format!("{} is {now:?} after it was set to {value}", p.name)),
        }
    }

    /// Asks for a request and checks the answer against the records.
    fn take(&mut self, force: bool) -> Verdict<bool> {
        let Some(id) = self.elevator.dispatch(self.now, force) else {
            return self.judge_none(force).map(|()| false);
        };
        let Some(place) = self.places.get_mut(id.index as usize) else {
            return Err(format!("dispatched {id:?}, which is no place in the table"));
        };
        match place.state {
            _ if place.generation != id.generation => Err(format!("dispatched {id:?}, which is not known")),
            State::Free => Err(format!("dispatched {id:?}, which is not queued")),
            State::Started => Err(format!("dispatched {id:?} twice")),
            State::Queued => {
                place.state = State::Started;
                Ok(true)
            }
        }
    }

    fn judge_none(&self, force: bool) -> Verdict {
        let queued = self.in_state(State::Queued).len();
        if queued == 0 {
            return Ok(());
        }
        if force {
            return Err(format!("gave nothing by force with {queued} requests queued"));
        }
        match self.elevator.next_wakeup() {
            Some(time) if time <= self.now => {
                Err(format!("waits for {time:?}, which is past ({:?})", self.now))
            }
            None if self.in_state(State::Started).is_empty() => {
                Err(format!("waits for nothing with {queued} requests queued"))
            }
            _ => Ok(()),
        }
    }

    fn drain(&mut self, force: bool) -> Verdict {
        for _ in 0..PLACES * 100 {
            if self.in_state(State::Queued).is_empty() {
                return self.finish();
            }
            if self.take(force)? {
                self.check_len()?;
            } else if !self.in_state(State::Started).is_empty() {
                self.complete(0);
            } else if let Some(time) = self.elevator.next_wakeup() {
                self.now = self.now.max(time);
            }
        }
        Err(format!("still has {} requests after waiting for everything it wanted", self.elevator.len()))
    }

    fn finish(&mut self) -> Verdict {
        while !self.in_state(State::Started).is_empty() {
            self.complete(0);
        }
        self.take(true)?;
        self.check_len()
    }
}
