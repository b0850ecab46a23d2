//! A CD writer: a buffer that is filled by commands and drained by the laser at a constant rate.
//!
//! The disk takes SCSI commands only, as writers do: WRITE (10) in blocks of 2,048 bytes, READ BUFFER CAPACITY, SYNCHRONIZE
//! CACHE, which ends the recording, and TEST UNIT READY (MMC-3). A write completes when the buffer has room for its data. The
//! laser starts when the buffer is full, or when the recording ends, and stops when the buffer is empty before that: an
//! *underrun*. A writer of today starts again when the buffer is full again; one without that function has spoilt the disc.
//!
//! The model has no published figures to be compared with: it is an illustration.

use platter_block::command::{CommandSet, CommandSets, Outcome, Sense};
use platter_block::disk::{Disk, DiskChannel};
use platter_block::driver::{Completion, Driver, Features, Geometry, Started};
use platter_block::fault::Error;
use platter_block::limits::Limits;
use platter_block::time::{Span, Time, VirtualClock};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a block.
pub const BLOCK: u64 = 2048;

/// Bytes that a writer records in a second at speed 1: 75 blocks.
pub const SPEED_1: u64 = 75 * BLOCK;

/// Blocks of a disc of 80 minutes.
const BLOCKS: u64 = 80 * 60 * 75;

const SECOND: u64 = 1_000_000_000;

const TEST_UNIT_READY: u8 = 0x00;
const WRITE_10: u8 = 0x2a;
const SYNCHRONIZE_CACHE: u8 = 0x35;
const READ_BUFFER_CAPACITY: u8 = 0x5c;

/// What a recording has met so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recording {
    /// Bytes on the disc.
    pub recorded: u64,
    /// How often the buffer was empty before the end.
    pub underruns: u64,
    /// Least bytes in the buffer when data arrived after the laser had started; the size of the buffer before that.
    pub least_buffered: u64,
}

/// A CD writer with a disc in it.
#[derive(Clone)]
pub struct CdWriter {
    state: Arc<Mutex<State>>,
    clock: Arc<VirtualClock>,
    buffer: u64,
}

struct State {
    /// Bytes per second.
    rate: u64,
    /// Size of the buffer, and what is in it, in bytes times [`SECOND`], so that no fraction is lost.
    room: u128,
    level: u128,
    /// The time of `level`.
    at: Time,
    /// The laser is on.
    on: bool,
    waiting: VecDeque<Waiting>,
    recording: Recording,
}

struct Waiting {
    port: Arc<Mutex<Vec<Completion>>>,
    tag: u32,
    /// Bytes that it writes; `None`: it ends the recording.
    bytes: Option<u64>,
}

fn parts(bytes: u64) -> u128 {
    u128::from(bytes) * u128::from(SECOND)
}

impl CdWriter {
    /// A writer of this speed (1: 150 KiB/s) with a buffer of `buffer` bytes, in the time of `clock`.
    pub fn new(clock: &Arc<VirtualClock>, speed: u32, buffer: u64) -> CdWriter {
        let recording = Recording { recorded: 0, underruns: 0, least_buffered: buffer };
        let state = State {
            rate: SPEED_1 * u64::from(speed.max(1)),
            room: parts(buffer),
            level: 0,
            at: clock.now(),
            on: false,
            waiting: VecDeque::new(),
            recording,
        };
        CdWriter { state: Arc::new(Mutex::new(state)), clock: Arc::clone(clock), buffer }
    }

    /// What the recording has met so far.
    pub fn recording(&self) -> Recording {
        self.state().recording
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The laser has been on until `now`, or until the buffer was empty.
    fn drain(&mut self, now: Time) {
        let due = if self.on { u128::from(now.since(self.at).0) * u128::from(self.rate) } else { 0 };
        self.at = now;
        let drained = due.min(self.level);
        self.level -= drained;
        if due > 0 && self.level == 0 {
            self.on = false;
            let ends = self.waiting.front().is_some_and(|first| first.bytes.is_none());
            self.recording.underruns += u64::from(!ends);
        }
    }

    fn fits(&self, bytes: u64) -> bool {
        self.level + parts(bytes) <= self.room
    }

    /// Completes what can be, and starts the laser if the next command waits for it.
    fn advance(&mut self, now: Time) {
        self.drain(now);
        while let Some(first) = self.waiting.front() {
            let is_over = match first.bytes {
                Some(bytes) => self.fits(bytes),
                None => self.level == 0,
            };
            if !is_over {
                self.on = true;
                return;
            }
            if let Some(bytes) = first.bytes {
                if self.on {
                    let level = (self.level / u128::from(SECOND)) as u64;
                    self.recording.least_buffered = self.recording.least_buffered.min(level);
                }
                self.level += parts(bytes);
                self.recording.recorded += bytes;
            }
            let completion = Completion { tag: first.tag, result: first.bytes.unwrap_or(0) as i64 };
            first.port.lock().unwrap_or_else(PoisonError::into_inner).push(completion);
            self.waiting.pop_front();
        }
    }

    /// When the next command completes.
    fn next_event(&self) -> Option<Time> {
        let first = self.waiting.front()?;
        let excess = match first.bytes {
            Some(bytes) => (self.level + parts(bytes)).saturating_sub(self.room),
            None => self.level,
        };
        Some(self.at + Span(excess.div_ceil(u128::from(self.rate)) as u64))
    }
}

impl Disk for CdWriter {
    fn name(&self) -> Arc<str> {
        Arc::from("cd-writer")
    }

