//! Traces of virtual SCSI disks, as CloudPhysics collected them, as lines: the fields of the binary records (`cmd`, `ver`, `sn`, `len`,
//! `nSG`, `lbn`, `ts`, and `rt` in version 2) with a first line that names them, in any order; others are left out.
//! Sizes are bytes, places sectors of 512 bytes, times us, and `cmd` is the operation code of the SCSI command.

use crate::error::quote;
use crate::event::{Device, Direction, Event, Flags, Item, Kind, SECTOR};
use crate::fields::{self, number};
use crate::sink::Sink;
use crate::source::{Flow, Lines, Names};
use std::collections::VecDeque;
use std::io::Write;

const FIELDS: &str = "cmd,ver,sn,len,nSG,lbn,ts,rt";
/// The name of the disk, which these traces do not have.
pub(crate) const DISK: &str = "vscsi";

/// Columns that are read: command, bytes, sector, time, response.
const READ: [&[&str]; 5] = [
    &["cmd", "op", "opcode"],
    &["len", "length", "size"],
    &["lbn", "lba"],
    &["ts", "time", "timestamp"],
    &["rt", "response"],
];

/// The numbers of the columns, if a line names those that must be there.
fn columns(line: &str) -> Option<[Option<usize>; 5]> {
    let names: Vec<&str> = line.trim_start_matches('#').split(',').map(str::trim).collect();
    let find = |known: &[&str]| {
        names.iter().position(|name| known.iter().any(|known| name.eq_ignore_ascii_case(known)))
    };
    let found = READ.map(find);
    found[..4].iter().all(Option::is_some).then_some(found)
}

pub(crate) fn is_line(line: &str) -> bool {
    columns(line).is_some()
}

/// The format.
#[derive(Default)]
pub(crate) struct Vscsi {
    columns: [Option<usize>; 5],
    names: Names,
}

/// What an operation code does.
fn operation(code: u64) -> (Direction, Flags) {
    match code {
        0x08 | 0x28 | 0xa8 | 0x88 => (Direction::Read, Flags::NONE),
        0x0a | 0x2a | 0xaa | 0x8a => (Direction::Write, Flags::NONE),
        0x42 => (Direction::Discard, Flags::NONE),
        0x35 | 0x91 => (Direction::Write, Flags::PREFLUSH),
        _ => (Direction::None, Flags::COMMAND),
    }
}

/// A number, in hexadecimal with `0x` in front.
fn code(text: &str) -> Result<u64, String> {
    let hex = text.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
    match hex {
        Some(code) if code <= 255 => Ok(code),
        _ => number("cmd", text, 255),
    }
}

impl Vscsi {
    fn event(&mut self, line: &str) -> Result<Event, String> {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let field = |column: usize| match self.columns[column] {
            None => Ok(""),
            Some(at) => {
                let missing = || format!("{} fields; {} is field {}", fields.len(), READ[column][0], at + 1);
                fields.get(at).copied().ok_or_else(missing)
            }
        };
        let (direction, flags) = operation(code(field(0)?)?);
        let mut length = number("len", field(1)?, fields::MOST_LENGTH)?;
        let mut offset = fields::bytes("lbn", number("lbn", field(2)?, u64::MAX)?)?;
        if flags == Flags::PREFLUSH {
            (offset, length) = (0, 0);
        }
        fields::place(offset, length)?;
        let time = fields::time("ts", field(3)?, 1_000)?;
        let latency_ns = match field(4)? {
            "" => None,
            text => Some(fields::time("rt", text, 1_000)?),
        };
        let device = self.names.device(DISK)?;
        Ok(Event { flags, latency_ns, ..Event::arrival(time, direction, offset, length, device) })
    }
}

impl Lines for Vscsi {
    fn line(&mut self, line: &str, first: bool, out: &mut VecDeque<Item>) -> Result<Flow, String> {
        if first {
            let need = "it must name cmd, len, lbn and ts";
            self.columns =
                columns(line).ok_or_else(|| format!("the first line is `{}`; {need}", quote(line)))?;
        } else {
            out.push_back(Item::Event(self.event(line)?));
        }
        Ok(Flow::Next)
    }
}

/// Whether the format has the name of a device.
pub(crate) fn keeps(device: &Device) -> bool {
    matches!(device, Device::Name(name) if **name == *DISK)
}

/// Writes lines.
#[derive(Default)]
pub(crate) struct Writer {
    number: u32,
}

impl Sink for Writer {
    fn begin(&mut self, out: &mut Vec<u8>) {
        let _ = writeln!(out, "{FIELDS}");
    }

    fn item(&mut self, item: &Item, out: &mut Vec<u8>) {
        let Item::Event(event) = item else { return };
        let wide = event.offset / SECTOR > u64::from(u32::MAX);
        let code = match (event.kind(), wide) {
            (Kind::Read, false) => 0x28,
            (Kind::Read, true) => 0x88,
            (Kind::Write | Kind::Other, false) => 0x2a,
            (Kind::Write | Kind::Other, true) => 0x8a,
            (Kind::Discard, _) => 0x42,
            (Kind::Flush, _) => 0x35,
        };
        let version = if event.latency_ns.is_some() { 2 << 8 } else { 1 << 8 };
        let response = event.latency_ns.map_or(String::new(), |ns| (ns / 1_000).to_string());
        self.number = self.number.wrapping_add(1);
        let (number, sector, time) = (self.number, event.offset / SECTOR, event.time_ns / 1_000);
        let _ = writeln!(out, "{code},{version},{number},{},1,{sector},{time},{response}", event.length);
    }
}
