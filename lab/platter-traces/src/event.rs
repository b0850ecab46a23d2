//! What the records of all formats have in common.

use std::sync::Arc;

/// Bytes of a sector.
pub const SECTOR: u64 = 512;

/// What happened, in blktrace's terms. A format without events has only [`Action::Queue`]: an I/O arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Action {
    /// An I/O arrived.
    Queue = 1,
    /// It was put behind a request.
    BackMerge,
    /// It was put in front of a request.
    FrontMerge,
    /// It became a request.
    GetRequest,
    /// It waits for a request.
    Sleep,
    /// A request came back from the driver.
    Requeue,
    /// A request went to the driver.
    Issue,
    /// A request ended.
    Complete,
    /// A queue is held back.
    Plug,
    /// A queue runs again.
    Unplug,
    /// It does, because time was over.
    UnplugTimer,
    /// A request went to the scheduler.
    Insert,
    /// An I/O was cut in two.
    Split,
    /// The data of an I/O was copied.
    Bounce,
    /// An I/O was sent on to another device.
    Remap,
    /// A request was given up.
    Abort,
    /// Data of the driver.
    DriverData,
}

impl Action {
    /// All, in the order of blktrace's numbers, which begin with 1.
    pub const ALL: [Action; 17] = [
        Action::Queue,
        Action::BackMerge,
        Action::FrontMerge,
        Action::GetRequest,
        Action::Sleep,
        Action::Requeue,
        Action::Issue,
        Action::Complete,
        Action::Plug,
        Action::Unplug,
        Action::UnplugTimer,
        Action::Insert,
        Action::Split,
        Action::Bounce,
        Action::Remap,
        Action::Abort,
        Action::DriverData,
    ];

    /// The letters of blkparse.
    pub fn letters(self) -> &'static str {
        const LETTERS: [&str; 17] =
            ["Q", "M", "F", "G", "S", "R", "D", "C", "P", "U", "UT", "I", "X", "B", "A", "AB", "DD"];
        LETTERS[self as usize - 1]
    }

    /// Whether it concerns a queue, and no I/O.
    pub(crate) fn is_of_queue(self) -> bool {
        matches!(self, Action::Plug | Action::Unplug | Action::UnplugTimer)
    }
}

/// The direction of an I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Direction {
    /// No data, and nothing discarded.
    #[default]
    None,
    /// From the device.
    Read,
    /// To the device.
    Write,
    /// Contents given up.
    Discard,
}

/// Further properties of an I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(u8);

impl Flags {
    /// None.
    pub const NONE: Flags = Flags(0);
    /// The device's cache is flushed before it. Without data it is only a flush.
    pub const PREFLUSH: Flags = Flags(1);
    /// It is durable when it completes.
    pub const FUA: Flags = Flags(2);
    /// Its submitter waits for it.
    pub const SYNC: Flags = Flags(4);
    /// It is metadata of a file system.
    pub const META: Flags = Flags(8);
    /// It is readahead.
    pub const AHEAD: Flags = Flags(16);
    /// It is a command of the device's own set, and its place and length are not known.
    pub const COMMAND: Flags = Flags(32);
    /// It is a write of zeroes without data. Only records of blktrace's version 8 say so; elsewhere it is a write.
    pub const ZEROES: Flags = Flags(64);

    /// Each that is lost when a format does not have it, with its name in counts.
    pub const NAMED: [(Flags, &'static str); 6] = [
        (Flags::PREFLUSH, "preflush_flags"),
        (Flags::FUA, "fua_flags"),
        (Flags::SYNC, "sync_flags"),
        (Flags::META, "meta_flags"),
        (Flags::AHEAD, "ahead_flags"),
        (Flags::ZEROES, "zeroes_flags"),
    ];

    /// Both.
    pub const fn and(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Only those that are in both.
    pub const fn only(self, other: Flags) -> Flags {
        Flags(self.0 & other.0)
    }

    /// Whether it has all of the other.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// With the other, if it is wanted.
    pub(crate) fn with(self, other: Flags, wanted: bool) -> Flags {
        if wanted { self.and(other) } else { self }
    }
}

/// The device of an I/O.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Device {
    /// By its number: major number in the upper twelve bits, minor number below.
    Number(u32),
    /// By the name that the format gives it.
    Name(Arc<str>),
}

impl Device {
    /// The number as blkparse writes it, or the name.
    pub fn text(&self) -> String {
        match self {
            Device::Number(number) => format!("{},{}", number >> 20, number & 0xf_ffff),
            Device::Name(name) => name.to_string(),
        }
    }
}

/// What some events have in addition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extra {
    /// Nothing.
    #[default]
    None,
    /// How many requests an unplugged queue had.
    Requests(u64),
    /// The sector at which an I/O was cut.
    Cut(u64),
    /// Where an I/O was before it was sent on: number of the device, sector.
    From(u32, u64),
}

/// The kinds that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A read.
    Read,
    /// A write.
    Write,
    /// A discard.
    Discard,
    /// A flush without data.
    Flush,
    /// Anything else: commands of the device's own set, empty requests.
    Other,
}

/// A record about an I/O.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Since the start of the trace, or since 1970 where the format has wall-clock times, in ns.
    pub time_ns: u64,
    /// What happened.
    pub action: Action,
    /// Direction.
    pub direction: Direction,
    /// Further properties.
    pub flags: Flags,
    /// Place on the device, in bytes.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// The device.
    pub device: Device,
    /// The processor.
    pub cpu: u32,
    /// Number among the records of the processor.
    pub sequence: u32,
    /// The process.
    pub process: u32,
    /// Error number of a completion; 0 for none.
    pub error: u16,
    /// How long the I/O took, where the format says so in the record of its arrival.
    pub latency_ns: Option<u64>,
    /// More.
    pub extra: Extra,
}

impl Event {
    /// An I/O that arrived.
    pub fn arrival(time_ns: u64, direction: Direction, offset: u64, length: u64, device: Device) -> Event {
        Event {
            time_ns,
            action: Action::Queue,
            direction,
            flags: Flags::NONE,
            offset,
            length,
            device,
            cpu: 0,
            sequence: 0,
            process: 0,
            error: 0,
            latency_ns: None,
            extra: Extra::None,
        }
    }

    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self.direction {
            _ if self.flags.has(Flags::COMMAND) => Kind::Other,
            Direction::Discard => Kind::Discard,
            _ if self.length == 0 && self.flags.has(Flags::PREFLUSH) => Kind::Flush,
            Direction::Read => Kind::Read,
            Direction::Write => Kind::Write,
            Direction::None => Kind::Other,
        }
    }

    /// The first byte behind it.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.length)
    }
}

/// A record about the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// The name of a process.
    Process {
        /// Its number.
        number: u32,
        /// Its name.
        name: Arc<str>,
    },
    /// The wall-clock time of a moment of the trace.
    Start {
        /// The moment.
        time_ns: u64,
        /// Since 1970, in ns.
        wall_ns: u64,
    },
    /// A message in the trace.
    Message {
        /// When.
        time_ns: u64,
        /// About which device.
        device: Device,
        /// On which processor it was written.
        cpu: u32,
        /// Its text.
        text: Arc<str>,
    },
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// About an I/O.
    Event(Event),
    /// About the trace.
    Note(Note),
}
