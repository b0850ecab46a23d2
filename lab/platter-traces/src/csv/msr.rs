//! Traces of MSR Cambridge, 2007: `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`. Times are Windows file times:
//! 100 ns since 1601.

use super::{Rows, direction, split};
use crate::event::{Device, Direction, Event, Item};
use crate::fields::{self, number};
use crate::sink::Sink;
use crate::source::Names;
use std::io::Write;

const FIELDS: &str = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime";
/// From 1601 to 1970, in units of 100 ns.
const EPOCH: u64 = 11_644_473_600 * 10_000_000;
/// The last time that has a number of ns since 1970.
const MOST: u64 = EPOCH + u64::MAX / 100;

pub(crate) fn is_line(line: &str) -> bool {
    line == FIELDS || Msr::default().event(line).is_ok()
}

/// The format.
#[derive(Default)]
pub(crate) struct Msr {
    names: Names,
}

impl Rows for Msr {
    const FIELDS: &str = FIELDS;

    fn event(&mut self, line: &str) -> Result<Event, String> {
        let [time, host, disk, kind, offset, size, response] = split(line, FIELDS)?;
        let time = match number("Timestamp", time, MOST) {
            Ok(time) if time >= EPOCH => (time - EPOCH) * 100,
            _ => {
                let shown = crate::error::quote(time);
                return Err(format!(
                    "Timestamp `{shown}` is not from {EPOCH} (1970) to {MOST} units of 100 ns"
                ));
            }
        };
        let disk = number("DiskNumber", disk, u64::from(u32::MAX))?;
        let kind = direction("Type", kind, "Read", "Write")?;
        let offset = number("Offset", offset, u64::MAX)?;
        let length = number("Size", size, fields::MOST_LENGTH)?;
        fields::place(offset, length)?;
        let latency = match response {
            "" => None,
            text => Some(number("ResponseTime", text, u64::MAX / 100)? * 100),
        };
        let device = self.names.device(&format!("{host}.{disk}"))?;
        Ok(Event { latency_ns: latency, ..Event::arrival(time, kind, offset, length, device) })
    }
}

/// Host and disk of a device.
fn parts(device: &Device) -> (String, u32) {
    let name = match device {
        Device::Number(_) => device.text().replace(',', "-"),
        Device::Name(name) => name.replace([',', '\n'], "-"),
    };
    match name.rsplit_once('.') {
        Some((host, disk)) if super::is_number(disk) => (host.to_owned(), disk.parse().unwrap_or(0)),
        _ => (name, 0),
    }
}

/// Whether the format has the name of a device as it is.
pub(crate) fn keeps(device: &Device) -> bool {
    let (host, disk) = parts(device);
    matches!(device, Device::Name(name) if **name == format!("{host}.{disk}") && host.trim() == host)
}

/// The device as the format names it.
pub(crate) fn kept(device: &Device) -> Device {
    let (host, disk) = parts(device);
    Device::Name(format!("{host}.{disk}").into())
}

/// Writes lines.
pub(crate) struct Writer;

impl Sink for Writer {
    fn item(&mut self, item: &Item, out: &mut Vec<u8>) {
        let Item::Event(event) = item else { return };
        let (host, disk) = parts(&event.device);
        let time = EPOCH + event.time_ns / 100;
        let kind = if event.direction == Direction::Read { "Read" } else { "Write" };
        let response = event.latency_ns.map_or(String::new(), |ns| (ns / 100).to_string());
        let _ = writeln!(out, "{time},{host},{disk},{kind},{},{},{response}", event.offset, event.length);
    }
}
