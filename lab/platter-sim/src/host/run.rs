//! The host: its clock, and what starts, ends and waits on its processors.

use super::lock::Lock;
use super::processor::{Doing, Frame, Processor};
use super::{Contention, Effects, LockId, LockReport, Step, System, Usage, Who};
use crate::rng::Rng;
use platter_block::time::{Span, Time};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// What happens at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The step of a processor is over, if it has not turned to something else.
    Processor(usize, u64),
    /// Of the system.
    System(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thread {
    Sleeps,
    /// It runs or waits for a processor; `true`: it was woken meanwhile.
    Awake(bool),
    Ended,
}

/// Threads sleep, and nothing will wake them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stuck(pub usize);

impl std::error::Error for Stuck {}

impl std::fmt::Display for Stuck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} threads of the host sleep, and nothing will wake them", self.0)
    }
}

/// Processors, locks and a clock, and the system that runs on them.
pub struct Host<S> {
    system: S,
    now: Time,
    processors: Vec<Processor>,
    locks: Vec<Lock>,
    contention: Contention,
    rng: Rng,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    /// Numbers events, so that those of one time happen in the order in which they were made.
    made: u64,
    threads: Vec<Thread>,
    ready: VecDeque<usize>,
    /// Lines that are handled or wait at a processor: whether they were raised again.
    lines: Vec<Option<bool>>,
    /// The processor of the next interrupt.
    turn: usize,
    /// The processor that runs the bottom half, and whether one has it marked.
    bottom: Option<usize>,
    is_marked: bool,
    effects: Effects,
    started: Time,
    /// Processors that are to go on now.
    go_on: VecDeque<usize>,
}

impl<S: System> Host<S> {
    /// A host on which `threads` threads are about to start. `stages` are the number of stages, `locks` of locks, `lines` of
    /// interrupt lines; the seed decides which spinner gets a lock where that is random.
    ///
    /// # Panics
    /// There is no processor.
    pub fn new(
        system: S,
        (processors, threads): (usize, usize),
        (stages, locks, lines): (usize, usize, usize),
        (contention, seed): (Contention, u64),
    ) -> Host<S> {
        assert!(processors > 0, "a host needs a processor");
        let mut host = Host {
            system,
            now: Time(0),
            processors: (0..processors).map(|_| Processor::new(stages)).collect(),
            locks: (0..locks).map(|_| Lock::new()).collect(),
            contention,
            rng: Rng::new(seed),
            events: BinaryHeap::new(),
            made: 0,
            threads: vec![Thread::Sleeps; threads],
            ready: VecDeque::new(),
            lines: vec![None; lines],
            turn: 0,
            bottom: None,
            is_marked: false,
            effects: Effects::default(),
            started: Time(0),
            go_on: VecDeque::new(),
        };
        (0..threads).for_each(|thread| host.wake(thread));
        host.settle();
        host
    }

    /// The system.
    pub fn system(&self) -> &S {
        &self.system
    }

    /// The time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Time since [`Host::restart`], or since the beginning.
    pub fn elapsed(&self) -> Span {
        self.now.since(self.started)
    }

    /// Forgets what was measured, and measures from now on.
    pub fn restart(&mut self) {
        self.started = self.now;
        for processor in &mut self.processors {
            processor.account(self.now);
            processor.usage = Usage::new(processor.usage.stages.len());
        }
        self.locks.iter_mut().for_each(|lock| lock.restart(self.now));
    }

    /// What the time of all processors went to.
    pub fn usage(&mut self) -> Usage {
        let mut sum = Usage::new(self.processors.first().map_or(0, |each| each.usage.stages.len()));
        for processor in &mut self.processors {
            processor.account(self.now);
            sum.add(&processor.usage);
        }
        sum
    }

    /// How a lock was used.
    pub fn lock(&self, lock: LockId) -> &LockReport {
        &self.locks[lock.0].report
    }

    /// Whether every thread has ended.
    pub fn is_over(&self) -> bool {
        self.threads.iter().all(|thread| *thread == Thread::Ended)
    }

