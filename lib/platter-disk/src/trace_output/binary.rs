//! Events as the records of `blktrace` (`struct blk_io_trace` of `linux/blktrace_api.h`): 48 bytes in the order of the
//! machine, and for some actions data behind them.

use super::{PROCESS, SECTOR, Stamp};
use platter_block::bio::{Flags, Op};
use platter_block::trace::{Action, Event};
use std::time::{SystemTime, UNIX_EPOCH};

/// `BLK_IO_TRACE_MAGIC` with the version of the records, 7.
const MAGIC: u32 = 0x6561_7407;

// Categories of events, in the bits above the number of the action.
const READ: u32 = 1 << 16;
const WRITE: u32 = 1 << 17;
const FLUSH: u32 = 1 << 18;
const SYNC: u32 = 1 << 19;
const QUEUE: u32 = 1 << 20;
const REQUEUE: u32 = 1 << 21;
const ISSUE: u32 = 1 << 22;
const COMPLETE: u32 = 1 << 23;
const PC: u32 = 1 << 25;
const NOTIFY: u32 = 1 << 26;
const AHEAD: u32 = 1 << 27;
const DISCARD: u32 = 1 << 29;
const FUA: u32 = 1 << 31;

// Notes about the trace itself.
const PROCESS_NAME: u32 = NOTIFY;
const TIMESTAMP: u32 = NOTIFY | 1;
const MESSAGE: u32 = NOTIFY | 2;

/// A record without its data.
#[derive(Default)]
struct Record {
    at: Stamp,
    sector: u64,
    bytes: u32,
    action: u32,
    error: u16,
}

impl Record {
    fn with(&self, data: &[u8]) -> Vec<u8> {
        let Record { at, sector, bytes, action, error } = self;
        let mut out = Vec::with_capacity(48 + data.len());
        out.extend(MAGIC.to_ne_bytes());
        out.extend(at.sequence.to_ne_bytes());
        out.extend(at.ns.to_ne_bytes());
        out.extend(sector.to_ne_bytes());
        out.extend(bytes.to_ne_bytes());
        out.extend(action.to_ne_bytes());
        out.extend(at.process().to_ne_bytes());
        // Major 0; the minor number takes the lower 20 bits.
        out.extend(at.device.to_ne_bytes());
        out.extend(at.queue.to_ne_bytes());
        out.extend(error.to_ne_bytes());
        out.extend((data.len() as u16).to_ne_bytes());
        out.extend(data);
        out
    }
}

/// The records at the head of the file: when it was made, and the name of the process.
pub(super) fn begin() -> Vec<u8> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let time = [(now.as_secs() as u32).to_ne_bytes(), now.subsec_nanos().to_ne_bytes()].concat();
    let note = Record { action: TIMESTAMP, ..Record::default() };
    [note.with(&time), process(Stamp::default())].concat()
}

/// The record that names a process.
pub(super) fn process(at: Stamp) -> Vec<u8> {
    let mut name = [0; 16];
    name[..PROCESS.len()].copy_from_slice(PROCESS.as_bytes());
    let at = Stamp { process: at.process, ns: at.ns, ..Stamp::default() };
    Record { at, action: PROCESS_NAME, ..Record::default() }.with(&name)
}

/// The message that names a device.
pub(super) fn name(device: u32, name: &str) -> Vec<u8> {
    let at = Stamp { device, ..Stamp::default() };
    // The kernel's messages are at most this long.
    let end = (0..=name.len().min(128)).rev().find(|&end| name.is_char_boundary(end)).unwrap_or(0);
    Record { at, action: MESSAGE, ..Record::default() }.with(&name.as_bytes()[..end])
}

/// The record of an event.
pub(super) fn event(at: Stamp, event: &Event) -> Vec<u8> {
    let (number, category) = action(event.action);
    let data = match event.action {
        Action::Unplug | Action::UnplugTimer | Action::Split => event.extra.to_be_bytes().to_vec(),
        _ => Vec::new(),
    };
    let about = match event.action {
        Action::Plug | Action::Unplug | Action::UnplugTimer => 0,
        _ => direction(event),
    };
    let record = Record {
        at,
        sector: event.pos / SECTOR,
        bytes: u32::try_from(event.len).unwrap_or(u32::MAX),
        action: number | category | about,
        error: u16::try_from(event.errno).unwrap_or(u16::MAX),
    };
    record.with(&data)
}

/// blktrace's number of an action, and its category.
fn action(action: Action) -> (u32, u32) {
    match action {
        Action::Queue => (1, QUEUE),
        Action::BackMerge => (2, QUEUE),
        Action::FrontMerge => (3, QUEUE),
        Action::GetRequest => (4, QUEUE),
        Action::Sleep => (5, QUEUE),
        Action::Requeue => (6, REQUEUE),
        Action::Issue => (7, ISSUE),
        Action::Complete => (8, COMPLETE),
        Action::Plug => (9, QUEUE),
        Action::Unplug => (10, QUEUE),
        Action::UnplugTimer => (11, QUEUE),
        Action::Insert => (12, QUEUE),
        Action::Split => (13, 0),
        // Future actions have no number in blktrace: its tools treat this number as a message of the driver.
        _ => (17, 0),
    }
}

fn direction(event: &Event) -> u32 {
    let direction = match event.op {
        Op::Read => READ,
        Op::Write | Op::WriteZeroes => WRITE,
        Op::Flush => WRITE | FLUSH,
        Op::Discard => WRITE | DISCARD,
        Op::Command => PC,
    };
    let flag = |flags: Flags, bit| if event.flags.intersects(flags) { bit } else { 0 };
    direction
        | flag(Flags::PREFLUSH | Flags::HARD_BARRIER, FLUSH)
        | flag(Flags::FUA, FUA)
        | flag(Flags::READAHEAD, AHEAD)
        | flag(Flags::SYNC, SYNC)
}
