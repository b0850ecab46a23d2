//! A queue on the fake disk, a byte-level model of what the disk should hold, and the checks that every bio
//! comes back exactly once with the right bytes.

use crate::disk::{FakeDisk, Mode};
use crate::memory::Buffer;
use platter_block::bio::{Bio, Context, Flags, IoPrio, Op};
use platter_block::counters::{Counters, Snapshot};
use platter_block::driver::Features;
use platter_block::elevator::{self, Dir, Elevator, MayQueue, RequestId, RequestInfo};
use platter_block::fault::{Kind, Status};
use platter_block::lane::{Cancel, Lane};
use platter_block::limits::Limits;
use platter_block::queue::{DirectLane, DirectQueue, QueueLane, SchedLane, SchedQueue, Settings};
use platter_block::segment::{Region, RegionId, Segment};
use platter_block::statistics::{Gauges, Statistics};
use platter_block::time::{Span, Time};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};

/// Names of all modes of a queue: without an elevator, and with each of the table.
pub(crate) fn elevators() -> Vec<&'static str> {
    std::iter::once("none").chain(platter_elevators::TABLE.iter().map(|row| row.name)).collect()
}

/// The same, without elevators that grant some requests beyond the limit of the pool.
pub(crate) fn elevators_within_the_pool() -> Vec<&'static str> {
    // Some let a process that has a request have more of them, whatever the pool has.
    let exceeds = |name: &str| {
        let (id, context) = (RequestId { index: 0, generation: 1 }, Context::new(0));
        let info = RequestInfo {
            pos: 0,
            len: 512,
            dir: Dir::Write,
            op: Op::Write,
            sync: false,
            ioprio: IoPrio::NONE,
            context,
        };
        let may = make_elevator(name).map(|mut elevator| {
            elevator.reserve(8);
            elevator.insert(Time(0), id, &info);
            elevator.may_queue_async(context, Dir::Write)
        });
        may == Some(MayQueue::Must)
    };
    elevators().into_iter().filter(|name| !exceeds(name)).collect()
}

/// The elevator of this name; `None` for `none`.
pub(crate) fn make_elevator(name: &str) -> Option<Box<dyn Elevator>> {
    platter_elevators::by_name(name).map(|row| (row.make)())
}

/// One I/O of a test.
#[derive(Clone, Debug)]
pub(crate) struct Io {
    pub(crate) op: Op,
    pub(crate) pos: u64,
    /// Lengths of the pieces of memory, and the gaps before them; for discards one length.
    pub(crate) lens: Vec<usize>,
    pub(crate) gaps: Vec<usize>,
    pub(crate) flags: Flags,
    pub(crate) context: u32,
    /// When its submitter stops waiting for it. The queue is not told of it.
    pub(crate) deadline: Option<Time>,
}

impl Io {
    pub(crate) fn new(op: Op, pos: u64, len: usize) -> Io {
        Io { op, pos, lens: vec![len], gaps: Vec::new(), flags: Flags::NONE, context: 0, deadline: None }
    }

    pub(crate) fn read(pos: u64, len: usize) -> Io {
        Io::new(Op::Read, pos, len)
    }

    pub(crate) fn write(pos: u64, len: usize) -> Io {
        Io::new(Op::Write, pos, len)
    }

    pub(crate) fn flush() -> Io {
        Io::new(Op::Flush, 0, 0)
    }

    pub(crate) fn with(self, flags: Flags) -> Io {
        Io { flags: self.flags | flags, ..self }
    }

    pub(crate) fn of(self, context: u32) -> Io {
        Io { context, ..self }
    }

    pub(crate) fn len(&self) -> u64 {
        self.lens.iter().map(|&len| len as u64).sum()
    }
}

#[derive(Clone, Copy, Debug)]
struct Live {
    op: Op,
    pos: u64,
    len: u64,
    flags: Flags,
    identity: usize,
    deadline: Option<Time>,
}

