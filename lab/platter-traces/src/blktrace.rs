//! The binary records of `blktrace`, as in `linux/blktrace_api.h`: version 7, and the wider ones of version 8, which
//! `BLKTRACESETUP2` of Linux 6.19 gives. They have the byte order of the machine that wrote them; both are read.

mod write;

pub(crate) use write::Writer;

use crate::error::{Place, TraceError};
use crate::event::{Action, Device, Direction, Event, Extra, Flags, Item, Note};
use crate::fields;
use crate::source::{Skipped, Source};
use std::io::{self, BufRead};
use std::sync::Arc;

/// `BLK_IO_TRACE_MAGIC`, without the version in its lowest byte.
const MAGIC: u32 = 0x6561_7400;
/// The versions, and the length of their records.
const V7: (u8, usize) = (7, 48);
const V8: (u8, usize) = (8, 64);

// Categories, in the bits above the number of the action.
const READ: u64 = 1 << 16;
const WRITE: u64 = 1 << 17;
const FLUSH: u64 = 1 << 18;
const SYNC: u64 = 1 << 19;
const QUEUE: u64 = 1 << 20;
const REQUEUE: u64 = 1 << 21;
const ISSUE: u64 = 1 << 22;
const COMPLETE: u64 = 1 << 23;
const COMMAND: u64 = 1 << 25;
const NOTIFY: u64 = 1 << 26;
const AHEAD: u64 = 1 << 27;
const META: u64 = 1 << 28;
const DISCARD: u64 = 1 << 29;
const FUA: u64 = 1 << 31;
/// Of version 8 only.
const ZEROES: u64 = 1 << 38;
/// Set among the numbers: the number of a cgroup is in front of the data.
const CGROUP: u64 = 0x100;

/// Each property with its category.
const FLAGS: [(Flags, u64); 7] = [
    (Flags::PREFLUSH, FLUSH),
    (Flags::FUA, FUA),
    (Flags::SYNC, SYNC),
    (Flags::META, META),
    (Flags::AHEAD, AHEAD),
    (Flags::COMMAND, COMMAND),
    (Flags::ZEROES, ZEROES),
];

/// Whether a file begins like a trace.
pub(crate) fn is_start(start: &[u8]) -> bool {
    order(start).is_some()
}

/// The order of bytes, and the version.
fn order(start: &[u8]) -> Option<(bool, u8)> {
    let magic = start.get(..4)?.try_into().ok()?;
    let (little, big) = (u32::from_le_bytes(magic), u32::from_be_bytes(magic));
    let version = |magic: u32| (magic & !0xff == MAGIC).then_some(magic as u8);
    version(little).map(|v| (false, v)).or_else(|| version(big).map(|v| (true, v)))
}

/// Numbers of a record.
struct Fields<'b> {
    bytes: &'b [u8],
    big: bool,
}

impl Fields<'_> {
    /// The number of `len` bytes at `at`.
    fn number(&self, at: usize, len: usize) -> u64 {
        let mut all = [0; 8];
        let field = &self.bytes[at..at + len];
        if self.big {
            all[8 - len..].copy_from_slice(field);
            u64::from_be_bytes(all)
        } else {
            all[..len].copy_from_slice(field);
            u64::from_le_bytes(all)
        }
    }

    fn u32(&self, at: usize) -> u32 {
        self.number(at, 4) as u32
    }
}

/// The fields of both versions.
struct Header {
    time_ns: u64,
    sector: u64,
    bytes: u64,
    action: u64,
    process: u32,
    device: u32,
    cpu: u32,
    sequence: u32,
    error: u16,
    /// Bytes of the record, and of the data behind it.
    len: usize,
    data: usize,
}

impl Header {
    fn of(bytes: &[u8], big: bool) -> Header {
        let f = Fields { bytes, big };
        let wide = bytes.len() == V8.1;
        let (process, action, rest) =
            if wide { (28, f.number(32, 8), 40) } else { (32, f.number(28, 4), 36) };
        Header {
            sequence: f.u32(4),
            time_ns: f.number(8, 8),
            sector: f.number(16, 8),
            bytes: f.number(24, 4),
            action,
            process: f.u32(process),
            device: f.u32(rest),
            cpu: f.u32(rest + 4),
            error: f.number(rest + 8, 2) as u16,
            len: bytes.len(),
            data: f.number(rest + 10, 2) as usize,
        }
    }
}

/// The reader.
pub(crate) struct Reader<R> {
    reader: R,
    input: String,
    /// Order of bytes, once it is known.
    big: Option<bool>,
    record: u64,
    /// Where the last record begins, and where the next one.
    start: u64,
    byte: u64,
    ended: bool,
    data: Vec<u8>,
    skipped: Skipped,
}

impl<R: BufRead> Reader<R> {
    pub(crate) fn new(reader: R, input: &str) -> Self {
        let (input, data, skipped) = (input.to_owned(), Vec::new(), Skipped::default());
        Self { reader, input, big: None, record: 0, start: 0, byte: 0, ended: false, data, skipped }
    }

    fn error(&mut self, problem: String, is_end: bool) -> TraceError {
        self.ended |= is_end;
        TraceError::new(&self.input, Place::Record(self.record, self.start), problem, is_end)
    }

