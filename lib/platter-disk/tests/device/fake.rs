//! A fake disk that the test controls: it holds requests back, fails them, and records them.

use platter_block::backend::LaneUse;
use platter_block::bio::{Flags, Op};
use platter_block::disk::{Disk, DiskChannel};
use platter_block::driver::{Completion, Driver, Features, Geometry, Started};
use platter_block::fault::{Error, Fault, Kind, Stage};
use platter_block::limits::Limits;
use platter_block::queue::Settings;
use platter_block::time::{Span, Time};
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_disk::drivers::memory::{Memory, MemoryChannel};
use platter_elevators::by_name;
use platter_wait::EventFd;
use std::sync::{Arc, Mutex, MutexGuard};

pub(crate) const SIZE: u64 = 1 << 20;

/// What the disk saw, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Start(Op, u64),
    End(Op, u64),
}

/// Decides the result of a request: `None` is success.
type Rule = Box<dyn FnMut(Op, u64, u64) -> Option<i64> + Send>;

struct Held {
    channel: Arc<Channel>,
    op: Op,
    pos: u64,
    completion: Completion,
}

#[derive(Default)]
struct State {
    holding: bool,
    /// Whether further channels can be opened.
    is_full: bool,
    held: Vec<Held>,
    /// Bytes; `None`: it is gone.
    size: Option<u64>,
    rule: Option<Rule>,
    seen: Vec<Seen>,
    in_flight: usize,
    most_in_flight: usize,
}

struct Channel {
    done: Mutex<Vec<Completion>>,
    bell: EventFd,
}

/// The disk. Its contents are those of a memory disk; a request takes effect when it starts.
pub(crate) struct Fake {
    memory: Memory,
    state: Mutex<State>,
}

/// Options of a fake disk.
pub(crate) struct Options {
    pub(crate) elevator: &'static str,
    pub(crate) depth: u32,
    pub(crate) features: Features,
    pub(crate) timeout: Option<Span>,
    pub(crate) limits: Limits,
    pub(crate) bounce: bool,
    pub(crate) lanes: Option<u32>,
    pub(crate) size: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            elevator: "none",
            depth: 32,
            features: Features::default().with_write_cache(true).with_fua(true),
            timeout: None,
            limits: Limits::unlimited(512),
            bounce: true,
            lanes: None,
            size: SIZE,
        }
    }
}

impl Fake {
    /// A disk and a device on it.
    pub(crate) fn open(options: Options) -> (Arc<Fake>, Device) {
        // The size may grow.
        let memory = Memory::new(2 * options.size).unwrap();
        let fake = Arc::new(Fake { memory, state: Mutex::default() });
        // On a busy machine much time passes between two calls, and the disk is not to be failed as a whole.
        let abort_grace = Some(Span::from_secs(3600));
        let queue =
            Settings { depth: options.depth, timeout: options.timeout, abort_grace, ..Settings::default() };
        let settings =
            DiskSettings::default().with_queue(queue).with_bounce(options.bounce).with_lanes(options.lanes);
        let elevator = by_name(options.elevator).map(|row| (row.make)());
        fake.state().size = Some(options.size);
        let disk = FakeDisk { fake: Arc::clone(&fake), options };
        let device = Device::from_disk(disk, settings, elevator).unwrap();
        (fake, device)
    }

    /// Sets the size of the disk, or removes the disk.
    pub(crate) fn set_size(&self, size: Option<u64>) {
        self.state().size = size;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// From now on requests start and do not complete.
    pub(crate) fn hold(&self) {
        self.state().holding = true;
    }

    /// Completes the held requests, and no longer holds new ones.
    pub(crate) fn release(&self) {
        let mut state = self.state();
        state.holding = false;
        for held in std::mem::take(&mut state.held) {
            state.end(held.op, held.pos);
            held.channel.complete(held.completion);
        }
    }

    /// Completes the held requests of one kind; the rest stay.
    pub(crate) fn release_only(&self, op: Op) {
        let mut state = self.state();
        let (go, stay): (Vec<Held>, Vec<Held>) =
            std::mem::take(&mut state.held).into_iter().partition(|held| held.op == op);
        state.held = stay;
        for held in go {
            state.end(held.op, held.pos);
            held.channel.complete(held.completion);
        }
    }

    /// Completes the request held for longest.
    pub(crate) fn release_oldest(&self) {
        let mut state = self.state();
        let held = state.held.remove(0);
        state.end(held.op, held.pos);
        held.channel.complete(held.completion);
    }

    /// Number of requests held now that begin in a range.
    pub(crate) fn held_in(&self, range: std::ops::Range<u64>) -> usize {
        self.state().held.iter().filter(|held| range.contains(&held.pos)).count()
    }

    /// Whether channels can be opened.
    pub(crate) fn set_full(&self, full: bool) {
        self.state().is_full = full;
    }

    /// Requests held back now.
    pub(crate) fn held(&self) -> usize {
        self.state().held.len()
    }

    pub(crate) fn set_rule(&self, rule: impl FnMut(Op, u64, u64) -> Option<i64> + Send + 'static) {
        self.state().rule = Some(Box::new(rule));
    }

    pub(crate) fn clear_rule(&self) {
        self.state().rule = None;
    }

    /// What the disk saw since the last call.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.state().seen)
    }

