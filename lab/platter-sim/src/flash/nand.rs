//! Dies and channels: each die does one operation at a time, each channel moves data of one die at a time.

use super::event::Event;
use super::events::EventQueue;
use super::params::{SsdParams, UNIT};
use platter_block::time::{Span, Time};
use std::collections::VecDeque;

/// Reads that a die serves while other work waits, before it does that work.
const READS_AT_ONCE: u32 = 8;

/// An operation of a die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Job {
    /// Units of a row for a command that wants `bytes` of them.
    Read { command: u32, units: u32, bytes: u32 },
    /// Units of a row that a command changes in part.
    Fill { command: u32, units: u32 },
    /// Units of a row that are to be copied.
    Collect { block: u32, row: u32, units: u32 },
    /// A row.
    Program { batch: u32 },
    /// A block.
    Erase { block: u32 },
}

impl Job {
    /// Units that are read.
    fn units(self) -> Option<u32> {
        match self {
            Job::Read { units, .. } | Job::Fill { units, .. } | Job::Collect { units, .. } => Some(units),
            Job::Program { .. } | Job::Erase { .. } => None,
        }
    }
}

/// An operation, and whether it concerns a row of the cache.
type Work = (Job, bool);

#[derive(Debug, Default)]
struct Die {
    /// A command of the host waits for these.
    reads: VecDeque<Work>,
    work: VecDeque<Work>,
    now: Option<Work>,
    /// Reads since the last other work.
    streak: u32,
}

/// All dies and channels of a disk. Die `d` is at channel `d` modulo the channels.
#[derive(Debug)]
pub(super) struct Nand {
    dies: Vec<Die>,
    /// When each channel is free. Data is moved in the order in which it is ready.
    channels: Vec<Time>,
    /// Of a row, and of one of the cache.
    read: [Span; 2],
    program: [Span; 2],
    erase: Span,
    unit: Span,
    row: Span,
}

/// Time to move bytes, rounded up.
pub(super) fn time_of(bytes: u64, rate: u64) -> Span {
    let nanos = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(rate));
    Span(u64::try_from(nanos).unwrap_or(u64::MAX))
}

impl Nand {
    pub(super) fn new(params: &SsdParams, row_units: u32) -> Nand {
        Nand {
            dies: (0..params.channels * params.dies).map(|_| Die::default()).collect(),
            channels: vec![Time(0); params.channels as usize],
            read: [params.read, params.slc.read],
            program: [params.program, params.slc.program],
            erase: params.erase,
            unit: time_of(UNIT, params.channel_rate),
            row: time_of(UNIT * u64::from(row_units), params.channel_rate),
        }
    }

    /// Programs, erases and copies that wait for a die or are in progress.
    pub(super) fn backlog(&self, die: u32) -> usize {
        let die = &self.dies[die as usize];
        die.work.len() + usize::from(die.now.is_some_and(|(job, _)| job.units().is_none()))
    }

    pub(super) fn push(&mut self, now: Time, die: u32, work: Work, events: &mut EventQueue<Event>) {
        let to = &mut self.dies[die as usize];
        match work.0 {
            Job::Read { .. } | Job::Fill { .. } => to.reads.push_back(work),
            Job::Collect { .. } | Job::Program { .. } | Job::Erase { .. } => to.work.push_back(work),
        }
        self.start(now, die, events);
    }

    /// Begins the next operation if the die is free.
    fn start(&mut self, now: Time, die: u32, events: &mut EventQueue<Event>) {
        let at = &mut self.dies[die as usize];
        if at.now.is_some() {
            return;
        }
        let work_first = at.streak >= READS_AT_ONCE && !at.work.is_empty();
        let read = if work_first { None } else { at.reads.pop_front() };
        at.streak = if read.is_some() { at.streak + 1 } else { 0 };
        let Some((job, cache)) = read.or_else(|| at.work.pop_front()) else { return };
        at.now = Some((job, cache));
        match job {
            Job::Program { .. } => {
                let moved = self.move_data(now, die, self.row);
                events.plan(moved + self.program[usize::from(cache)], Event::Done(die));
            }
            Job::Erase { .. } => events.plan(now + self.erase, Event::Done(die)),
            _ => events.plan(now + self.read[usize::from(cache)], Event::Sensed(die)),
        }
    }

    fn move_data(&mut self, now: Time, die: u32, span: Span) -> Time {
        let count = self.channels.len();
        let free = &mut self.channels[die as usize % count];
        *free = now.max(*free) + span;
        *free
    }

    /// A row is in the die's register: it is moved over the channel and occupies the die until then.
    pub(super) fn sensed(&mut self, now: Time, die: u32, events: &mut EventQueue<Event>) {
        let units = self.dies[die as usize].now.and_then(|(job, _)| job.units()).unwrap_or(0);
        let moved = self.move_data(now, die, Span(self.unit.0 * u64::from(units)));
        events.plan(moved, Event::Done(die));
    }

    /// A die has finished an operation, and begins the next.
    pub(super) fn done(&mut self, now: Time, die: u32, events: &mut EventQueue<Event>) -> Option<Job> {
        let work = self.dies[die as usize].now.take();
        self.start(now, die, events);
        work.map(|(job, _)| job)
    }
}
