//! Several inputs as one, in the order of time.
//!
//! Inputs are merged by the time of their next record. What is still out of order is sorted within a window of
//! [`WINDOW`] records; a record that comes later than that is an error.

use crate::error::{Place, TraceError};
use crate::event::{Action, Event, Item, Note};
use crate::format::{Clock, Format};
use crate::source::{Skipped, Source};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io::BufRead;

/// Records within which times may be out of order.
pub const WINDOW: usize = 1 << 16;

/// An input: what it is called, and its format and reader.
pub struct Input<'r> {
    name: String,
    format: Format,
    clock: Clock,
    source: Box<dyn Source + 'r>,
    /// The next record, and its time.
    head: Option<Item>,
    time_ns: u64,
    ended: bool,
}

impl<'r> Input<'r> {
    /// An input that is read from `reader`; messages call it `name`.
    pub fn new<R: BufRead + 'r>(name: &str, format: Format, reader: R) -> Input<'r> {
        let (clock, source) = (format.holds().clock, format.read(reader, name));
        Input { name: name.to_owned(), format, clock, source, head: None, time_ns: 0, ended: false }
    }

    fn advance(&mut self) -> Result<(), TraceError> {
        self.head = None;
        match self.source.next() {
            Ok(Some(item)) => {
                match &item {
                    Item::Event(event) => self.time_ns = event.time_ns,
                    Item::Note(Note::Message { time_ns, .. }) => self.time_ns = *time_ns,
                    // Without a time: in its place.
                    Item::Note(_) => {}
                }
                self.head = Some(item);
                Ok(())
            }
            Ok(None) => {
                self.ended = true;
                Ok(())
            }
            Err(error) => {
                self.ended = error.is_end;
                Err(error)
            }
        }
    }
}

/// What was wrong with the inputs and passed over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Records that could not be read, or came too late.
    pub records: u64,
    /// Inputs that were not read to their end.
    pub inputs: u64,
    /// The first error.
    pub first: Option<TraceError>,
}

/// Several inputs as one.
pub struct Merged<'r> {
    inputs: Vec<Input<'r>>,
    /// Times of heads, with the number of their input.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    /// Inputs whose next record is not read yet.
    due: Vec<usize>,
    window: VecDeque<(u64, Item)>,
    /// The time of the last record that was given.
    given_ns: u64,
    /// Records that were out of order.
    disorder: u64,
    keeps_going: bool,
    passed: Passed,
}

