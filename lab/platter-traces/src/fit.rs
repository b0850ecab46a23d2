//! Makes records fit a format: what it cannot hold is taken out and counted.

use crate::csv::{self, Numbers};
use crate::event::{Action, Device, Event, Extra, Flags, Item, Kind, Note, SECTOR};
use crate::format::{Clock, Format, Holds, Naming};
use crate::iolog;
use crate::loss::Loss;

/// Makes records fit a format.
pub(crate) struct Fitter {
    format: Format,
    holds: &'static Holds,
    numbers: Numbers,
    loss: Loss,
}

/// Up to two records for one.
pub(crate) type Fitted = [Option<Item>; 2];

impl Fitter {
    pub(crate) fn new(format: Format) -> Fitter {
        let most = if format == Format::Reads { crate::reads::MOST as u32 } else { u32::MAX };
        Fitter { format, holds: format.holds(), numbers: Numbers::up_to(most), loss: Loss::default() }
    }

    pub(crate) fn loss(&self) -> &Loss {
        &self.loss
    }

    /// Counts what is lost in another place.
    pub(crate) fn lose(&mut self, name: &str, lost: bool) {
        self.loss.count(name, lost);
    }

    pub(crate) fn item(&mut self, item: Item) -> Fitted {
        match item {
            Item::Event(event) => self.event(event),
            Item::Note(note) => [self.note(note), None],
        }
    }

    fn note(&mut self, note: Note) -> Option<Item> {
        let held =
            self.holds.events && !(self.format == Format::Blkparse && matches!(note, Note::Start { .. }));
        if !held {
            self.loss.count("notes", true);
            return None;
        }
        Some(Item::Note(match note {
            Note::Message { time_ns, device, cpu, text } => {
                let device = Device::Number(self.numbers.of(&device).0);
                Note::Message { time_ns, device, cpu, text }
            }
            other => other,
        }))
    }

    fn event(&mut self, mut event: Event) -> Fitted {
        if !self.holds_kind(&event) {
            return [None, None];
        }
        let holds = self.holds;
        let has_data = event.length > 0 && !event.flags.has(Flags::COMMAND);
        let splits = has_data
            && event.flags.has(Flags::PREFLUSH)
            && holds.flushes
            && !holds.flags.has(Flags::PREFLUSH);
        self.loss.count("preflushes_split", splits);
        // A flush without data is held as such, whether or not the format has the mark.
        let is_flush = event.kind() == Kind::Flush;
        let kept = holds.flags.with(Flags::PREFLUSH, splits || is_flush);
        for (flag, name) in Flags::NAMED {
            self.loss.count(name, event.flags.has(flag) && !kept.has(flag));
        }
        // `columns` looks at it.
        let command = event.flags.has(Flags::COMMAND) && holds.events;
        event.flags =
            event.flags.only(holds.flags.with(Flags::PREFLUSH, is_flush)).with(Flags::COMMAND, command);
        self.times(&mut event);
        self.range(&mut event);
        self.device(&mut event);
        self.numbers_of(&mut event);
        if splits {
            let first = Event {
                direction: crate::Direction::Write,
                flags: Flags::PREFLUSH,
                offset: 0,
                length: 0,
                latency_ns: None,
                ..event.clone()
            };
            return [Some(Item::Event(first)), Some(Item::Event(event))];
        }
        [Some(Item::Event(event)), None]
    }

    /// Whether the format has I/Os of the kind.
    fn holds_kind(&mut self, event: &Event) -> bool {
        let holds = self.holds;
        let lost = match event.kind() {
            _ if holds.events => None,
            _ if event.action != Action::Queue => Some("events"),
            Kind::Flush if !holds.flushes => Some("flushes"),
            Kind::Discard if !holds.discards => Some("discards"),
            Kind::Other if !holds.others || event.flags.has(Flags::COMMAND) => Some("commands"),
            Kind::Write if !holds.writes => Some("writes"),
            _ => None,
        };
        self.loss.count(lost.unwrap_or_default(), lost.is_some());
        lost.is_none()
    }

