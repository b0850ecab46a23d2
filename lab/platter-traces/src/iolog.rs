//! fio's iolog, versions 2 and 3: `FILE ACTION OFFSET LENGTH`, in version 3 with a time in us in front.
//!
//! Version 2 has times only as `wait N`. fio compares N with the milliseconds since its job began, which is what is read
//! here; its manual calls them microseconds since the last wait.

use crate::error::quote;
use crate::event::{Device, Direction, Event, Flags, Item, Kind, Note};
use crate::fields::{self, number};
use crate::sink::Sink;
use crate::source::{Flow, Lines, Names};
use std::collections::{BTreeSet, VecDeque};
use std::io::Write;

const V2: &str = "fio version 2 iolog";
const V3: &str = "fio version 3 iolog";

/// The version that a first line names.
pub(crate) fn version(line: &str) -> Option<u8> {
    match line {
        V2 => Some(2),
        V3 => Some(3),
        _ => None,
    }
}

/// The format.
pub(crate) struct Iolog {
    version: u8,
    names: Names,
    /// Of version 2: what the last `wait` said.
    time_ns: u64,
}

impl Iolog {
    pub(crate) fn new(version: u8) -> Iolog {
        Iolog { version, names: Names::default(), time_ns: 0 }
    }

    fn io(&mut self, file: &str, action: &str, offset: &str, length: &str) -> Result<Option<Event>, String> {
        let offset = number("offset", offset, u64::MAX)?;
        let (direction, flags) = match action {
            "wait" if self.version == 3 => {
                return Err("wait has no meaning in version 3, where every line has its time".to_owned());
            }
            "wait" => {
                let most = u64::MAX / 1_000_000;
                let wait = number("wait", &offset.to_string(), most)? * 1_000_000;
                // fio does not wait for a time that has passed.
                self.time_ns = self.time_ns.max(wait);
                return Ok(None);
            }
            "read" => (Direction::Read, Flags::NONE),
            "write" => (Direction::Write, Flags::NONE),
            "trim" => (Direction::Discard, Flags::NONE),
            "sync" | "datasync" => (Direction::Write, Flags::PREFLUSH),
            other => {
                let all = "read, write, trim, sync, datasync, wait, add, open, close";
                return Err(format!("action `{}` is none of {all}", quote(other)));
            }
        };
        let length = number("length", length, fields::MOST_LENGTH)?;
        // A sync has numbers, which mean nothing.
        let (offset, length) = if flags == Flags::PREFLUSH { (0, 0) } else { (offset, length) };
        fields::place(offset, length)?;
        let device = self.names.device(file)?;
        Ok(Some(Event { flags, ..Event::arrival(self.time_ns, direction, offset, length, device) }))
    }
}

impl Lines for Iolog {
    fn line(&mut self, line: &str, first: bool, out: &mut VecDeque<Item>) -> Result<Flow, String> {
        if first {
            let named = version(line)
                .ok_or_else(|| format!("the first line is `{}`, not `{V2}` or `{V3}`", quote(line)))?;
            self.version = named;
            return Ok(Flow::Next);
        }
        let mut words = line.split_whitespace();
        if self.version == 3 {
            self.time_ns = fields::time("time", words.next().unwrap_or_default(), 1_000)?;
        }
        let words: Vec<&str> = words.take(5).collect();
        match words[..] {
            [_, "add" | "open" | "close"] => {}
            [file, action, offset, length] => {
                out.extend(self.io(file, action, offset, length)?.map(Item::Event));
            }
            _ => {
                let time = if self.version == 3 { "TIME " } else { "" };
                return Err(format!(
                    "`{}` is neither {time}FILE add|open|close nor {time}FILE ACTION OFFSET LENGTH",
                    quote(line)
                ));
            }
        }
        Ok(Flow::Next)
    }
}

/// Writes lines.
pub(crate) struct Writer {
    version: u8,
    files: BTreeSet<Device>,
    last_ns: u64,
}

impl Writer {
    pub(crate) fn new(version: u8) -> Writer {
        Writer { version, files: BTreeSet::new(), last_ns: 0 }
    }

    fn line(&self, out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
        let _ = match self.version {
            3 => writeln!(out, "{} {text}", self.last_ns / 1_000),
            _ => writeln!(out, "{text}"),
        };
    }
}

/// The name of a device as one word.
pub(crate) fn word(device: &Device) -> String {
    device.text().replace(char::is_whitespace, "_")
}

impl Sink for Writer {
    fn begin(&mut self, out: &mut Vec<u8>) {
        let _ = writeln!(out, "{}", if self.version == 3 { V3 } else { V2 });
    }

    fn item(&mut self, item: &Item, out: &mut Vec<u8>) {
        let event = match item {
            Item::Event(event) => event,
            Item::Note(Note::Process { .. } | Note::Start { .. } | Note::Message { .. }) => return,
        };
        let file = word(&event.device);
        let waits = self.version == 2 && event.time_ns / 1_000_000 > self.last_ns / 1_000_000;
        self.last_ns = event.time_ns;
        if self.files.insert(event.device.clone()) {
            self.line(out, format_args!("{file} add"));
            self.line(out, format_args!("{file} open"));
        }
        if waits {
            self.line(out, format_args!("{file} wait {} 0", event.time_ns / 1_000_000));
        }
        let action = match event.kind() {
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::Discard => "trim",
            Kind::Flush => "sync",
            Kind::Other => return,
        };
        self.line(out, format_args!("{file} {action} {} {}", event.offset, event.length));
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        for device in &self.files {
            self.line(out, format_args!("{} close", word(device)));
        }
    }
}