/// A completed bio, for the checks of the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) token: u64,
    pub(crate) op: Op,
    pub(crate) status: Status,
}

impl Done {
    pub(crate) fn kind(&self) -> Option<Kind> {
        self.status.err().map(|fault| fault.kind)
    }
}

/// A queue on the fake disk.
pub(crate) trait Queued: Lane {
    fn driver(&self) -> &FakeDisk;
    fn driver_mut(&mut self) -> &mut FakeDisk;
    fn counters(&self) -> &Counters;
    fn broken_completions(&self) -> u64;
    fn is_silent(&self) -> bool;
    fn set_failed(&mut self, now: Time, failed: bool);
    fn recovered(&mut self);

    /// Checks the state of an idle queue.
    fn check_idle(&self) {}
}

impl Queued for SchedLane<FakeDisk> {
    fn driver(&self) -> &FakeDisk {
        QueueLane::driver(self)
    }

    fn driver_mut(&mut self) -> &mut FakeDisk {
        QueueLane::driver_mut(self)
    }

    fn counters(&self) -> &Counters {
        QueueLane::counters(self)
    }

    fn broken_completions(&self) -> u64 {
        QueueLane::broken_completions(self)
    }

    fn is_silent(&self) -> bool {
        self.queue.is_silent()
    }

    fn set_failed(&mut self, now: Time, failed: bool) {
        self.queue.set_failed(now, failed);
    }

    fn recovered(&mut self) {
        self.queue.recovered();
    }

    fn check_idle(&self) {
        for dir in [elevator::Dir::Read, elevator::Dir::Write] {
            let stats = self.queue.pool_stats(dir);
            assert_eq!((stats.used, stats.congested, stats.full), (0, false, false), "{dir:?}");
        }
    }
}

/// How the queue of one lane gets its bios.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Feed {
    /// Each when it is submitted.
    AtOnce,
    /// As a batch in the middle of a round.
    Batch,
    /// The same, common bios straight to the driver.
    Common,
}

/// The queue of one lane, with a plug as a lane of a device has it.
pub(crate) struct Plugged {
    pub(crate) lane: DirectLane<FakeDisk>,
    plug: VecDeque<Bio>,
    feed: Feed,
}

impl Queued for Plugged {
    fn driver(&self) -> &FakeDisk {
        self.lane.driver()
    }

    fn driver_mut(&mut self) -> &mut FakeDisk {
        self.lane.driver_mut()
    }

    fn counters(&self) -> &Counters {
        self.lane.counters()
    }

    fn broken_completions(&self) -> u64 {
        self.lane.broken_completions()
    }

    fn is_silent(&self) -> bool {
        self.lane.queue.is_silent()
    }

    fn set_failed(&mut self, now: Time, failed: bool) {
        self.lane.queue.set_failed(now, failed);
    }

    fn recovered(&mut self) {
        self.lane.queue.recovered();
    }
}

impl Lane for Plugged {
    fn submit(&mut self, now: Time, bio: Bio) {
        match self.feed {
            Feed::AtOnce => self.lane.submit(now, bio),
            _ => self.plug.push_back(bio),
        }
    }

    fn run(&mut self, now: Time) {
        let was_idle = self.lane.begin(now);
        let started = if self.feed == Feed::Common { self.lane.start(now, &mut self.plug) } else { 0 };
        self.plug.drain(..).for_each(|bio| self.lane.submit(now, bio));
        self.lane.end(now, started, was_idle);
    }

    fn take_done(&mut self, out: &mut Vec<Bio>) {
        self.lane.take_done(out);
    }

    fn has_done(&self) -> bool {
        self.lane.has_done()
    }

    fn next_wakeup(&self) -> Option<Time> {
        self.lane.next_wakeup()
    }

    fn unplug(&mut self, _now: Time) {}

    fn wait(&mut self, _now: Time, _timeout: Option<Span>) {
        unreachable!("the tests pass the time themselves");
    }

