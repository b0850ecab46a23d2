//! The formats: what each is called and what it can hold.

use crate::error::TraceError;
use crate::event::Flags;
use crate::sink::Sink;
use crate::source::{LineSource, Lines, Source};
use crate::{blkparse, blktrace, csv, iolog, reads};
use std::io::BufRead;

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// blktrace's records.
    Blktrace,
    /// blkparse's text.
    Blkparse,
    /// fio's iolog, version 2.
    Iolog2,
    /// fio's iolog, version 3.
    Iolog3,
    /// MSR Cambridge.
    Msr,
    /// Alibaba.
    Alibaba,
    /// Tencent.
    Tencent,
    /// SYSTOR '17.
    Systor,
    /// Storage Performance Council.
    Spc,
    /// Virtual SCSI disks.
    Vscsi,
    /// Reads, as `readahead --trace` has them.
    Reads,
}

/// Where times begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// At the start of the trace.
    Start,
    /// At the start of 1970, or at a time that the format does not say.
    Wall,
    /// There are none.
    None,
}

/// How devices are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    /// By major and minor number.
    Numbers,
    /// By a number of the trace's own.
    Own,
    /// By a word.
    Words,
    /// By host and number.
    Hosts,
    /// Not at all.
    None,
}

/// What a format can hold.
#[derive(Clone, Copy, Debug)]
pub struct Holds {
    /// All events, not only arrivals.
    pub events: bool,
    /// Where times begin.
    pub clock: Clock,
    /// The unit of times, in ns.
    pub unit_ns: u64,
    /// The unit of latencies, in ns, if it has any.
    pub latency_unit_ns: Option<u64>,
    /// Properties of I/Os.
    pub flags: Flags,
    /// Flushes without data.
    pub flushes: bool,
    /// Discards.
    pub discards: bool,
    /// I/Os without a direction.
    pub others: bool,
    /// Writes.
    pub writes: bool,
    /// Bytes, not only whole sectors.
    pub bytes: bool,
    pub(crate) naming: Naming,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The format.
    pub format: Format,
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is.
    pub summary: &'static str,
    /// What it can hold.
    pub holds: Holds,
}

const ALL_FLAGS: Flags = Flags::PREFLUSH.and(Flags::FUA).and(Flags::SYNC).and(Flags::META).and(Flags::AHEAD);

/// A format of arrivals, with reads and writes in bytes and ns.
const PLAIN: Holds = Holds {
    events: false,
    clock: Clock::Wall,
    unit_ns: 1,
    latency_unit_ns: None,
    flags: Flags::NONE,
    flushes: false,
    discards: false,
    others: false,
    writes: true,
    bytes: true,
    naming: Naming::Own,
};

/// A format of events.
const EVENTS: Holds = Holds {
    events: true,
    clock: Clock::Start,
    flags: ALL_FLAGS,
    flushes: true,
    discards: true,
    others: true,
    bytes: false,
    naming: Naming::Numbers,
    ..PLAIN
};

const IOLOG: Holds = Holds {
    clock: Clock::Start,
    unit_ns: 1_000,
    flushes: true,
    discards: true,
    naming: Naming::Words,
    ..PLAIN
};

/// Every format.
pub const TABLE: &[Row] = &[
    Row {
        format: Format::Blktrace,
        name: "blktrace",
        summary: "binary records of blktrace, versions 7 and 8, one file or one for each processor; written as version 7",
        holds: Holds { flags: ALL_FLAGS.and(Flags::COMMAND), ..EVENTS },
    },
    Row {
        format: Format::Blkparse,
        name: "blkparse",
        summary: "the text that blkparse prints by default, and bench io --trace",
        holds: EVENTS,
    },
    Row {
        format: Format::Iolog2,
        name: "iolog2",
        summary: "fio's iolog, version 2: times in whole ms",
        holds: Holds { unit_ns: 1_000_000, ..IOLOG },
    },
    Row {
        format: Format::Iolog3,
        name: "iolog3",
        summary: "fio's iolog, version 3 (fio 3.31): times in us",
        holds: IOLOG,
    },
    Row {
        format: Format::Msr,
        name: "msr",
        summary: "MSR Cambridge: Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime",
        holds: Holds { unit_ns: 100, latency_unit_ns: Some(100), naming: Naming::Hosts, ..PLAIN },
    },
    Row {
        format: Format::Alibaba,
        name: "alibaba",
        summary: "Alibaba 2020: device_id,opcode,offset,length,timestamp",
        holds: Holds { unit_ns: 1_000, ..PLAIN },
    },
    Row {
        format: Format::Tencent,
        name: "tencent",
        summary: "Tencent 2020: Timestamp,Offset,Size,IOType,VolumeID; whole seconds",
        holds: Holds { unit_ns: 1_000_000_000, bytes: false, ..PLAIN },
    },
    Row {
        format: Format::Systor,
        name: "systor",
        summary: "SYSTOR '17: Timestamp,Response,IOType,LUN,Offset,Size",
        holds: Holds { latency_unit_ns: Some(1), others: true, ..PLAIN },
    },
    Row {
        format: Format::Spc,
        name: "spc",
        summary: "Storage Performance Council, UMass: ASU,LBA,Size,Opcode,Timestamp",
        holds: Holds { clock: Clock::Start, unit_ns: 1_000, bytes: false, ..PLAIN },
    },
    Row {
        format: Format::Vscsi,
        name: "vscsi",
        summary: "virtual SCSI disks as CSV, with a first line that names cmd, len, lbn, ts and perhaps rt",
        holds: Holds {
            unit_ns: 1_000,
            latency_unit_ns: Some(1_000),
            flushes: true,
            discards: true,
            bytes: false,
            naming: Naming::None,
            ..PLAIN
        },
    },
    Row {
        format: Format::Reads,
        name: "reads",
        summary: "what readahead --trace reads: thread handle offset length; never detected",
        holds: Holds { clock: Clock::None, writes: false, ..PLAIN },
    },
];

