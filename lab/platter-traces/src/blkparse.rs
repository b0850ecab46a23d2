//! The text that `blkparse` prints by default, which `bench io --trace` writes too: device, processor, sequence number, time,
//! process, action, kind, and what the action has: `sector + count [process]`, for completions `sector + count [error]`.

mod write;

pub(crate) use write::Writer;

use crate::error::quote;
use crate::event::{Action, Device, Direction, Event, Extra, Flags, Item, Note, SECTOR};
use crate::fields::{self, number};
use crate::source::{Flow, Lines};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Most processes whose names are remembered.
const MOST_PROCESSES: usize = 1 << 16;

/// How lines begin that blkparse prints around the records.
const AROUND: [&str; 2] = ["Input file ", "Trace started at "];
/// How lines of its summary begin, which end the records.
const SUMMARY: [&str; 4] = ["CPU", "Total (", "Throughput (R/W)", "Events ("];

/// Whether a line is a record.
pub(crate) fn is_record(line: &str) -> bool {
    Head::of(line).is_ok()
}

/// The names of processes: each is told when it changes.
#[derive(Default)]
pub(crate) struct Processes(HashMap<u32, Arc<str>>);

impl Processes {
    /// The new name of a process, if it is one.
    fn renamed(&mut self, process: u32, name: &str) -> Option<Arc<str>> {
        if self.0.get(&process).is_some_and(|known| **known == *name) {
            return None;
        }
        if self.0.len() >= MOST_PROCESSES {
            self.0.clear();
        }
        let name: Arc<str> = platter_block::text::printable(name).into();
        self.0.insert(process, Arc::clone(&name));
        Some(name)
    }

    fn insert(&mut self, process: u32, name: &Arc<str>) {
        if self.0.len() >= MOST_PROCESSES {
            self.0.clear();
        }
        self.0.insert(process, Arc::clone(name));
    }
}

/// The columns up to the kind.
struct Head<'l> {
    device: u32,
    cpu: u32,
    sequence: u32,
    time_ns: u64,
    process: u32,
    action: &'l str,
    kind: &'l str,
    rest: &'l str,
}

/// Cuts the next word off.
fn word<'l>(name: &str, text: &mut &'l str) -> Result<&'l str, String> {
    let start = text.trim_start();
    let end = start.find(char::is_whitespace).unwrap_or(start.len());
    let (found, rest) = start.split_at(end);
    *text = rest;
    match found.is_empty() {
        true => Err(format!("{name} is missing")),
        false => Ok(found),
    }
}

fn device(text: &str) -> Result<u32, String> {
    let (major, minor) =
        text.split_once(',').ok_or_else(|| format!("device `{}` is not MAJOR,MINOR", quote(text)))?;
    let major = number("major number", major.trim(), 0xfff)? as u32;
    Ok(major << 20 | number("minor number", minor.trim(), 0xf_ffff)? as u32)
}

impl<'l> Head<'l> {
    fn of(line: &'l str) -> Result<Head<'l>, String> {
        let mut rest = line;
        let most = u64::from(u32::MAX);
        let device = device(word("device", &mut rest)?)?;
        let cpu = number("processor", word("processor", &mut rest)?, most)? as u32;
        let sequence = number("sequence number", word("sequence number", &mut rest)?, most)? as u32;
        let time_ns = fields::time("time", word("time", &mut rest)?, 1_000_000_000)?;
        let process = number("process", word("process", &mut rest)?, most)? as u32;
        let action = word("action", &mut rest)?;
        // A message may be empty.
        let kind = word("kind", &mut rest)?;
        Ok(Head { device, cpu, sequence, time_ns, process, action, kind, rest })
    }
}

/// The properties that the letters of a kind stand for.
fn properties(kind: &str) -> Result<(Direction, Flags), String> {
    let wrong = || format!("kind `{}` is not made of the letters F, R, W, D, N, A, S and M", quote(kind));
    let body = kind.strip_prefix('F').unwrap_or(kind);
    let mut flags = Flags::NONE.with(Flags::PREFLUSH, body.len() < kind.len());
    let mut letters = body.chars();
    let direction = match letters.next() {
        Some('R') => Direction::Read,
        Some('W') => Direction::Write,
        Some('D') => Direction::Discard,
        Some('N') | None => Direction::None,
        // FF: a flush of the kernel's own.
        Some('F') if flags.has(Flags::PREFLUSH) => {
            flags = flags.and(Flags::FUA);
            Direction::None
        }
        _ => return Err(wrong()),
    };
    if kind.is_empty() {
        return Err(wrong());
    }
    for letter in letters {
        flags = flags.and(match letter {
            'F' => Flags::FUA,
            'A' => Flags::AHEAD,
            'S' => Flags::SYNC,
            'M' => Flags::META,
            // Discards and secure discards of newer kernels: DE; B was a barrier.
            'E' => Flags::NONE,
            'B' => Flags::PREFLUSH,
            _ => return Err(wrong()),
        });
    }
    Ok((direction, flags))
}

/// What stands behind the kind.
#[derive(Default)]
struct Tail<'l> {
    sector: Option<u64>,
    count: u64,
    extra: Extra,
    /// What is in the brackets at the end, and behind them.
    inside: Option<&'l str>,
    behind: &'l str,
    command: bool,
}