    fn wait_handles(&self, _out: &mut Vec<i32>) -> bool {
        false
    }

    fn in_flight(&self) -> u32 {
        self.lane.in_flight()
    }

    fn cancel(&mut self, now: Time, which: &Cancel) {
        for bio in std::mem::take(&mut self.plug) {
            self.lane.submit(now, bio);
        }
        self.lane.cancel(now, which);
    }

    fn is_idle(&self) -> bool {
        self.plug.is_empty() && self.lane.is_idle()
    }

    fn register(&mut self, _region: &Region) {}

    fn unregister(&mut self, _region: RegionId) {}
}

pub(crate) struct Rig<L: Queued = SchedLane<FakeDisk>> {
    pub(crate) lane: L,
    pub(crate) now: Time,
    pub(crate) model: Vec<u8>,
    live: BTreeMap<u64, Live>,
    /// By token: tells whether the bio's memory still exists.
    memory: Vec<Weak<()>>,
    /// Failed changes: which of their bytes the disk has is open until the queue is idle.
    ghosts: Vec<Live>,
    /// Whether a queue that is silent is counted as failed until it is not any more, as the owner of a device does.
    pub(crate) guards: bool,
    failed: bool,
    next_token: u64,
    pub(crate) done: Vec<Done>,
}

impl Rig<Plugged> {
    /// The queue of one lane.
    pub(crate) fn direct(disk: FakeDisk, settings: Settings, feed: Feed) -> Rig<Plugged> {
        let queue = DirectQueue::new(disk.geometry, settings, Arc::new(Counters::default()));
        let model = disk.data.clone();
        Rig::on(model, Plugged { lane: DirectLane::new(queue, disk), plug: VecDeque::new(), feed })
    }
}

impl Rig {
    pub(crate) fn with(disk: FakeDisk, settings: Settings, elevator: Option<Box<dyn Elevator>>) -> Rig {
        let queue = SchedQueue::new(disk.geometry, settings, elevator, Arc::new(Counters::default()));
        Rig::on(disk.data.clone(), QueueLane::new(queue, disk))
    }

    /// A disk of 1 MiB without limits or cache, whose requests the test completes.
    pub(crate) fn manual(elevator: &str, settings: Settings, features: Features) -> Rig {
        let mut disk = FakeDisk::new(1 << 20, Limits::unlimited(512), features, 1);
        disk.mode = Mode::Manual;
        Rig::with(disk, settings, make_elevator(elevator))
    }
}

impl<L: Queued> Rig<L> {
    fn on(model: Vec<u8>, lane: L) -> Rig<L> {
        Rig {
            model,
            lane,
            now: Time(1),
            live: BTreeMap::new(),
            memory: Vec::new(),
            ghosts: Vec::new(),
            guards: false,
            failed: false,
            next_token: 0,
            done: Vec::new(),
        }
    }

    pub(crate) fn disk(&mut self) -> &mut FakeDisk {
        self.lane.driver_mut()
    }

    pub(crate) fn counts(&self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        snapshot.add(self.lane.counters());
        snapshot
    }

    pub(crate) fn statistics(&self) -> Statistics {
        let mut statistics = Statistics::default();
        statistics.add(self.lane.counters());
        statistics
    }

    /// Whether an I/O must not be in flight together with the present ones.
    pub(crate) fn conflicts(&self, io: &Io) -> bool {
        let end = io.pos + io.len();
        // The result of a failed change is open, so reads avoid its range. Other changes do not: nothing of it is on its way.
        let ghosts = self.ghosts.iter().filter(|_| !io.op.changes());
        self.live.values().chain(ghosts).any(|live| {
            (live.op != Op::Read || io.op != Op::Read) && live.pos < end && io.pos < live.pos + live.len
        })
    }

