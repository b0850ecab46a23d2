//! A disk that the test controls: requests take effect when the test completes them.

#![allow(unsafe_code)]

use platter_block::bio::{Bio, Flags, Op};
use platter_block::command::{Command, CommandSet, CommandSets, Outcome, Reach, Sense, Transfer};
use platter_block::disk::FnDisk;
use platter_block::driver::{Completion, Driver, Features, Geometry, Outstanding, Started};
use platter_block::fault::{Error, Fault, Kind};
use platter_block::limits::Limits;
use platter_block::queue::Settings;
use platter_block::segment::Segment;
use platter_block::time::{Span, Time, VirtualClock};
use platter_disk::channel::Channel;
use platter_disk::device::Device;
use platter_disk::disk_backend::{DiskSettings, OnReturn};
use platter_elevators::by_name;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

pub(crate) const SIZE: u64 = 1 << 20;

/// A deadline that a bio represents exactly.
pub(crate) const SECOND: Span = Span(1024 * 1024 * 1024);

struct Held {
    number: u64,
    wire: Arc<Wire>,
    tag: u32,
    /// The operation; of a command, the one that it amounts to.
    op: Op,
    pos: u64,
    len: u64,
    command: Option<Arc<Command>>,
    /// The data of a write.
    data: Vec<u8>,
    /// The memory of a read.
    segments: Vec<Segment>,
}

/// State shared by the disk and one channel.
#[derive(Default)]
struct Wire {
    done: Mutex<Vec<Completion>>,
    outstanding: AtomicU32,
    dead: AtomicBool,
}

impl Outstanding for Wire {
    fn outstanding(&self) -> u32 {
        self.outstanding.load(Ordering::SeqCst)
    }
}

#[derive(Default)]
struct State {
    contents: Vec<u8>,
    held: Vec<Held>,
    opened: usize,
    /// Ranges of held requests that are late.
    late: Vec<(u64, u64, u64)>,
    /// Requests that started although they overlap such a range.
    violations: Vec<String>,
    /// Operation and position of requests, in the order of arrival.
    starts: Vec<(Op, u64)>,
    /// Number of the next request.
    next: u64,
}

/// Options of a disk and its device.
pub(crate) struct Options {
    pub(crate) elevator: &'static str,
    pub(crate) queue: Settings,
    pub(crate) features: Features,
    /// Whether the device runs in virtual time.
    pub(crate) simulated: bool,
    /// Whether other threads can see a channel's outstanding requests.
    pub(crate) visible: bool,
    /// Channels hold bios back until they are polled.
    pub(crate) caller_plug: bool,
    pub(crate) on_return: OnReturn,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            elevator: "none",
            queue: Settings {
                timeout: Some(SECOND),
                slow_timeout: Some(SECOND),
                plug: None,
                depth: 8,
                ..Settings::default()
            },
            features: Features::default().with_write_cache(true).with_fua(true).with_commands(SCSI),
            simulated: true,
            visible: false,
            caller_plug: true,
            on_return: OnReturn::Refresh,
        }
    }
}

pub(crate) struct Disk {
    state: Mutex<State>,
    changed: Condvar,
    clock: Arc<VirtualClock>,
    visible: bool,
}