    /// Lets the host run until a condition holds, or every thread has ended.
    ///
    /// # Errors
    /// [`Stuck`]: no thread goes on any more.
    pub fn run_until(&mut self, mut until: impl FnMut(&S) -> bool) -> Result<(), Stuck> {
        while !self.is_over() && !until(&self.system) {
            let Some(Reverse((time, _, event))) = self.events.pop() else {
                let asleep = self.threads.iter().filter(|thread| **thread == Thread::Sleeps).count();
                return Err(Stuck(asleep));
            };
            self.now = time;
            match event {
                Event::Processor(at, turn) if self.processors[at].turn == turn => {
                    self.processors[at].account(time);
                    if let Some(frame) = self.processors[at].frames.last_mut() {
                        frame.doing = Doing::Next;
                    }
                    self.go_on.push_back(at);
                }
                Event::Processor(..) => continue,
                Event::System(event) => {
                    self.system.event(event, time, &mut self.effects);
                    self.take_effects(None);
                }
            }
            self.settle();
        }
        Ok(())
    }

    /// Lets processors go on until all are in a step, spin or have nothing to do.
    fn settle(&mut self) {
        while let Some(at) = self.go_on.pop_front().or_else(|| self.free_processor()) {
            self.go_on(at);
        }
    }

    /// A processor for a thread that waits for one: an idle one, otherwise one that tries again to run bottom halves.
    fn free_processor(&self) -> Option<usize> {
        let free = |marked: bool| {
            let is_free = |each: &Processor| each.frames.is_empty() && each.bottom == marked;
            self.processors.iter().position(is_free)
        };
        if self.ready.is_empty() { None } else { free(false).or_else(|| free(true)) }
    }

    /// Lets a processor do its most urgent thing, up to the next step that takes time.
    fn go_on(&mut self, at: usize) {
        loop {
            self.processors[at].account(self.now);
            self.processors[at].turn += 1;
            let leaves = std::mem::take(&mut self.processors[at].leaves);
            if self.enter_interrupt(at)
                || (leaves && self.enter_bottom(at))
                || self.enter_thread(at)
                || (self.processors[at].frames.is_empty() && self.enter_bottom(at))
            {
                continue;
            }
            let Some(frame) = self.processors[at].frames.last() else { return };
            match frame.doing {
                Doing::Spin => return,
                Doing::Run(_, left) | Doing::Fetch(left) => return self.announce(at, left),
                Doing::Next => {
                    if !self.step(at, frame.who) {
                        return;
                    }
                }
            }
        }
    }

    fn announce(&mut self, at: usize, left: Span) {
        let turn = self.processors[at].turn;
        self.push(self.now + left, Event::Processor(at, turn));
    }

    fn push(&mut self, time: Time, event: Event) {
        self.made += 1;
        self.events.push(Reverse((time.max(self.now), self.made, event)));
    }

    fn enter_interrupt(&mut self, at: usize) -> bool {
        let processor = &mut self.processors[at];
        if !processor.takes_interrupts() {
            return false;
        }
        let Some(line) = processor.lines.pop_front() else { return false };
        processor.frames.push(Frame::new(Who::Interrupt(line)));
        true
    }

    /// Starts the bottom half where it is marked, no interrupt runs and no processor is at it.
    fn enter_bottom(&mut self, at: usize) -> bool {
        let processor = &mut self.processors[at];
        let may = processor.bottom && processor.takes_interrupts() && !processor.runs_bottom();
        if !may || self.bottom.is_some() {
            return false;
        }
        (processor.bottom, self.is_marked, self.bottom) = (false, false, Some(at));
        processor.frames.push(Frame::new(Who::Bottom));
        true
    }

    fn enter_thread(&mut self, at: usize) -> bool {
        if !self.processors[at].frames.is_empty() {
            return false;
        }
        let Some(thread) = self.ready.pop_front() else { return false };
        self.processors[at].frames.push(Frame::new(Who::Thread(thread)));
        true
    }

