//! The writer: version 7, which all tools read, in the order of this machine.

use super::*;
use crate::event::SECTOR;
use crate::sink::Sink;

/// Writes records.
#[derive(Default)]
pub(crate) struct Writer;

fn number(action: Action) -> u64 {
    let category = match action {
        Action::Requeue => REQUEUE,
        Action::Issue => ISSUE,
        Action::Complete => COMPLETE,
        Action::Split | Action::Bounce | Action::Abort | Action::DriverData => 0,
        _ => QUEUE,
    };
    action as u64 | category
}

fn categories(event: &Event) -> u64 {
    let direction = match event.direction {
        Direction::None => 0,
        Direction::Read => READ,
        Direction::Write => WRITE,
        Direction::Discard => WRITE | DISCARD,
    };
    FLAGS
        .iter()
        .filter(|(flag, _)| event.flags.has(*flag))
        .fold(direction, |all, (_, category)| all | category)
}

fn record(header: &Header, data: &[u8], out: &mut Vec<u8>) {
    out.extend((MAGIC | u32::from(V7.0)).to_ne_bytes());
    out.extend(header.sequence.to_ne_bytes());
    out.extend(header.time_ns.to_ne_bytes());
    out.extend(header.sector.to_ne_bytes());
    out.extend((header.bytes as u32).to_ne_bytes());
    out.extend((header.action as u32).to_ne_bytes());
    out.extend(header.process.to_ne_bytes());
    out.extend(header.device.to_ne_bytes());
    out.extend(header.cpu.to_ne_bytes());
    out.extend(header.error.to_ne_bytes());
    out.extend((data.len() as u16).to_ne_bytes());
    out.extend(data);
}

fn blank(action: u64) -> Header {
    Header {
        time_ns: 0,
        sector: 0,
        bytes: 0,
        action,
        process: 0,
        device: 0,
        cpu: 0,
        sequence: 0,
        error: 0,
        len: V7.1,
        data: 0,
    }
}

fn note(note: &Note, out: &mut Vec<u8>) {
    match note {
        Note::Process { number, name } => {
            let mut field = [0; 16];
            // One byte stays for the end of the text, as in the kernel.
            let end = (0..=name.len().min(15)).rev().find(|&end| name.is_char_boundary(end)).unwrap_or(0);
            field[..end].copy_from_slice(&name.as_bytes()[..end]);
            record(&Header { process: *number, ..blank(NOTIFY) }, &field, out);
        }
        Note::Start { time_ns, wall_ns } => {
            let (seconds, rest) = (wall_ns / 1_000_000_000, wall_ns % 1_000_000_000);
            let data = [(seconds as u32).to_ne_bytes(), (rest as u32).to_ne_bytes()].concat();
            record(&Header { time_ns: *time_ns, ..blank(NOTIFY | 1) }, &data, out);
        }
        Note::Message { time_ns, device, cpu, text } => {
            let header = Header {
                time_ns: *time_ns,
                device: if let Device::Number(number) = device { *number } else { 0 },
                cpu: *cpu,
                ..blank(NOTIFY | 2)
            };
            // The kernel's messages are at most this long.
            let end = (0..=text.len().min(128)).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
            record(&header, &text.as_bytes()[..end], out);
        }
    }
}

impl Sink for Writer {
    fn item(&mut self, item: &Item, out: &mut Vec<u8>) {
        let event = match item {
            Item::Event(event) => event,
            Item::Note(about) => return note(about, out),
        };
        let data = match event.extra {
            Extra::None => Vec::new(),
            Extra::Requests(number) | Extra::Cut(number) => number.to_be_bytes().to_vec(),
            Extra::From(device, sector) => {
                let to = if let Device::Number(number) = event.device { number } else { 0 };
                [&device.to_be_bytes()[..], &to.to_be_bytes(), &sector.to_be_bytes()].concat()
            }
        };
        let header = Header {
            time_ns: event.time_ns,
            sector: event.offset / SECTOR,
            bytes: event.length,
            action: number(event.action) | categories(event),
            process: event.process,
            device: if let Device::Number(number) = event.device { number } else { 0 },
            cpu: event.cpu,
            sequence: event.sequence,
            error: event.error,
            ..blank(0)
        };
        record(&header, &data, out);
    }
}