    /// Reads as much of `to` as there is.
    fn read(&mut self, to: &mut [u8]) -> Result<usize, TraceError> {
        let mut done = 0;
        while done < to.len() {
            match self.reader.read(&mut to[done..]) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.error(format!("cannot be read: {error}"), true)),
            }
        }
        Ok(done)
    }

    /// Reads a record and its data; `None` at the end.
    fn header(&mut self) -> Result<Option<(Header, bool)>, TraceError> {
        let mut bytes = [0; V8.1];
        let start = self.read(&mut bytes[..4])?;
        if start == 0 {
            return Ok(None);
        }
        (self.record, self.start) = (self.record + 1, self.byte);
        let cut = |has: usize, of: usize| format!("the trace ends within the record: {has} of {of} bytes");
        if start < 4 {
            return Err(self.error(cut(start, V7.1), true));
        }
        let Some((big, version)) = order(&bytes[..4]) else {
            let problem = format!("begins with {:02x?} instead of blktrace's magic number", &bytes[..4]);
            return Err(self.error(problem, true));
        };
        if self.big.is_some_and(|before| before != big) {
            return Err(self.error("has another byte order than the records before it".to_owned(), true));
        }
        self.big = Some(big);
        let Some((_, len)) = [V7, V8].into_iter().find(|known| known.0 == version) else {
            return Err(self.error(format!("has version {version}; 7 and 8 can be read"), true));
        };
        let has = 4 + self.read(&mut bytes[4..len])?;
        if has < len {
            return Err(self.error(cut(has, len), true));
        }
        let header = Header::of(&bytes[..len], big);
        let mut data = std::mem::take(&mut self.data);
        data.resize(header.data, 0);
        let has = self.read(&mut data);
        self.data = data;
        let has = has?;
        if has < header.data {
            return Err(self.error(
                format!("the trace ends within the record's data: {has} of {} bytes", header.data),
                true,
            ));
        }
        Ok(Some((header, big)))
    }

    fn note(&mut self, header: &Header, big: bool) -> Option<Note> {
        let number = |at: usize| Fields { bytes: &self.data, big }.u32(at);
        let text = |data: &[u8]| -> Arc<str> {
            let end = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
            platter_block::text::printable(&String::from_utf8_lossy(&data[..end])).into()
        };
        match header.action & 0xff {
            0 => Some(Note::Process { number: header.process, name: text(&self.data) }),
            1 if self.data.len() >= 8 => Some(Note::Start {
                time_ns: header.time_ns,
                wall_ns: u64::from(number(0)) * 1_000_000_000 + u64::from(number(4)),
            }),
            2 => {
                let at = if header.action & CGROUP != 0 { self.data.len().min(8) } else { 0 };
                self.skipped.cgroups += u64::from(at > 0);
                Some(Note::Message {
                    time_ns: header.time_ns,
                    device: Device::Number(header.device),
                    cpu: header.cpu,
                    text: text(&self.data[at..]),
                })
            }
            _ => None,
        }
    }

    fn event(&mut self, header: &Header) -> Result<Option<Event>, String> {
        let known = (header.action & 0xff) as usize;
        let Some(&action) = known.checked_sub(1).and_then(|number| Action::ALL.get(number)) else {
            return Ok(None);
        };
        let mut data = &self.data[..];
        if header.action & CGROUP != 0 {
            self.skipped.cgroups += 1;
            data = &data[data.len().min(8)..];
        }
        let (direction, flags) = properties(header);
        let (offset, length) = (fields::bytes("sector", header.sector)?, header.bytes);
        fields::place(offset, length)?;
        let extra = extra(action, data);
        self.skipped.data += u64::from(extra == Extra::None && !data.is_empty());
        Ok(Some(Event {
            time_ns: header.time_ns,
            action,
            direction,
            flags,
            offset,
            length,
            device: Device::Number(header.device),
            cpu: header.cpu,
            sequence: header.sequence,
            process: header.process,
            error: header.error,
            latency_ns: None,
            extra,
        }))
    }
}

fn properties(header: &Header) -> (Direction, Flags) {
    let has = |category: u64| header.action & category != 0;
    let direction = match () {
        () if has(DISCARD) => Direction::Discard,
        () if has(WRITE) => Direction::Write,
        // As blkparse has it: a read without data is none.
        () if header.bytes > 0 && has(READ) => Direction::Read,
        () => Direction::None,
    };
    (direction, FLAGS.iter().fold(Flags::NONE, |flags, (flag, category)| flags.with(*flag, has(*category))))
}

/// What the data of a record says, which has the byte order of networks.
fn extra(action: Action, data: &[u8]) -> Extra {
    let number =
        |at: usize, len: usize| Some(Fields { bytes: data.get(..at + len)?, big: true }.number(at, len));
    let found = match action {
        Action::Unplug | Action::UnplugTimer => number(0, 8).map(Extra::Requests),
        Action::Split => number(0, 8).map(Extra::Cut),
        Action::Remap => {
            number(0, 4).zip(number(8, 8)).map(|(device, sector)| Extra::From(device as u32, sector))
        }
        _ => None,
    };
    found.unwrap_or(Extra::None)
}

impl<R: BufRead> Source for Reader<R> {
    fn next(&mut self) -> Result<Option<Item>, TraceError> {
        while !self.ended {
            let Some((header, big)) = self.header()? else {
                self.ended = true;
                break;
            };
            let found = if header.action & NOTIFY != 0 {
                Ok(self.note(&header, big).map(Item::Note))
            } else {
                self.event(&header).map(|event| event.map(Item::Event))
            };
            let error = found.as_ref().err().map(|problem| self.error(problem.clone(), false));
            self.byte += (header.len + header.data) as u64;
            match (error, found.ok().flatten()) {
                (Some(error), _) => return Err(error),
                (None, Some(item)) => return Ok(Some(item)),
                (None, None) => self.skipped.unknown += 1,
            }
        }
        Ok(None)
    }

    fn skipped(&self) -> Skipped {
        self.skipped
    }

    fn place(&self) -> Place {
        Place::Record(self.record, self.start)
    }
}

#[cfg(test)]
mod tests;