    /// Makes the next step of what runs on a processor. Returns whether the processor can go on at once.
    fn step(&mut self, at: usize, who: Who) -> bool {
        let step = self.system.step(who, self.now, &mut self.effects);
        self.take_effects(Some(at));
        let Some(frame) = self.processors[at].frames.last_mut() else { return false };
        match step {
            Step::Run(_, Span(0)) => true,
            Step::Run(stage, span) => {
                frame.doing = Doing::Run(stage, span);
                true
            }
            Step::Lock(lock, caller) => {
                let has = self.locks[lock.0].take(self.now, at, caller);
                match has {
                    true => frame.locks += 1,
                    false => frame.doing = Doing::Spin,
                }
                has
            }
            Step::Unlock(lock) => {
                frame.locks -= 1;
                self.unlock(at, lock);
                true
            }
            Step::Sleep | Step::End => {
                self.leave(at, who, step == Step::End);
                true
            }
        }
    }

    fn unlock(&mut self, at: usize, lock: LockId) {
        let next = self.locks[lock.0].give_back(self.now, at, &self.contention, &mut self.rng);
        let Some((next, after)) = next else { return };
        self.processors[next].account(self.now);
        if let Some(frame) = self.processors[next].frames.last_mut() {
            frame.doing = if after == Span::ZERO { Doing::Next } else { Doing::Fetch(after) };
            frame.locks += 1;
        }
        self.go_on.push_back(next);
    }

    /// What runs on a processor sleeps or has ended.
    fn leave(&mut self, at: usize, who: Who, ends: bool) {
        match who {
            Who::Thread(thread) if ends => self.threads[thread] = Thread::Ended,
            Who::Thread(thread) if self.threads[thread] == Thread::Awake(true) => {
                self.threads[thread] = Thread::Awake(false);
                return;
            }
            Who::Thread(thread) => self.threads[thread] = Thread::Sleeps,
            Who::Interrupt(line) => {
                self.processors[at].leaves = true;
                if self.lines[line].take() == Some(true) {
                    self.lines[line] = Some(false);
                    self.processors[at].lines.push_back(line);
                }
            }
            Who::Bottom => {
                self.bottom = None;
                self.let_retry(at);
            }
        }
        self.processors[at].frames.pop();
    }

    /// The bottom half is free: a processor that has nothing else to do and has it marked runs it.
    fn let_retry(&mut self, but: usize) {
        let waits = |(at, each): &(usize, &Processor)| *at != but && each.bottom && each.frames.is_empty();
        let waiting: Vec<usize> =
            self.processors.iter().enumerate().filter(waits).map(|(at, _)| at).collect();
        if !waiting.is_empty() {
            self.go_on.push_back(self.rng.pick(&waiting));
        }
    }

    /// Carries out what a call of the system has asked for.
    fn take_effects(&mut self, at: Option<usize>) {
        let mut effects = std::mem::take(&mut self.effects);
        for (time, event) in effects.events.drain(..) {
            self.push(time, Event::System(event));
        }
        if std::mem::take(&mut effects.raised)
            && !self.is_marked
            && let Some(at) = at
        {
            (self.processors[at].bottom, self.is_marked) = (true, true);
        }
        effects.lines.drain(..).for_each(|line| self.interrupt(line));
        effects.woken.drain(..).for_each(|thread| self.wake(thread));
        self.effects = effects;
    }

    fn interrupt(&mut self, line: usize) {
        if let Some(again) = &mut self.lines[line] {
            *again = true;
            return;
        }
        self.lines[line] = Some(false);
        let at = self.turn;
        self.turn = (at + 1) % self.processors.len();
        self.processors[at].lines.push_back(line);
        if self.processors[at].takes_interrupts() {
            self.go_on.push_back(at);
        }
    }

    fn wake(&mut self, thread: usize) {
        match self.threads[thread] {
            Thread::Ended => {}
            Thread::Awake(_) => self.threads[thread] = Thread::Awake(true),
            Thread::Sleeps => {
                self.threads[thread] = Thread::Awake(false);
                self.ready.push_back(thread);
            }
        }
    }
}