    /// Starts among what was seen since the last time, by position.
    pub(crate) fn started(&self) -> Vec<u64> {
        let start = |seen: Seen| if let Seen::Start(_, pos) = seen { Some(pos) } else { None };
        self.seen().into_iter().filter_map(start).collect()
    }

    pub(crate) fn most_in_flight(&self) -> usize {
        self.state().most_in_flight
    }
}

struct FakeDisk {
    fake: Arc<Fake>,
    options: Options,
}

impl Disk for FakeDisk {
    fn name(&self) -> Arc<str> {
        Arc::from("fake")
    }

    fn geometry(&self) -> Geometry {
        let Options { size, limits, features, .. } = self.options;
        Geometry::new(size, limits).with_features(features)
    }

    fn open_channel(&self, _lane_use: LaneUse) -> Result<DiskChannel, Error> {
        match self.fake.state().is_full {
            true => Err(no_channel()),
            false => Ok(DiskChannel::new(FakeChannel::new(&self.fake, &self.options))),
        }
    }

    fn current_size(&self) -> Result<Option<u64>, Error> {
        Ok(self.fake.state().size)
    }
}

fn no_channel() -> Error {
    let fault = Fault::new(Kind::Gone, Stage::Driver);
    Error { fault, op: Op::Read, device: Arc::from("fake"), offset: 0, len: 0, detail: "full".into() }
}

impl State {
    fn end(&mut self, op: Op, pos: u64) {
        self.seen.push(Seen::End(op, pos));
        self.in_flight -= 1;
    }
}

impl Channel {
    fn complete(&self, completion: Completion) {
        self.done.lock().unwrap().push(completion);
        self.bell.signal();
    }
}

struct FakeChannel {
    fake: Arc<Fake>,
    memory: MemoryChannel,
    channel: Arc<Channel>,
    depth: usize,
    limits: Limits,
    size: u64,
    staged: Vec<(Op, u64, Completion)>,
    out: usize,
}

impl FakeChannel {
    fn new(fake: &Arc<Fake>, options: &Options) -> FakeChannel {
        let bell = EventFd::new().unwrap();
        FakeChannel {
            fake: Arc::clone(fake),
            memory: fake.memory.channel(1),
            channel: Arc::new(Channel { done: Mutex::default(), bell }),
            depth: options.depth as usize,
            limits: options.limits,
            size: options.size,
            staged: Vec::new(),
            out: 0,
        }
    }
}

impl FakeChannel {
    /// What a disk may rely on: the memory of a request has the required alignment. The length of the partial block
    /// at its end is the driver's concern.
    fn check(&self, request: &Started<'_>) {
        let limits = &self.limits;
        let tail = limits.is_tail(request.pos, request.len, self.size);
        let mut done = 0;
        request.for_each_segment(|segment| {
            done += u64::from(segment.len());
            let last = tail && done == request.len;
            let odd = segment.len() & (limits.length_align - 1) != 0 && !last;
            let address = segment.addr() as usize & (limits.memory_align - 1) as usize;
            assert!(
                !odd && address == 0,
                "{} of {} at {}: {segment:?}",
                request.op,
                request.len,
                request.pos
            );
        });
    }
}

impl Driver for FakeChannel {
    fn queue(&mut self, now: Time, request: &Started<'_>) -> bool {
        if self.out == self.depth {
            return false;
        }
        self.check(request);
        let mut state = self.fake.state();
        let (op, pos) = (request.op, request.pos);
        state.seen.push(Seen::Start(op, pos));
        state.in_flight += 1;
        state.most_in_flight = state.most_in_flight.max(state.in_flight);
        let told = state.rule.as_mut().and_then(|rule| rule(op, pos, request.len));
        drop(state);
        let mut done = Vec::new();
        if told.is_none_or(|result| result >= 0) {
            assert!(self.memory.queue(now, request));
            self.memory.submit(now);
            self.memory.reap(now, &mut done);
        }
        let result = told.unwrap_or_else(|| done[0].result);
        self.staged.push((op, pos, Completion { tag: request.tag, result }));
        self.out += 1;
        true
    }

    fn submit(&mut self, _now: Time) {
        let mut state = self.fake.state();
        for (op, pos, completion) in self.staged.drain(..) {
            let channel = Arc::clone(&self.channel);
            if state.holding {
                state.held.push(Held { channel, op, pos, completion });
            } else {
                state.end(op, pos);
                channel.complete(completion);
            }
        }
    }

    fn reap(&mut self, _now: Time, done: &mut Vec<Completion>) {
        self.channel.bell.clear();
        let mut all = self.channel.done.lock().unwrap();
        self.out -= all.len();
        done.append(&mut all);
    }

    fn wait(&mut self, now: Time, timeout: Option<Span>) {
        self.submit(now);
        if self.out == 0 {
            return;
        }
        self.channel.bell.wait(timeout);
    }

    fn wait_handle(&self) -> Option<i32> {
        Some(self.channel.bell.raw())
    }
}

/// Flags of a barrier.
pub(crate) const HARD: Flags = Flags::HARD_BARRIER;