    fn times(&mut self, event: &mut Event) {
        if self.holds.clock == Clock::None {
            event.time_ns = 0;
        }
        let rest = event.time_ns % self.holds.unit_ns;
        event.time_ns -= rest;
        let mut rounded = rest > 0;
        match (event.latency_ns, self.holds.latency_unit_ns) {
            (Some(_), None) => {
                self.loss.count("latencies", !self.holds.events);
                event.latency_ns = None;
            }
            (Some(latency), Some(unit)) => {
                rounded |= !latency.is_multiple_of(unit);
                event.latency_ns = Some(latency - latency % unit);
            }
            (None, _) => {}
        }
        self.loss.count("times_rounded", rounded);
    }

    fn range(&mut self, event: &mut Event) {
        let mut lost = false;
        if event.kind() == Kind::Flush && !self.holds.events {
            (event.offset, event.direction) = (0, crate::Direction::Write);
        }
        if !self.holds.bytes {
            let (start, end) = (event.offset / SECTOR * SECTOR, event.end().next_multiple_of(SECTOR));
            // blktrace's records have lengths in bytes.
            let whole = self.format == Format::Blktrace && start == event.offset || event.length == 0;
            let rounded = (end - start).min(crate::fields::MOST_LENGTH / SECTOR * SECTOR);
            let (start, length) = if whole { (start, event.length) } else { (start, rounded) };
            lost = (start, length) != (event.offset, event.length);
            (event.offset, event.length) = (start, length);
        }
        self.loss.count("ranges_rounded", lost);
    }

    fn device(&mut self, event: &mut Event) {
        let fitting = |keeps: bool, other: &dyn Fn() -> Device| if keeps { None } else { Some(other()) };
        let device = &event.device;
        let other = match self.holds.naming {
            Naming::Numbers => match device {
                Device::Number(_) => None,
                Device::Name(_) => Some(Device::Number(self.numbers.of(device).0)),
            },
            Naming::Own => {
                let (number, other) = self.numbers.of(device);
                let named = matches!(device, Device::Name(_)) && !other;
                fitting(named, &|| Device::Name(number.to_string().into()))
            }
            Naming::Words => {
                let word = iolog::word(device);
                fitting(matches!(device, Device::Name(name) if **name == word), &|| {
                    Device::Name(word.as_str().into())
                })
            }
            Naming::Hosts => fitting(csv::msr::keeps(device), &|| csv::msr::kept(device)),
            Naming::None => fitting(csv::vscsi::keeps(device), &|| Device::Name(csv::vscsi::DISK.into())),
        };
        self.loss.count("devices_renamed", other.is_some());
        if let Some(other) = other {
            event.device = other;
        }
    }

    /// Numbers that only formats of events have.
    fn numbers_of(&mut self, event: &mut Event) {
        if !self.holds.events {
            let keeps_process =
                self.format == Format::Reads && u64::from(event.process) <= crate::reads::MOST;
            self.loss.count("processes", event.process != 0 && !keeps_process);
            self.loss.count("processors", event.cpu != 0);
            self.loss.count("errors", event.error != 0);
            event.process = if keeps_process { event.process } else { 0 };
            (event.cpu, event.sequence, event.error, event.extra) = (0, 0, 0, Extra::None);
            return;
        }
        event.extra = match (event.action, event.extra) {
            (Action::Unplug | Action::UnplugTimer, extra @ Extra::Requests(_)) => extra,
            (Action::Unplug | Action::UnplugTimer, _) => Extra::Requests(0),
            (Action::Split, extra @ Extra::Cut(_)) => extra,
            (Action::Split, _) => Extra::Cut(0),
            (Action::Remap, extra @ Extra::From(..)) => extra,
            (Action::Remap, _) => Extra::From(0, 0),
            _ => Extra::None,
        };
        if self.format == Format::Blkparse {
            self.columns(event);
        }
    }

    /// Takes out what has no column in blkparse's text.
    fn columns(&mut self, event: &mut Event) {
        let before = (event.offset, event.length, event.error);
        if event.flags.has(Flags::COMMAND) || event.action.is_of_queue() {
            (event.offset, event.length) = (0, 0);
        }
        event.flags = event.flags.only(self.holds.flags);
        match event.action {
            Action::Split => event.length = 0,
            Action::Complete | Action::Remap => {}
            _ if event.length == 0 => event.offset = 0,
            _ => {}
        }
        if event.length == 0 && event.direction == crate::Direction::Read {
            event.direction = crate::Direction::None;
        }
        if !matches!(event.action, Action::Complete | Action::Requeue) {
            event.error = 0;
        }
        self.loss.count("details", before != (event.offset, event.length, event.error));
    }
}

#[cfg(test)]
mod tests;
