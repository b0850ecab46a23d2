//! The trace format of the Storage Performance Council, in which the UMass repository has its traces: `ASU,LBA,Size,Opcode,Timestamp`,
//! with sectors of 512 bytes, bytes, r or w, and seconds since the start. Further fields are left out.

use super::{Numbers, direction};
use crate::event::{Direction, Event, Item, SECTOR};
use crate::fields::{self, number};
use crate::sink::Sink;
use crate::source::{Flow, Lines, Names};
use std::collections::VecDeque;
use std::io::Write;

const FIELDS: &str = "ASU,LBA,Size,Opcode,Timestamp";

pub(crate) fn is_line(line: &str) -> bool {
    Spc::default().event(line).is_ok()
}

/// The format.
#[derive(Default)]
pub(crate) struct Spc {
    names: Names,
}

impl Spc {
    fn event(&mut self, line: &str) -> Result<Event, String> {
        let mut fields = line.split(',').map(str::trim);
        let five = [fields.next(), fields.next(), fields.next(), fields.next(), fields.next()];
        let [Some(asu), Some(lba), Some(size), Some(kind), Some(time)] = five else {
            return Err(format!("{} fields; a line has at least 5: {FIELDS}", five.iter().flatten().count()));
        };
        let asu = number("ASU", asu, u64::from(u32::MAX))?;
        let offset = fields::bytes("LBA", number("LBA", lba, u64::MAX)?)?;
        let length = number("Size", size, fields::MOST_LENGTH)?;
        fields::place(offset, length)?;
        let kind = direction("Opcode", kind, "r", "w")?;
        let time = fields::time("Timestamp", time, 1_000_000_000)?;
        let device = self.names.device(&asu.to_string())?;
        Ok(Event::arrival(time, kind, offset, length, device))
    }
}

impl Lines for Spc {
    fn line(&mut self, line: &str, _: bool, out: &mut VecDeque<Item>) -> Result<Flow, String> {
        out.push_back(Item::Event(self.event(line)?));
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
        let asu = self.numbers.of(&event.device).0;
        let kind = if event.direction == Direction::Read { 'r' } else { 'w' };
        let (seconds, rest) = (event.time_ns / 1_000_000_000, event.time_ns % 1_000_000_000 / 1_000);
        let _ = writeln!(out, "{asu},{},{},{kind},{seconds}.{rest:06}", event.offset / SECTOR, event.length);
    }
}