thread_local! {
    static MEANWHILE: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

/// When this thread next waits in a channel's driver, it sleeps as long as this function runs.
pub(crate) fn meanwhile(what: impl FnOnce() + 'static) {
    MEANWHILE.set(Some(Box::new(what)));
}

impl Disk {
    pub(crate) fn open(options: Options) -> (Arc<Disk>, Device) {
        let contents = vec![0; SIZE as usize];
        let disk = Arc::new(Disk {
            state: Mutex::new(State { contents, ..State::default() }),
            changed: Condvar::new(),
            clock: Arc::new(VirtualClock::new()),
            visible: options.visible,
        });
        disk.clock.advance_to(Time(1024));
        let channels = Arc::clone(&disk);
        let limits = Limits::unlimited(512).with_max_transfer(65536);
        let geometry = Geometry::new(SIZE, limits).with_features(options.features);
        let clock = options.simulated.then(|| Arc::clone(&disk.clock));
        let channels = FnDisk::new("disk", geometry, move |_| channels.channel()).with_clock(clock);
        let settings = DiskSettings::default()
            .with_queue(options.queue)
            .with_caller_plug(options.caller_plug)
            .with_on_return(options.on_return);
        let elevator = by_name(options.elevator).map(|row| (row.make)());
        let device = Device::from_disk(channels, settings, elevator).unwrap();
        (disk, device)
    }

    fn channel(self: &Arc<Disk>) -> Result<Box<dyn Driver>, Error> {
        let mut state = self.state();
        state.opened += 1;
        Ok(Box::new(Port { disk: Arc::clone(self), wire: Arc::default() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Advances virtual time.
    pub(crate) fn pass(&self, span: Span) {
        self.clock.advance_to(self.clock.now() + span);
    }

    /// Positions of the requests that the disk has, in the order of arrival.
    pub(crate) fn held(&self) -> Vec<u64> {
        self.state().held.iter().map(|held| held.pos).collect()
    }

    /// Blocks until the disk has `count` requests.
    pub(crate) fn wait_for(&self, count: usize) {
        let mut state = self.state();
        while state.held.len() != count {
            state = self.changed.wait(state).unwrap();
        }
    }

    /// A change of this range is late: the part that the disk still has may be carried out at any time.
    pub(crate) fn note_late(&self, pos: u64, end: u64) {
        let mut state = self.state();
        let changes = state.held.iter().filter(|held| held.op.changes());
        let ranges = changes.map(|held| (held.number, pos.max(held.pos), end.min(held.pos + held.len)));
        let late: Vec<_> = ranges.filter(|(_, from, to)| from < to).collect();
        state.late.extend(late);
    }

    /// Whether a late change that overlaps a range is in flight.
    pub(crate) fn is_late(&self, pos: u64, end: u64) -> bool {
        self.state().late.iter().any(|&(_, from, to)| pos < to && from < end)
    }

    pub(crate) fn has_flush(&self) -> bool {
        self.state().held.iter().any(|held| held.op == Op::Flush)
    }

    /// Requests that arrived since the last call.
    pub(crate) fn take_starts(&self) -> Vec<(Op, u64)> {
        std::mem::take(&mut self.state().starts)
    }

    /// Requests that started although they should not have.
    pub(crate) fn violations(&self) -> Vec<String> {
        self.state().violations.clone()
    }

    /// The time of the disk and its device.
    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Channels that were opened so far.
    pub(crate) fn opened(&self) -> usize {
        self.state().opened
    }

    /// Completes the first request at `pos`.
    pub(crate) fn finish(&self, pos: u64) {
        self.finish_with(pos, None);
    }

    /// The same with a result that the test chooses.
    pub(crate) fn finish_with(&self, pos: u64, result: Option<i64>) {
        let mut state = self.state();
        let at = state.held.iter().position(|held| held.pos == pos).expect("the disk has it");
        let held = state.held.remove(at);
        state.end(&held, result);
        self.changed.notify_all();
    }

    /// Completes everything, in order.
    pub(crate) fn finish_all(&self) {
        let mut state = self.state();
        for held in std::mem::take(&mut state.held) {
            state.end(&held, None);
        }
        self.changed.notify_all();
    }

    /// The present channels die: their requests fail, and so do new ones.
    pub(crate) fn kill(&self) {
        let mut state = self.state();
        for held in std::mem::take(&mut state.held) {
            held.wire.dead.store(true, Ordering::SeqCst);
            state.end(&held, Some(-5));
        }
    }

    /// The byte at `pos`.
    pub(crate) fn byte(&self, pos: u64) -> u8 {
        self.state().contents[pos as usize]
    }
}

/// Operation and range of a request. A command is a read or a write of the range that it names; one that may change
/// anything zeroes the device, and one that concerns no blocks has an empty range where its submitter likes.
fn range_of(request: &Started<'_>) -> (Op, u64, u64) {
    let Some(command) = request.command() else { return (request.op, request.pos, request.len) };
    match command.reach() {
        Reach::Nothing => (Op::Command, NOWHERE, 0),
        Reach::Reads { pos, len } => (Op::Read, pos, len),
        Reach::Changes { pos, len } => (Op::Write, pos, len),
        Reach::Everything => (Op::WriteZeroes, 0, SIZE),
    }
}

/// What a command that concerns no blocks returns.
pub(crate) const INQUIRED: u8 = 0xc5;

/// The position of a command that concerns no blocks.
pub(crate) const NOWHERE: u64 = SIZE;

/// Sense data of a command that fails.
pub(crate) const SENSE: [u8; 4] = [0x70, 0, 3, 0];

impl State {
    fn look_for_late(&mut self, op: Op, pos: u64, end: u64) {
        let late = self.late.iter().find(|&&(_, from, to)| op != Op::Flush && pos < to && from < end);
        if let Some((_, from, to)) = late {
            let what = format!("{op} {pos}..{end} started while {from}..{to} is late");
            self.violations.push(what);
        }
    }

    fn end(&mut self, held: &Held, result: Option<i64>) {
        self.late.retain(|range| range.0 != held.number);
        let range = held.pos as usize..(held.pos + held.len) as usize;
        let bytes = held.segments.iter().map(|segment| i64::from(segment.len())).sum::<i64>();
        if let Some(command) = &held.command {
            command.set_outcome(&match result {
                Some(..0) => Outcome { status: 2, sense: Sense::new(&SENSE), ..Outcome::GOOD },
                _ => Outcome { residual: (bytes - result.unwrap_or(bytes)) as u32, ..Outcome::GOOD },
            });
        }
        if result.is_none_or(|result| result >= 0) {
            match held.op {
                Op::Write => self.contents[range].copy_from_slice(&held.data),
                Op::Discard | Op::WriteZeroes => self.contents[range].fill(0),
                Op::Read => {
                    let mut at = held.pos as usize;
                    for segment in &held.segments {
                        let end = at + segment.len() as usize;
                        // SAFETY: the request has not been reported, so its memory is the driver's.
                        unsafe { segment.copy_from(&self.contents[at..end]) };
                        at = end;
                    }
                }
                Op::Command => {
                    for segment in &held.segments {
                        // SAFETY: as above.
                        unsafe { segment.copy_from(&vec![INQUIRED; segment.len() as usize]) };
                    }
                }
                Op::Flush => {}
            }
        }
        let result = result.unwrap_or(if held.command.is_some() { bytes } else { held.len as i64 });
        held.wire.done.lock().unwrap().push(Completion { tag: held.tag, result });
        held.wire.outstanding.fetch_sub(1, Ordering::SeqCst);
    }
}

/// One channel of the disk.
struct Port {
    disk: Arc<Disk>,
    wire: Arc<Wire>,
}

impl Driver for Port {
    fn queue(&mut self, _now: Time, request: &Started<'_>) -> bool {
        let (mut segments, mut data) = (Vec::new(), Vec::new());
        let (op, pos, len) = range_of(request);
        request.for_each_segment(|segment| {
            let mut piece = vec![0; segment.len() as usize];
            if op == Op::Write {
                // SAFETY: the request is being handed over, so its memory is the driver's.
                unsafe { segment.copy_to(&mut piece) };
                data.append(&mut piece);
            }
            segments.push(segment);
        });
        self.wire.outstanding.fetch_add(1, Ordering::SeqCst);
        let (wire, tag) = (Arc::clone(&self.wire), request.tag);
        let mut state = self.disk.state();
        state.look_for_late(op, pos, pos + len);
        state.starts.push((op, pos));
        state.next += 1;
        let held = Held {
            number: state.next,
            wire,
            tag,
            op,
            pos,
            len,
            command: request.command().cloned(),
            data,
            segments,
        };
        if self.wire.dead.load(Ordering::SeqCst) {
            state.end(&held, Some(-5));
        } else {
            state.held.push(held);
        }
        self.disk.changed.notify_all();
        true
    }

    fn submit(&mut self, _now: Time) {}

    fn reap(&mut self, _now: Time, done: &mut Vec<Completion>) {
        done.append(&mut self.wire.done.lock().unwrap());
    }

    fn wait(&mut self, _now: Time, _timeout: Option<Span>) {
        MEANWHILE.take().into_iter().for_each(|what| what());
    }

    fn next_event(&self) -> Option<Time> {
        let ready = !self.wire.done.lock().unwrap().is_empty();
        ready.then(|| self.disk.clock.now())
    }

    fn outstanding(&self) -> Option<Arc<dyn Outstanding>> {
        self.disk.visible.then(|| Arc::clone(&self.wire) as Arc<dyn Outstanding>)
    }

    fn is_dead(&self) -> bool {
        self.wire.dead.load(Ordering::SeqCst)
    }
}

impl Drop for Port {
    /// As the contract requires: waits until the disk has none of its requests.
    fn drop(&mut self) {
        let mut state = self.disk.state();
        while !self.disk.clock_is_ours() && state.held.iter().any(|held| Arc::ptr_eq(&held.wire, &self.wire))
        {
            state = self.disk.changed.wait(state).unwrap();
        }
        // In virtual time the disk continues without the memory, which is freed next.
        let own = state.held.iter_mut().filter(|held| Arc::ptr_eq(&held.wire, &self.wire));
        own.for_each(|held| held.segments.clear());
    }
}

impl Disk {
    /// A simulated disk has taken the data when it got the request, and continues on its own.
    fn clock_is_ours(&self) -> bool {
        Arc::strong_count(&self.clock) > 1
    }
}

/// A bio with a number.
pub(crate) fn numbered(mut bio: Bio, token: u64, flags: Flags) -> Bio {
    bio.set_token(token);
    bio.add_flags(flags | Flags::NOMERGE | Flags::SYNC);
    bio
}

pub(crate) fn write(pos: u64, byte: u8, token: u64, flags: Flags) -> Bio {
    numbered(Bio::write(pos, vec![byte; 4096]).unwrap(), token, flags)
}

pub(crate) fn read(pos: u64, token: u64) -> Bio {
    numbered(Bio::read(pos, vec![0xee; 4096]).unwrap(), token, Flags::NONE)
}

/// The command set that the disk takes.
pub(crate) const SCSI: CommandSets = CommandSets::NONE.with(CommandSet::Scsi);

/// A command with this reach: what reads gets `len` bytes, what changes sends as many, all `byte`; `len` may be 0.
pub(crate) fn command(reach: Reach, at_head: bool, len: usize, byte: u8) -> Bio {
    let transfer = match reach {
        _ if len == 0 => Transfer::None,
        Reach::Changes { .. } => Transfer::ToDevice,
        _ => Transfer::FromDevice,
    };
    let command = Command::new(CommandSet::Scsi, &[0; 16]).unwrap();
    let command = command.with_transfer(transfer).with_reach(reach).with_at_head(at_head);
    if len == 0 { Bio::with_command(command, ()) } else { Bio::with_command(command, vec![byte; len]) }
        .unwrap()
}

pub(crate) fn flush(token: u64) -> Bio {
    numbered(Bio::flush(), token, Flags::NONE)
}

/// A channel and what came back from it.
pub(crate) struct Lane {
    pub(crate) channel: Channel,
    pub(crate) done: Vec<Bio>,
}

impl Lane {
    pub(crate) fn open(device: &Device) -> Lane {
        Lane { channel: device.channel(1024).unwrap(), done: Vec::new() }
    }

    pub(crate) fn send(&mut self, bio: Bio) {
        assert!(self.channel.submit(bio).is_ok());
        self.poll();
    }

    /// Polls often enough for every possible consequence.
    pub(crate) fn poll(&mut self) {
        for _ in 0..4 {
            self.channel.poll(&mut self.done);
        }
    }

    /// Sleeps until a bio completes.
    pub(crate) fn wait(&mut self) {
        self.channel.wait(&mut self.done, None);
    }

    pub(crate) fn is_done(&self, token: u64) -> bool {
        self.done.iter().any(|bio| bio.token() == token)
    }

    /// Status of the bio with this number; panics if it has not come back.
    pub(crate) fn kind(&self, token: u64) -> Option<Kind> {
        let found = self.done.iter().find(|bio| bio.token() == token);
        let bio = found.unwrap_or_else(|| panic!("{token} has not come back"));
        bio.status().err().map(|fault: Fault| fault.kind)
    }

    /// The first byte of a read's data.
    pub(crate) fn brought(&mut self, token: u64) -> u8 {
        let bio = self.done.iter_mut().find(|bio| bio.token() == token).expect("it has come back");
        bio.take_buffer::<Vec<u8>>().expect("with its memory")[0]
    }
}

/// Names of some elevators, and none.
pub(crate) const ELEVATORS: [&str; 4] = ["none", "noop", "deadline", "bfq"];

/// A channel that answers every command at once: with [`INQUIRED`], or, if its first byte is ffh, with [`SENSE`].
#[derive(Default)]
pub(crate) struct Prompt(Vec<Completion>);

impl Driver for Prompt {
    fn queue(&mut self, _now: Time, request: &Started<'_>) -> bool {
        let command = request.command().expect("only commands are sent");
        let fails = command.bytes()[0] == 0xff;
        if fails {
            command.set_outcome(&Outcome { status: 2, sense: Sense::new(&SENSE), ..Outcome::GOOD });
        } else {
            // SAFETY: the request is being handed over, so its memory is the driver's.
            request.for_each_segment(|segment| unsafe {
                segment.copy_from(&vec![INQUIRED; segment.len() as usize]);
            });
            command.set_outcome(&Outcome::GOOD);
        }
        self.0.push(Completion { tag: request.tag, result: if fails { -121 } else { request.len as i64 } });
        true
    }

    fn submit(&mut self, _now: Time) {}

    fn reap(&mut self, _now: Time, done: &mut Vec<Completion>) {
        done.append(&mut self.0);
    }
}