/// Bytes from the beginning of an input that [`Format::detect`] looks at.
pub const DETECT: usize = 4096;

impl Format {
    /// The format of a name.
    pub fn by_name(name: &str) -> Option<Format> {
        TABLE.iter().find(|row| row.name == name).map(|row| row.format)
    }

    /// Its row.
    pub fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// What it can hold.
    pub fn holds(self) -> &'static Holds {
        &self.row().holds
    }

    /// The format of an input that begins like this, where its contents leave no doubt.
    pub fn detect(start: &[u8]) -> Option<Format> {
        if blktrace::is_start(start) {
            return Some(Format::Blktrace);
        }
        let text = String::from_utf8_lossy(&start[..start.len().min(DETECT)]);
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        // blkparse without -q says first what it reads.
        let first = lines.find(|line| !line.starts_with("Input file "))?;
        match iolog::version(first) {
            Some(2) => return Some(Format::Iolog2),
            Some(_) => return Some(Format::Iolog3),
            None => {}
        }
        type Is = fn(&str) -> bool;
        const FIRST: [(Format, Is); 7] = [
            (Format::Blkparse, blkparse::is_record),
            (Format::Msr, csv::msr::is_line),
            (Format::Systor, csv::systor::is_line),
            (Format::Alibaba, csv::alibaba::is_line),
            (Format::Tencent, csv::tencent::is_line),
            (Format::Vscsi, csv::vscsi::is_line),
            (Format::Spc, csv::spc::is_line),
        ];
        FIRST.iter().find(|(_, is)| is(first)).map(|(format, _)| *format)
    }

    /// The format that the end of a file's name says: only of names that tools give.
    pub fn of_name(name: &str) -> Option<Format> {
        let processor =
            name.rsplit_once('.').filter(|(_, end)| end.bytes().all(|byte| byte.is_ascii_digit()));
        match name.rsplit_once('.').map(|(_, end)| end) {
            _ if processor.is_some_and(|(start, _)| start.ends_with(".blktrace")) => Some(Format::Blktrace),
            Some("blktrace" | "dump") => Some(Format::Blktrace),
            Some("iolog") => Some(Format::Iolog3),
            Some("blkparse") => Some(Format::Blkparse),
            _ => None,
        }
    }

    /// A reader; `name` is that of the input in messages.
    pub fn read<'r, R: BufRead + 'r>(self, reader: R, name: &str) -> Box<dyn Source + 'r> {
        fn lines<'r, R: BufRead + 'r, L: Lines + 'r>(
            reader: R,
            name: &str,
            lines: L,
        ) -> Box<dyn Source + 'r> {
            Box::new(LineSource::new(reader, name, lines))
        }
        match self {
            Format::Blktrace => Box::new(blktrace::Reader::new(reader, name)),
            Format::Blkparse => lines(reader, name, blkparse::Text::default()),
            Format::Iolog2 => lines(reader, name, iolog::Iolog::new(2)),
            Format::Iolog3 => lines(reader, name, iolog::Iolog::new(3)),
            Format::Msr => lines(reader, name, csv::msr::Msr::default()),
            Format::Alibaba => lines(reader, name, csv::alibaba::Alibaba::default()),
            Format::Tencent => lines(reader, name, csv::tencent::Tencent::default()),
            Format::Systor => lines(reader, name, csv::systor::Systor::default()),
            Format::Spc => lines(reader, name, csv::spc::Spc::default()),
            Format::Vscsi => lines(reader, name, csv::vscsi::Vscsi::default()),
            Format::Reads => lines(reader, name, reads::Reads::default()),
        }
    }

    pub(crate) fn sink(self) -> Box<dyn Sink> {
        match self {
            Format::Blktrace => Box::new(blktrace::Writer),
            Format::Blkparse => Box::new(blkparse::Writer::default()),
            Format::Iolog2 => Box::new(iolog::Writer::new(2)),
            Format::Iolog3 => Box::new(iolog::Writer::new(3)),
            Format::Msr => Box::new(csv::msr::Writer),
            Format::Alibaba => Box::new(csv::alibaba::Writer::default()),
            Format::Tencent => Box::new(csv::tencent::Writer::default()),
            Format::Systor => Box::new(csv::systor::Writer::default()),
            Format::Spc => Box::new(csv::spc::Writer::default()),
            Format::Vscsi => Box::new(csv::vscsi::Writer::default()),
            Format::Reads => Box::new(reads::Writer::default()),
        }
    }
}

/// Reads a whole input, for programs that have it in memory.
///
/// # Errors
/// The first record that is malformed.
pub fn read_all(format: Format, bytes: &[u8], name: &str) -> Result<Vec<crate::Item>, TraceError> {
    let mut source = format.read(bytes, name);
    let mut items = Vec::new();
    while let Some(item) = source.next()? {
        items.push(item);
    }
    Ok(items)
}

#[cfg(test)]
mod tests;