    fn geometry(&self) -> Geometry {
        // 512: the alignment for direct memory access of Linux 2.6.
        let limits = Limits::unlimited(BLOCK as u32).with_memory_align(512).with_max_transfer(65536);
        let commands = CommandSets::NONE.with(CommandSet::Scsi);
        Geometry::new(BLOCKS * BLOCK, limits).with_features(Features::default().with_commands(commands))
    }

    fn open_channel(&self, _lane_use: platter_block::backend::LaneUse) -> Result<DiskChannel, Error> {
        Ok(DiskChannel::new(Channel { writer: self.clone(), done: Arc::default() }))
    }

    fn clock(&self) -> Option<Arc<VirtualClock>> {
        Some(Arc::clone(&self.clock))
    }
}

struct Channel {
    writer: CdWriter,
    done: Arc<Mutex<Vec<Completion>>>,
}

/// ILLEGAL REQUEST with an additional sense code, in fixed format.
fn refused(code: u8) -> Outcome {
    let mut sense = [0; 18];
    (sense[0], sense[2], sense[7], sense[12]) = (0x70, 5, 10, code);
    Outcome { status: 2, sense: Sense::new(&sense), ..Outcome::GOOD }
}

const INVALID_OPERATION_CODE: u8 = 0x20;
const INVALID_FIELD: u8 = 0x24;
const EREMOTEIO: i64 = -121;
const EOPNOTSUPP: i64 = -95;

impl Channel {
    fn end(&self, request: &Started<'_>, result: i64) {
        let completion = Completion { tag: request.tag, result };
        self.done.lock().unwrap_or_else(PoisonError::into_inner).push(completion);
    }

    fn refuse(&self, request: &Started<'_>, code: u8) {
        if let Some(command) = request.command() {
            command.set_outcome(&refused(code));
        }
        self.end(request, EREMOTEIO);
    }

    fn buffer(&self, now: Time, request: &Started<'_>, bytes: Option<u64>) {
        let mut state = self.writer.state();
        let port = Arc::clone(&self.done);
        state.drain(now);
        state.waiting.push_back(Waiting { port, tag: request.tag, bytes });
        state.advance(now);
    }

    /// Length and free bytes of the buffer.
    #[allow(unsafe_code)]
    fn report_capacity(&self, now: Time, request: &Started<'_>) {
        let mut state = self.writer.state();
        state.drain(now);
        let level = state.level.div_ceil(u128::from(SECOND)) as u64;
        drop(state);
        let mut data = [0; 12];
        data[1] = 10;
        data[4..8].copy_from_slice(&(self.writer.buffer as u32).to_be_bytes());
        data[8..12].copy_from_slice(&((self.writer.buffer - level) as u32).to_be_bytes());
        let mut rest = &data[..];
        request.for_each_segment(|segment| {
            let (part, after) = rest.split_at(rest.len().min(segment.len() as usize));
            // SAFETY: the request is being handed over, so its memory is the driver's, and the command brings data.
            unsafe { segment.slice(0, part.len() as u32).copy_from(part) };
            rest = after;
        });
        let done = data.len() - rest.len();
        self.end(request, done as i64);
    }
}

impl Driver for Channel {
    fn queue(&mut self, now: Time, request: &Started<'_>) -> bool {
        let Some(command) = request.command() else {
            self.end(request, EOPNOTSUPP);
            return true;
        };
        command.set_outcome(&Outcome::GOOD);
        let bytes = command.bytes();
        match (bytes.first(), bytes.get(7..9)) {
            (Some(&TEST_UNIT_READY), _) => self.end(request, 0),
            (Some(&WRITE_10), Some(&[high, low])) => {
                let bytes = u64::from(u16::from_be_bytes([high, low])) * BLOCK;
                match bytes == request.len && bytes <= self.writer.buffer {
                    true => self.buffer(now, request, Some(bytes)),
                    false => self.refuse(request, INVALID_FIELD),
                }
            }
            (Some(&SYNCHRONIZE_CACHE), _) => self.buffer(now, request, None),
            (Some(&READ_BUFFER_CAPACITY), _) => self.report_capacity(now, request),
            _ => self.refuse(request, INVALID_OPERATION_CODE),
        }
        true
    }

    fn submit(&mut self, _now: Time) {}

    fn reap(&mut self, now: Time, done: &mut Vec<Completion>) {
        self.writer.state().advance(now);
        done.append(&mut self.done.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn next_event(&self) -> Option<Time> {
        if !self.done.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
            return Some(self.writer.clock.now());
        }
        self.writer.state().next_event()
    }
}