    /// Makes the bio of an I/O; writes get fresh bytes, which the model takes over at once.
    pub(crate) fn bio(&mut self, io: &Io) -> Bio {
        let (token, len) = (self.next_token, io.len());
        self.next_token += 1;
        let mut bio = Bio::new(io.op, io.pos, len);
        let mut buffer = Buffer::new(&io.lens, &io.gaps);
        self.memory.push(if io.op.has_data() { buffer.life() } else { Weak::new() });
        if io.op == Op::Write {
            let data: Vec<u8> = (0..len).map(|i| (token * 37 + i * 11 + i / 512) as u8).collect();
            buffer.scatter(&data);
            self.model[io.pos as usize..][..data.len()].copy_from_slice(&data);
            bio.reset_write(io.pos, buffer).expect("a short list");
        } else if io.op == Op::Read {
            bio.reset_read(io.pos, buffer).expect("a short list");
        } else if io.op.changes() {
            self.model[io.pos as usize..][..len as usize].fill(0);
        }
        bio.set_token(token);
        bio.add_flags(io.flags);
        bio.set_context(platter_block::bio::Context::new(io.context));
        let (op, pos, flags, identity) = (io.op, io.pos, io.flags, bio.identity());
        self.live.insert(token, Live { op, pos, len, flags, identity, deadline: io.deadline });
        bio
    }

    /// Submits an I/O; returns its token.
    pub(crate) fn submit(&mut self, io: Io) -> u64 {
        let bio = self.bio(&io);
        let token = bio.token();
        self.lane.submit(self.now, bio);
        token
    }

    /// The submitter of the bio with this token does not wait for it any longer, if it has not completed.
    pub(crate) fn late(&mut self, token: u64) {
        let Some(live) = self.live.get_mut(&token) else { return };
        live.deadline = None;
        let which = Cancel::late(live.identity);
        self.lane.cancel(self.now, &which);
    }

    /// Number of bios made.
    pub(crate) fn tokens(&self) -> u64 {
        self.next_token
    }

    /// Kind of the failure of the bio with this token; panics when it has not completed.
    pub(crate) fn failure(&self, token: u64) -> Option<Kind> {
        self.result(token).err().map(|fault| fault.kind)
    }

    /// Advances the time to the next wake-up and runs.
    pub(crate) fn pass(&mut self) {
        let at = self.lane.next_wakeup().expect("a queue that waits for a timer says when it is due");
        self.now = self.now.max(at);
        self.run();
    }

    /// Takes back what is late, runs the lane once and takes completed bios.
    pub(crate) fn run(&mut self) {
        let is_late = |live: &Live| live.deadline.is_some_and(|at| at <= self.now);
        let late: Vec<u64> =
            self.live.iter().filter(|(_, live)| is_late(live)).map(|(&token, _)| token).collect();
        late.iter().for_each(|&token| self.late(token));
        self.lane.run(self.now);
        if self.guards && self.lane.is_silent() != self.failed {
            self.failed = !self.failed;
            self.lane.set_failed(self.now, self.failed);
            if !self.failed {
                self.lane.recovered();
            }
        }
        let mut bios = Vec::new();
        self.lane.take_done(&mut bios);
        bios.into_iter().for_each(|bio| self.check(bio));
        for token in late {
            // One that is carried out in steps may also wait for a flush.
            let live =
                self.live.get(&token).filter(|live| !live.flags.intersects(Flags::ORDERED) && live.len > 0);
            let waits = live.is_some_and(|live| !self.lane.driver().has(live.pos, live.pos + live.len));
            assert!(!waits, "the disk has nothing of {token}, which is late: {live:?}");
        }
    }

    /// Completes the oldest request of a disk under the test's control, and runs twice, so that the next request is
    /// with the disk.
    pub(crate) fn complete_one(&mut self) {
        self.disk().finish(0);
        self.run();
        self.run();
    }

