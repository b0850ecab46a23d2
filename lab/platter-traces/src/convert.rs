//! From one format to another, record by record.

use crate::error::TraceError;
use crate::event::{Action, Event, Flags, Item, Note};
use crate::fit::Fitter;
use crate::format::{Clock, Format};
use crate::loss::Loss;
use crate::merge::Merged;
use crate::pairing::Pairing;
use crate::sink::Sink;
use std::collections::BTreeMap;

/// Most completions that are still to be written.
const MOST_DUE: usize = 1 << 18;

/// A conversion under way.
pub struct Conversion<'r> {
    merged: Merged<'r>,
    format: Format,
    sink: Box<dyn Sink>,
    fitter: Fitter,
    /// The event at which an I/O counts as one.
    basis: Action,
    /// Of formats of arrivals with latencies, from events.
    pairing: Option<Pairing>,
    /// From latencies to events: completions, by their time and number.
    due: BTreeMap<(u64, u64), Event>,
    /// What is taken from times, or added to them.
    earlier_ns: u64,
    later_ns: u64,
    /// Whether records have no sequence numbers, and that of the last one.
    numbers: bool,
    number: u64,
    begun: bool,
    ended: bool,
    read: u64,
    written: u64,
    has_start: bool,
}

impl<'r> Conversion<'r> {
    /// A conversion to a format. `at` is the event at which an I/O counts as one, for formats of arrivals.
    ///
    /// # Errors
    /// One of the first records cannot be read.
    pub fn new(
        mut merged: Merged<'r>,
        format: Format,
        at: Option<Action>,
    ) -> Result<Conversion<'r>, TraceError> {
        merged.fill()?;
        let (from, holds) = (merged.clock(), format.holds());
        let basis = at.unwrap_or_else(|| merged.basis());
        let has_start = merged.start_ns().is_some();
        let (earlier_ns, later_ns) = shift(&merged, format);
        let pairs = !holds.events && holds.latency_unit_ns.is_some() && basis != Action::Complete;
        Ok(Conversion {
            earlier_ns,
            later_ns,
            numbers: from != Clock::Start,
            merged,
            format,
            sink: format.sink(),
            fitter: Fitter::new(format),
            basis,
            pairing: pairs.then(Pairing::default),
            due: BTreeMap::new(),
            number: 0,
            begun: false,
            ended: false,
            read: 0,
            written: 0,
            has_start,
        })
    }

    /// Converts a record, and adds to `out` what can be written then; `false` when all was written.
    ///
    /// # Errors
    /// A record cannot be read.
    pub fn step(&mut self, out: &mut Vec<u8>) -> Result<bool, TraceError> {
        if self.ended {
            return Ok(false);
        }
        if !std::mem::replace(&mut self.begun, true) {
            self.sink.begin(out);
            if self.merged.clock() == Clock::Wall && self.format.holds().events {
                let start = Item::Note(Note::Start { time_ns: 0, wall_ns: self.earlier_ns });
                self.write(start, out);
            }
        }
        match self.merged.next_item()? {
            Some(item) => {
                self.read += 1;
                self.item(item, out);
            }
            None => {
                self.give(true, out);
                self.complete_until(u64::MAX, out);
                self.sink.end(out);
                self.ended = true;
            }
        }
        Ok(true)
    }

    fn item(&mut self, item: Item, out: &mut Vec<u8>) {
        let mut event = match item {
            Item::Event(event) => event,
            Item::Note(mut note) => {
                if let Note::Message { time_ns, .. } = &mut note {
                    *time_ns = time_ns.saturating_sub(self.earlier_ns).saturating_add(self.later_ns);
                }
                return self.write(Item::Note(note), out);
            }
        };
        event.time_ns = event.time_ns.saturating_sub(self.earlier_ns).saturating_add(self.later_ns);
        if self.format.holds().events {
            self.complete_until(event.time_ns, out);
            self.add_completion(&event);
            event.latency_ns = None;
            return self.write(Item::Event(event), out);
        }
        if let Some(pairing) = &mut self.pairing
            && event.action == Action::Complete
        {
            pairing.complete(&event);
            self.fitter.lose("errors", event.error != 0);
            return self.give(false, out);
        }
        if event.action != self.basis {
            return self.fitter.lose("events", true);
        }
        event.action = Action::Queue;
        match &mut self.pairing {
            Some(pairing) if event.latency_ns.is_none() && !event.flags.has(Flags::COMMAND) => {
                pairing.arrive(event);
                self.give(false, out);
            }
            Some(pairing) => {
                // Behind those that wait.
                pairing.arrive_done(event);
                self.give(false, out);
            }
            None => self.write(Item::Event(event), out),
        }
    }

    /// Writes arrivals that wait no more.
    fn give(&mut self, at_end: bool, out: &mut Vec<u8>) {
        while let Some(event) = self.pairing.as_mut().and_then(|pairing| pairing.next(at_end)) {
            self.fitter.lose("latencies_unknown", event.latency_ns.is_none());
            self.write(Item::Event(event), out);
        }
    }

    /// An I/O whose record says how long it took has a completion.
    fn add_completion(&mut self, event: &Event) {
        let Some(latency) = event.latency_ns else { return };
        if self.due.len() == MOST_DUE {
            return self.fitter.lose("latencies", true);
        }
        let time_ns = event.time_ns.saturating_add(latency);
        let completion = Event { time_ns, action: Action::Complete, latency_ns: None, ..event.clone() };
        self.number += 1;
        self.due.insert((time_ns, self.number), completion);
    }

    fn complete_until(&mut self, time_ns: u64, out: &mut Vec<u8>) {
        while let Some(entry) = self.due.first_entry()
            && entry.key().0 <= time_ns
        {
            let event = entry.remove();
            self.write(Item::Event(event), out);
        }
    }

    fn write(&mut self, item: Item, out: &mut Vec<u8>) {
        for mut item in self.fitter.item(item).into_iter().flatten() {
            if let Item::Event(event) = &mut item {
                self.written += 1;
                if self.numbers && self.format.holds().events {
                    event.sequence = self.written as u32;
                }
            }
            self.sink.item(&item, out);
        }
    }

    /// The inputs.
    pub fn merged(&self) -> &Merged<'r> {
        &self.merged
    }

    /// What was lost so far.
    pub fn loss(&self) -> &Loss {
        self.fitter.loss()
    }

    /// Records that were read.
    pub fn records_read(&self) -> u64 {
        self.read
    }

    /// Records about I/Os that were written.
    pub fn records_written(&self) -> u64 {
        self.written
    }

    /// The event at which an I/O counts as one.
    pub fn basis(&self) -> Action {
        self.basis
    }

    /// Whether the format has wall-clock times that the inputs do not have: they begin in 1970 then.
    pub fn lacks_start(&self) -> bool {
        self.format.holds().clock == Clock::Wall && self.merged.clock() != Clock::Wall && !self.has_start
    }

    /// Whether the inputs have no times.
    pub fn lacks_times(&self) -> bool {
        self.merged.clock() == Clock::None && self.format.holds().clock != Clock::None
    }
}

/// What is taken from the times of a trace, and added to them, for another format.
fn shift(merged: &Merged<'_>, format: Format) -> (u64, u64) {
    let first = merged.first_ns();
    match (merged.clock(), format.holds().clock) {
        (Clock::Wall, Clock::Start) => (first, 0),
        (Clock::Start, Clock::Wall) => {
            merged.start_ns().map_or((first, 0), |(time, wall)| match wall >= time {
                true => (0, wall - time),
                false => (time - wall, 0),
            })
        }
        // The kernel's records count from the start of the machine; blkparse prints times from the first record on.
        (Clock::Start, Clock::Start)
            if format != Format::Blktrace && merged.format() == Some(Format::Blktrace) =>
        {
            (first, 0)
        }
        _ => (0, 0),
    }
}

#[cfg(test)]
mod tests;