impl<'l> Tail<'l> {
    fn of(text: &'l str) -> Result<Tail<'l>, String> {
        let (mut body, mut tail) = (text.trim(), Tail::default());
        if let (Some(from), Some(to)) = (body.find('['), body.rfind(']'))
            && from < to
        {
            (tail.inside, tail.behind) = (Some(&body[from + 1..to]), body[to + 1..].trim());
            body = body[..from].trim_end();
        }
        if body.is_empty() {
            return Ok(tail);
        }
        if body.starts_with('(') {
            tail.command = true;
            return Ok(tail);
        }
        tail.sector = Some(number("sector", word("sector", &mut body)?, u64::MAX)?);
        let rest = body.trim_start();
        if rest.starts_with('(') {
            // How long it took, or the bytes of a command.
            tail.command = rest.len() > 1 && rest.matches(' ').count() > 3 && !rest.contains("  ");
        } else if let Some(mut rest) = rest.strip_prefix('+') {
            tail.count = number("count", word("count", &mut rest)?, u64::from(u32::MAX))?;
            if let Some(mut from) = rest.trim_start().strip_prefix("<-") {
                let place = word("device before", &mut from)?;
                let inner = place.strip_prefix('(').and_then(|place| place.strip_suffix(')'));
                let inner =
                    inner.ok_or_else(|| format!("device before `{}` is not (MAJOR,MINOR)", quote(place)))?;
                let sector = number("sector before", word("sector before", &mut from)?, u64::MAX)?;
                tail.extra = Extra::From(device(inner)?, sector);
            }
        } else if let Some(mut rest) = rest.strip_prefix('/') {
            tail.extra =
                Extra::Cut(number("sector of the cut", word("sector of the cut", &mut rest)?, u64::MAX)?);
        } else if !rest.is_empty() {
            return Err(format!("`{}` is none of + COUNT, / SECTOR, (TIME) and [PROCESS]", quote(rest)));
        }
        Ok(tail)
    }
}

/// The format.
#[derive(Default)]
pub(crate) struct Text {
    processes: Processes,
}

impl Text {
    fn event(&mut self, head: &Head<'_>, out: &mut VecDeque<Item>) -> Result<(), String> {
        let action = Action::ALL.into_iter().find(|action| action.letters() == head.action);
        let action = match (action, head.action) {
            (Some(action), _) => action,
            (None, "T") => Action::UnplugTimer,
            (None, other) => return Err(format!("action `{}` is none of blktrace's", quote(other))),
        };
        let (direction, mut flags) = properties(head.kind)?;
        let tail = Tail::of(head.rest)?;
        let mut error = 0;
        match (action, tail.inside) {
            (Action::Complete | Action::Requeue, Some(text)) => {
                // Numbers of errors are positive in some kernels, negative in others.
                let text = text.trim().trim_start_matches('-');
                error = number("error", text, u64::from(u16::MAX))? as u16;
            }
            (_, Some(name)) => {
                let renamed = self.processes.renamed(head.process, name);
                out.extend(renamed.map(|name| Item::Note(Note::Process { number: head.process, name })));
            }
            _ => {}
        }
        flags = flags.with(Flags::COMMAND, tail.command);
        let extra = match action {
            Action::Unplug | Action::UnplugTimer if !tail.behind.is_empty() => {
                Extra::Requests(number("number of requests", tail.behind, u64::MAX)?)
            }
            _ => tail.extra,
        };
        let offset = fields::bytes("sector", tail.sector.unwrap_or(0))?;
        let length = tail.count * SECTOR;
        fields::place(offset, length)?;
        let event = Event {
            action,
            flags,
            cpu: head.cpu,
            sequence: head.sequence,
            process: head.process,
            error,
            extra,
            ..Event::arrival(head.time_ns, direction, offset, length, Device::Number(head.device))
        };
        out.push_back(Item::Event(event));
        Ok(())
    }
}

impl Lines for Text {
    fn line(&mut self, line: &str, _: bool, out: &mut VecDeque<Item>) -> Result<Flow, String> {
        if AROUND.iter().any(|start| line.starts_with(start)) {
            return Ok(Flow::Next);
        }
        if SUMMARY.iter().any(|start| line.starts_with(start)) {
            return Ok(Flow::End);
        }
        let head = Head::of(line)?;
        if head.action == "m" {
            let text = platter_block::text::printable(head.rest.trim()).into();
            let device = Device::Number(head.device);
            out.push_back(Item::Note(Note::Message { time_ns: head.time_ns, device, cpu: head.cpu, text }));
        } else {
            self.event(&head, out)?;
        }
        Ok(Flow::Next)
    }
}

#[cfg(test)]
mod tests;