impl<'r> Merged<'r> {
    /// Merges inputs. With `keeps_going`, what cannot be read is counted and passed over.
    ///
    /// # Errors
    /// Their times do not have the same start.
    pub fn new(inputs: Vec<Input<'r>>, keeps_going: bool) -> Result<Merged<'r>, TraceError> {
        if let Some(other) = inputs.iter().find(|input| input.clock != inputs[0].clock) {
            let problem =
                format!("its times do not begin where those of {} begin; convert it first", inputs[0].name);
            return Err(TraceError::new(&other.name, Place::Whole, problem, true));
        }
        let due = (0..inputs.len()).rev().collect();
        Ok(Merged {
            inputs,
            heads: BinaryHeap::new(),
            due,
            window: VecDeque::new(),
            given_ns: 0,
            disorder: 0,
            keeps_going,
            passed: Passed::default(),
        })
    }

    /// Where times begin.
    pub fn clock(&self) -> Clock {
        self.inputs.first().map_or(Clock::Start, |input| input.clock)
    }

    fn wrong(&mut self, error: TraceError) -> Result<(), TraceError> {
        if !self.keeps_going {
            return Err(error);
        }
        self.passed.records += 1;
        self.passed.inputs += u64::from(error.is_end);
        self.passed.first.get_or_insert(error);
        Ok(())
    }

    /// Puts the next record of the inputs into the window; `false` when there is none.
    fn take(&mut self) -> Result<bool, TraceError> {
        while let Some(&number) = self.due.last() {
            let input = &mut self.inputs[number];
            let advanced = input.advance();
            if input.head.is_some() || input.ended {
                self.due.pop();
            }
            if input.head.is_some() {
                self.heads.push(Reverse((input.time_ns, number)));
            }
            if let Err(error) = advanced {
                self.wrong(error)?;
            }
        }
        let Some(Reverse((time, number))) = self.heads.pop() else { return Ok(false) };
        self.due.push(number);
        let Some(item) = self.inputs[number].head.take() else { return Ok(true) };
        if time < self.given_ns {
            let problem = format!(
                "its time, {time} ns, is before that of more than {WINDOW} records in front of it; sort the trace by time"
            );
            let (name, place) = (self.inputs[number].name.clone(), self.inputs[number].source.place());
            self.wrong(TraceError::new(&name, place, problem, false))?;
            return Ok(true);
        }
        if self.window.back().is_none_or(|last| last.0 <= time) {
            self.window.push_back((time, item));
        } else {
            self.disorder += 1;
            let at = self.window.partition_point(|before| before.0 <= time);
            self.window.insert(at, (time, item));
        }
        Ok(true)
    }

    /// Fills the window.
    ///
    /// # Errors
    /// As [`next_item`](Merged::next_item).
    pub fn fill(&mut self) -> Result<(), TraceError> {
        while self.window.len() <= WINDOW && self.take()? {}
        Ok(())
    }

    /// The next record.
    ///
    /// # Errors
    /// A record is malformed or comes too late, or an input cannot be read.
    pub fn next_item(&mut self) -> Result<Option<Item>, TraceError> {
        self.fill()?;
        let Some((time, item)) = self.window.pop_front() else { return Ok(None) };
        self.given_ns = time;
        Ok(Some(item))
    }

    /// The records in the window.
    fn ahead(&self) -> impl Iterator<Item = &Item> {
        self.window.iter().map(|(_, item)| item)
    }

    /// The event at which an I/O counts as one: its arrival, or if the window has none, the first later step that it has.
    pub fn basis(&self) -> Action {
        let has =
            |action| self.ahead().any(|item| matches!(item, Item::Event(event) if event.action == action));
        let steps = [Action::Queue, Action::Issue, Action::Complete];
        steps.into_iter().find(|action| has(*action)).unwrap_or(Action::Queue)
    }

    /// Whether the window has an I/O's end: a completion, or how long an I/O took.
    pub(crate) fn has_ends(&self) -> bool {
        let ends = |event: &Event| event.action == Action::Complete || event.latency_ns.is_some();
        self.ahead().any(|item| matches!(item, Item::Event(event) if ends(event)))
    }

    /// The time of the first event or message in the window.
    pub fn first_ns(&self) -> u64 {
        let time = |item: &Item| match item {
            Item::Event(event) => Some(event.time_ns),
            Item::Note(Note::Message { time_ns, .. }) => Some(*time_ns),
            Item::Note(_) => None,
        };
        self.ahead().find_map(time).unwrap_or(0)
    }

    /// A moment of the trace and its wall-clock time, if a note in the window says it.
    pub fn start_ns(&self) -> Option<(u64, u64)> {
        self.ahead().find_map(|item| match item {
            Item::Note(Note::Start { time_ns, wall_ns }) => Some((*time_ns, *wall_ns)),
            _ => None,
        })
    }

    /// The format of the inputs, if they all have the same.
    pub fn format(&self) -> Option<Format> {
        let first = self.inputs.first()?.format;
        self.inputs.iter().all(|input| input.format == first).then_some(first)
    }

    /// Records that were out of order.
    pub fn disorder(&self) -> u64 {
        self.disorder
    }

    /// What was passed over.
    pub fn passed(&self) -> &Passed {
        &self.passed
    }

    /// What the readers have left out.
    pub fn skipped(&self) -> Skipped {
        self.inputs.iter().map(|input| input.source.skipped()).fold(Skipped::default(), |sum, one| Skipped {
            unknown: sum.unknown + one.unknown,
            cgroups: sum.cgroups + one.cgroups,
            data: sum.data + one.data,
        })
    }
}
