//! The writer.

use super::*;
use crate::sink::Sink;
use std::io::Write;

/// Writes lines.
#[derive(Default)]
pub(crate) struct Writer {
    processes: Processes,
}

/// The letters of a kind.
fn kind(event: &Event) -> String {
    let mut text = String::with_capacity(5);
    if event.flags.has(Flags::PREFLUSH) {
        text.push('F');
    }
    text.push(match event.direction {
        Direction::Discard => 'D',
        Direction::Write => 'W',
        Direction::Read => 'R',
        Direction::None => 'N',
    });
    let letters = [(Flags::FUA, 'F'), (Flags::AHEAD, 'A'), (Flags::SYNC, 'S'), (Flags::META, 'M')];
    text.extend(letters.iter().filter(|(flag, _)| event.flags.has(*flag)).map(|(_, letter)| *letter));
    text
}

impl Writer {
    fn head(&self, out: &mut Vec<u8>, device: &Device, cpu: u32, sequence: u32, time_ns: u64, process: u32) {
        let number = if let Device::Number(number) = device { *number } else { 0 };
        let (major, minor) = (number >> 20, number & 0xf_ffff);
        let (seconds, rest) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000);
        let _ =
            write!(out, "{major:>3},{minor:<3} {cpu:>2} {sequence:>8} {seconds:>5}.{rest:09} {process:>5} ");
    }

    fn tail(&self, event: &Event, out: &mut Vec<u8>) {
        let (sector, count) = (event.offset / SECTOR, event.length / SECTOR);
        let name = self.processes.0.get(&event.process).map_or("(null)", |name| name);
        let _ = match (event.action, event.extra) {
            (Action::Plug, _) => writeln!(out, "[{name}]"),
            (Action::Unplug | Action::UnplugTimer, extra) => {
                let requests = if let Extra::Requests(requests) = extra { requests } else { 0 };
                writeln!(out, "[{name}] {requests}")
            }
            (Action::Complete, _) if event.flags.has(Flags::COMMAND) => writeln!(out, "[{}]", event.error),
            (Action::Complete, _) if count > 0 => writeln!(out, "{sector} + {count} [{}]", event.error),
            (Action::Complete, _) => writeln!(out, "{sector} [{}]", event.error),
            (Action::Split, extra) => {
                let cut = if let Extra::Cut(cut) = extra { cut } else { 0 };
                writeln!(out, "{sector} / {cut} [{name}]")
            }
            (Action::Remap, extra) => {
                let (device, before) =
                    if let Extra::From(device, sector) = extra { (device, sector) } else { (0, 0) };
                let (major, minor) = (device >> 20, device & 0xf_ffff);
                writeln!(out, "{sector} + {count} <- ({major},{minor}) {before}")
            }
            (Action::Requeue, _) if count > 0 => writeln!(out, "{sector} + {count} [{}]", event.error),
            (Action::Requeue, _) => writeln!(out, "[{}]", event.error),
            _ if count > 0 => writeln!(out, "{sector} + {count} [{name}]"),
            _ => writeln!(out, "[{name}]"),
        };
    }
}

impl Sink for Writer {
    fn item(&mut self, item: &Item, out: &mut Vec<u8>) {
        match item {
            Item::Event(event) => {
                self.head(out, &event.device, event.cpu, event.sequence, event.time_ns, event.process);
                let _ = write!(out, "{:>2} {:>3} ", event.action.letters(), kind(event));
                self.tail(event, out);
            }
            Item::Note(Note::Process { number, name }) => self.processes.insert(*number, name),
            // The text has no place for it.
            Item::Note(Note::Start { .. }) => {}
            Item::Note(Note::Message { time_ns, device, cpu, text }) => {
                self.head(out, device, *cpu, 0, *time_ns, 0);
                let _ = writeln!(out, " m   N {text}");
            }
        }
    }
}
