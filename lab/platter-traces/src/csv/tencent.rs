//! Tencent's traces of cloud block storage, 2020: `Timestamp,Offset,Size,IOType,VolumeID`, in whole seconds and sectors of 512 bytes;
//! IOType is 0 for a read and 1 for a write.

use super::{Numbers, Rows, direction, split};
use crate::event::{Direction, Event, Item, SECTOR};
use crate::fields::{self, number};
use crate::sink::Sink;
use crate::source::Names;
use std::io::Write;

const FIELDS: &str = "Timestamp,Offset,Size,IOType,VolumeID";

pub(crate) fn is_line(line: &str) -> bool {
    // Seconds since 1970 have ten digits, which tells these lines from other numbers.
    line == FIELDS || line.find(',') == Some(10) && Tencent::default().event(line).is_ok()
}

/// The format.
#[derive(Default)]
pub(crate) struct Tencent {
    names: Names,
}

impl Rows for Tencent {
    const FIELDS: &str = FIELDS;

    fn event(&mut self, line: &str) -> Result<Event, String> {
        let [time, offset, size, kind, volume] = split(line, FIELDS)?;
        let time = fields::time("Timestamp", time, 1_000_000_000)?;
        let offset = fields::bytes("Offset", number("Offset", offset, u64::MAX)?)?;
        let length = fields::bytes("Size", number("Size", size, u64::MAX)?)?;
        fields::place(offset, length)?;
        let kind = direction("IOType", kind, "0", "1")?;
        let volume = number("VolumeID", volume, u64::from(u32::MAX))?;
        let device = self.names.device(&volume.to_string())?;
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
        let volume = self.numbers.of(&event.device).0;
        let kind = u8::from(event.direction != Direction::Read);
        let (time, sector, count) =
            (event.time_ns / 1_000_000_000, event.offset / SECTOR, event.length / SECTOR);
        let _ = writeln!(out, "{time},{sector},{count},{kind},{volume}");
    }
}
