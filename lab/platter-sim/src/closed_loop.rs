//! A host for tests of models: keeps a fixed number of commands inside a disk.

use crate::model::{Command, Ended, Model};
use platter_block::bio::{IoPrio, Op};
use platter_block::time::{Span, Time};
use std::collections::HashMap;

/// A command at byte offset `at`.
pub(crate) fn command(op: Op, at: u64, len: u64) -> Command {
    Command {
        tag: 0,
        op,
        sector: at / 512,
        sectors: (len / 512) as u32,
        fua: false,
        ioprio: IoPrio::default(),
        order: 0,
    }
}

/// A host with a clock of its own.
pub(crate) struct Host<'m> {
    pub(crate) model: &'m mut dyn Model,
    pub(crate) now: Time,
    pub(crate) inside: HashMap<u32, Time>,
    tags: u32,
    ended: Vec<Ended>,
}

impl<'m> Host<'m> {
    pub(crate) fn new(model: &'m mut dyn Model) -> Host<'m> {
        Host { model, now: Time(0), inside: HashMap::new(), tags: 0, ended: Vec::new() }
    }

    /// Issues a command; panics if the disk does not take it.
    pub(crate) fn issue(&mut self, command: Command) {
        let tag = self.tags;
        self.tags += 1;
        assert!(self.model.accept(self.now, &Command { tag, ..command }), "the disk is full");
        self.inside.insert(tag, self.now);
    }

    /// Advances to the next event. Returns the commands that ended, with their times.
    pub(crate) fn step(&mut self) -> Vec<(Ended, Span)> {
        let next = self.model.next_event().expect("something is going on");
        assert!(next >= self.now, "time goes on");
        self.now = next;
        self.model.advance(self.now, &mut self.ended);
        let inside = &mut self.inside;
        let ended = self.ended.drain(..).map(|end| {
            let began = inside.remove(&end.tag).expect("each command ends once");
            (end, end.at.since(began))
        });
        ended.collect()
    }

    /// The time of one command on its own.
    pub(crate) fn one(&mut self, command: Command) -> Span {
        self.issue(command);
        loop {
            if let Some(&(end, time)) = self.step().first() {
                assert_eq!(end.at, self.now);
                return time;
            }
        }
    }

    /// Runs `count` commands with `depth` in flight. Returns the time that this took.
    pub(crate) fn run(&mut self, depth: usize, count: usize, mut next: impl FnMut() -> Command) -> Span {
        let began = self.now;
        let mut left = count;
        while left > 0 || !self.inside.is_empty() {
            while left > 0 && self.inside.len() < depth {
                self.issue(next());
                left -= 1;
            }
            self.step();
        }
        self.now.since(began)
    }

    /// Issues nothing for a while.
    pub(crate) fn wait(&mut self, span: Span) {
        self.settle();
        self.now += span;
    }

    /// Runs until the disk is idle.
    pub(crate) fn settle(&mut self) {
        while self.model.next_event().is_some() {
            self.step();
        }
    }
}
