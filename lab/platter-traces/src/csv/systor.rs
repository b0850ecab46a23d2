//! Traces of SYSTOR '17: `Timestamp,Response,IOType,LUN,Offset,Size`, in seconds and bytes. IOType is R, W or empty.

use super::{Numbers, Rows, direction, split};
use crate::event::{Direction, Event, Item};
use crate::fields::{self, number};
use crate::sink::Sink;
use crate::source::Names;
use std::io::Write;

const FIELDS: &str = "Timestamp,Response,IOType,LUN,Offset,Size";

pub(crate) fn is_line(line: &str) -> bool {
    line == FIELDS || Systor::default().event(line).is_ok()
}

/// The format.
#[derive(Default)]
pub(crate) struct Systor {
    names: Names,
}

impl Rows for Systor {
    const FIELDS: &str = FIELDS;

    fn event(&mut self, line: &str) -> Result<Event, String> {
        let [time, response, kind, lun, offset, size] = split(line, FIELDS)?;
        let time = fields::time("Timestamp", time, 1_000_000_000)?;
        let latency = match response {
            "" => None,
            text => Some(fields::time("Response", text, 1_000_000_000)?),
        };
        let kind = if kind.is_empty() { Direction::None } else { direction("IOType", kind, "R", "W")? };
        let lun = number("LUN", lun, u64::from(u32::MAX))?;
        // An I/O without a type has no place either.
        let place = |name: &str, text: &str, most| match (text, kind) {
            ("", Direction::None) => Ok(0),
            (text, _) => number(name, text, most),
        };
        let (offset, length) =
            (place("Offset", offset, u64::MAX)?, place("Size", size, fields::MOST_LENGTH)?);
        fields::place(offset, length)?;
        let device = self.names.device(&lun.to_string())?;
        Ok(Event { latency_ns: latency, ..Event::arrival(time, kind, offset, length, device) })
    }
}

/// Writes lines.
#[derive(Default)]
pub(crate) struct Writer {
    numbers: Numbers,
}

/// Seconds with nine digits behind the point.
fn seconds(ns: u64) -> String {
    format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

impl Sink for Writer {
    fn begin(&mut self, out: &mut Vec<u8>) {
        let _ = writeln!(out, "{FIELDS}");
    }

    fn item(&mut self, item: &Item, out: &mut Vec<u8>) {
        let Item::Event(event) = item else { return };
        let lun = self.numbers.of(&event.device).0;
        let kind = match event.direction {
            Direction::Read => "R",
            Direction::Write | Direction::Discard => "W",
            Direction::None => "",
        };
        let (time, response) = (seconds(event.time_ns), event.latency_ns.map_or(String::new(), seconds));
        let _ = writeln!(out, "{time},{response},{kind},{lun},{},{}", event.offset, event.length);
    }
}
