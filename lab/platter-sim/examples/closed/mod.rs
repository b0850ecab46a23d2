//! A flash disk with a fixed number of commands inside it, in virtual time.

use platter_block::bio::{IoPrio, Op};
use platter_block::time::{Span, Time};
use platter_sim::catalogue::{self, Kind};
use platter_sim::flash::{Ssd, SsdParams};
use platter_sim::model::{Command, Model};
use std::collections::HashMap;

/// A disk and its time.
pub(crate) struct Bed {
    pub(crate) ssd: Ssd,
    pub(crate) now: Time,
    inside: HashMap<u32, (Op, Time)>,
    tags: u32,
}

/// What a run has shown.
pub(crate) struct Seen {
    pub(crate) count: u64,
    pub(crate) time: Span,
    /// The longest time without an end of any command.
    pub(crate) gap: Span,
    /// How long each read took.
    #[allow(dead_code, reason = "not all users look at it")]
    pub(crate) reads: Vec<Span>,
}

impl Seen {
    /// Commands a second.
    pub(crate) fn rate(&self) -> u64 {
        self.count * 1_000_000_000 / self.time.0
    }
}

/// The parameters of a flash disk of the catalogue.
pub(crate) fn params(name: &str) -> SsdParams {
    match catalogue::by_name(name).map(|row| row.kind) {
        Some(Kind::Flash(params)) => params(),
        _ => panic!("{name} is no flash disk of the catalogue"),
    }
}

/// A command at byte `at`.
pub(crate) fn command(op: Op, at: u64, bytes: u64) -> Command {
    let (sector, sectors) = (at / 512, (bytes / 512) as u32);
    Command { tag: 0, op, sector, sectors, fua: false, ioprio: IoPrio::default(), order: 0 }
}

impl Bed {
    pub(crate) fn new(params: SsdParams) -> Bed {
        let ssd = Ssd::new(params).expect("a disk can have these parameters");
        Bed { ssd, now: Time(0), inside: HashMap::new(), tags: 0 }
    }

    /// Runs `count` commands, `depth` at a time. `next` gets the number of reads that are inside.
    pub(crate) fn run(&mut self, depth: usize, count: u64, mut next: impl FnMut(usize) -> Command) -> Seen {
        let (began, mut last, mut gap, mut sent) = (self.now, self.now, Span(0), 0);
        let (mut ended, mut reads, mut reading) = (Vec::new(), Vec::new(), 0);
        while sent < count || !self.inside.is_empty() {
            while sent < count && self.inside.len() < depth {
                let command = Command { tag: self.tags, ..next(reading) };
                assert!(self.ssd.accept(self.now, &command), "the depth is below that of the disk");
                self.inside.insert(self.tags, (command.op, self.now));
                reading += usize::from(command.op == Op::Read);
                self.tags += 1;
                sent += 1;
            }
            self.now = self.ssd.next_event().expect("commands are inside");
            self.ssd.advance(self.now, &mut ended);
            for end in ended.drain(..) {
                let (op, began) = self.inside.remove(&end.tag).expect("a command ends once");
                gap = gap.max(end.at.since(last));
                last = end.at;
                if op == Op::Read {
                    reads.push(end.at.since(began));
                    reading -= 1;
                }
            }
        }
        Seen { count, time: last.since(began), gap, reads }
    }

    /// Nothing is asked of the disk for a while.
    #[allow(dead_code, reason = "not all users need it")]
    pub(crate) fn idle(&mut self, span: Span) {
        self.now += span;
    }
}