    /// Runs until nothing is left, and advances the time when the queue asks for it.
    pub(crate) fn drain(&mut self) {
        for _ in 0..1_000_000 {
            if self.lane.is_idle() && !self.lane.has_done() {
                return self.check_idle();
            }
            let before = (self.done.len(), self.disk().log.len());
            self.run();
            if self.disk().mode == Mode::Manual {
                self.disk().finish_all();
            }
            let rests = before == (self.done.len(), self.disk().log.len()) && !self.lane.is_idle();
            if rests && self.disk().held.is_empty() {
                let wakeup = self.lane.next_wakeup();
                let at = wakeup.expect("a queue with work either starts it or says when it will");
                self.now = self.now.max(at) + Span(1);
            }
        }
        panic!("the queue does not come to an end");
    }

    fn check(&mut self, mut bio: Bio) {
        let live = self.live.remove(&bio.token()).expect("a bio completes once");
        assert_eq!((bio.op(), bio.identity()), (live.op, live.identity));
        let (status, memory) = (bio.status(), bio.all_segments().collect::<Vec<Segment>>());
        let disk = self.lane.driver();
        assert!(!disk.uses(&memory), "{bio:?} ended while the disk has its memory");
        let changed = live.op.changes() && disk.may_change(live.pos, live.pos.saturating_add(live.len));
        assert!(!changed, "{bio:?} ended while the disk may still change its range");
        if status.is_ok() {
            assert_eq!((bio.done(), bio.len()), (live.len, 0), "{bio:?}");
        }
        let range = live.pos as usize..live.pos.saturating_add(live.len) as usize;
        if live.op.has_data()
            && let Some(buffer) = bio.take_buffer::<Buffer>()
        {
            assert!(buffer.margins_are_whole(), "{bio:?} wrote outside its memory");
            if live.op == Op::Read && status.is_ok() {
                assert!(buffer.gather() == self.model[range.clone()], "{bio:?} read other bytes");
            }
        }
        if live.op.changes() && status.is_err() && range.end <= self.model.len() {
            self.ghosts.push(live);
        }
        self.done.push(Done { token: bio.token(), op: live.op, status });
    }

    /// Whether the memory of the bio with this token has not been freed.
    pub(crate) fn has_memory(&self, token: u64) -> bool {
        self.memory[token as usize].strong_count() > 0
    }

    /// Status of the bio with this token; panics if it has not completed.
    pub(crate) fn result(&self, token: u64) -> Status {
        self.done.iter().find(|done| done.token == token).expect("a completed bio").status
    }

    pub(crate) fn is_done(&self, token: u64) -> bool {
        self.done.iter().any(|done| done.token == token)
    }

    /// Checks the conditions that must hold once the queue is empty.
    pub(crate) fn check_idle(&mut self) {
        assert!(self.live.is_empty(), "bios lost: {:?}", self.live.keys());
        for ghost in self.ghosts.drain(..) {
            // How much of it was written is open; from now on the disk's contents count.
            let range = ghost.pos as usize..(ghost.pos + ghost.len) as usize;
            self.model[range.clone()].copy_from_slice(&self.lane.driver().data[range]);
        }
        assert!(self.memory.iter().all(|life| life.strong_count() == 0), "memory is kept without a bio");
        assert_eq!(self.disk().violations, Vec::<String>::new());
        assert!(self.lane.driver().data == self.model, "the disk holds other bytes than were written");
        let (c, refusals) = (self.counts(), self.disk().refusals);
        assert_eq!(c.bios, c.bios_completed);
        assert_eq!(c.bios_failed, self.done.iter().filter(|done| done.status.is_err()).count() as u64);
        assert_eq!(c.dispatches, c.completions + refusals);
        let statistics = self.statistics();
        assert_eq!(statistics.gauges, Gauges::default());
        assert_eq!(statistics.errors().map(|(_, _, count)| count).sum::<u64>(), c.bios_failed);
        assert_eq!(Op::ALL.into_iter().map(|op| statistics.requests(op)).sum::<u64>(), c.completions);
        assert_eq!(self.lane.broken_completions(), 0);
        assert_eq!(self.lane.in_flight(), 0);
        self.lane.check_idle();
    }
}
