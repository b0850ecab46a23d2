//! Alibaba's traces of block devices, 2020: `device_id,opcode,offset,length,timestamp`, in bytes and us.

use super::{Numbers, Rows, direction, split};
use crate::event::{Direction, Event, Item};
use crate::fields::{self, number};
use crate::sink::Sink;
use crate::source::Names;
use std::io::Write;

const FIELDS: &str = "device_id,opcode,offset,length,timestamp";

pub(crate) fn is_line(line: &str) -> bool {
    line == FIELDS || Alibaba::default().event(line).is_ok()
}

/// The format.
#[derive(Default)]
pub(crate) struct Alibaba {
    names: Names,
}

impl Rows for Alibaba {
    const FIELDS: &str = FIELDS;

    fn event(&mut self, line: &str) -> Result<Event, String> {
        let [device, kind, offset, length, time] = split(line, FIELDS)?;
        let device = number("device_id", device, u64::from(u32::MAX))?;
        let kind = direction("opcode", kind, "R", "W")?;
        let offset = number("offset", offset, u64::MAX)?;
        let length = number("length", length, fields::MOST_LENGTH)?;
        fields::place(offset, length)?;
        let time = fields::time("timestamp", time, 1_000)?;
        let device = self.names.device(&device.to_string())?;
        Ok(Event::arrival(time, kind, offset, length, device))
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
        let device = self.numbers.of(&event.device).0;
        let kind = if event.direction == Direction::Read { 'R' } else { 'W' };
        let _ = writeln!(out, "{device},{kind},{},{},{}", event.offset, event.length, event.time_ns / 1_000);
    }
}
