//! Platter's own traces of reads, as `readahead --trace` reads them: `thread handle offset length`, without times. Each handle is a device,
//! and the number of the thread is that of the process.

use crate::csv::Numbers;
use crate::event::{Direction, Event, Item};
use crate::fields::{self, number};
use crate::sink::Sink;
use crate::source::{Flow, Lines, Names};
use std::collections::VecDeque;
use std::io::Write;

/// Most threads and handles that `readahead` takes.
pub(crate) const MOST: u64 = 4095;

/// The format.
#[derive(Default)]
pub(crate) struct Reads {
    names: Names,
}

impl Lines for Reads {
    fn line(&mut self, line: &str, _: bool, out: &mut VecDeque<Item>) -> Result<Flow, String> {
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().take(5).collect();
        if words.is_empty() {
            return Ok(Flow::Next);
        }
        let [thread, handle, offset, length] = words[..] else {
            return Err("a line has 4 fields: thread handle offset length".to_owned());
        };
        let thread = number("thread", thread, MOST)? as u32;
        let handle = number("handle", handle, MOST)?;
        let (offset, length) =
            (number("offset", offset, u64::MAX)?, number("length", length, fields::MOST_LENGTH)?);
        fields::place(offset, length)?;
        let device = self.names.device(&handle.to_string())?;
        let event = Event::arrival(0, Direction::Read, offset, length, device);
        out.push_back(Item::Event(Event { process: thread, ..event }));
        Ok(Flow::Next)
    }
}

/// Writes lines.
#[derive(Default)]
pub(crate) struct Writer {
    numbers: Numbers,
}

impl Sink for Writer {
    fn item(&mut self, item: &Item, out: &mut Vec<u8>) {
        let Item::Event(event) = item else { return };
        let handle = self.numbers.of(&event.device).0;
        let _ = writeln!(out, "{} {handle} {} {}", event.process, event.offset, event.length);
    }
}
