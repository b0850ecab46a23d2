//! A bio in a cache: its remaining work, and what it waits for.
//!
//! # The page cache
//!
//! `cache` (a file for each part in `platter-cache/src/`) is a layer with one engine for all its lanes, which are those
//! of the kit (docs/layer-kit.md) (`HostLane`). With `shards` it is several engines, each with one of as many extents
//! of the device (`Placement`, `platter-cache/src/placement.rs`): a device with distributed data whose members are on
//! one disk (`Sharded`, `Map::has_one_disk`): a flush has all of them write, and then one flush the disk
//! (`Flags::DATA_ONLY`, `Flags::DISK_ONLY`, `unflushed.rs`, `disk_writes.rs`). Shards share the readahead of a handle
//! (`Policy`); what it reads of other shards is asked for without a lock (`PeerRead`).
//!
//! - **Frames** (`platter-cache/src/frames.rs`, each of them `platter-cache/src/frame.rs`) are 4 KiB of memory and a
//!   state word each. A reader looks up a page and pins its frame with one compare-and-exchange, which succeeds only on
//!   a frame that is ready. The one `Store`, under the engine's lock, gives frames to pages: it first clears the ready
//!   bit and then checks the pins. Lanes copy into frames that it has given them, and may make them ready
//!   (`frames/copies.rs`). So a hit takes no lock, and a handle needs no lane for it (`Resident`).
//! - **Memory** of frames and their tables (`Table`, `platter-cache/src/memory.rs`) is used in order. One thread of the
//!   process populates what is ahead of use, without the lock
//!   (docs/decisions/2026-11-25-memory-and-misses-of-the-cache.md). `PageTable::resize` empties the frames behind a
//!   smaller size, and the lane gives their memory back in `Tasks::after_turn`; another thread watches memory pressure
//!   (`pressure.rs`).
//! - **Pages** (`platter-cache/src/pages.rs`) record which blocks of 512 bytes are valid and which are dirty. A page
//!   has versions: the newest is in the index; an older one exists until it is on the disk and has no references.
//!   `PageTable::writable` makes a new version for a write to a page that is being written back, is lent by reference,
//!   or is dirty from before a barrier. A version is written back only when no older one is left.
//! - **Dirty pages** are kept by age, in epochs that barriers begin, for write-back, with a list of those that could
//!   not be written in their turn (`platter-cache/src/dirty.rs`); and by position, in extents of 1 MiB
//!   (`platter-cache/src/extents.rs`), for flushes of a range. **Invariant:** no thread has the locks of two shards; no
//!   lock is taken under that of a `Policy`.
//! - **A bio is a task** (`platter-cache/src/task.rs`): `Engine::step` advances it as far as possible and records what
//!   it waits for (`Wait`): an I/O of the cache, a frame, fewer dirty pages or its share of them, the end of an
//!   operation on its range, a job, its handle, or its next turn. Reads go page by page, as in the kernels, so that
//!   each policy is called as it was designed for (`platter-cache/src/read.rs`). Data is copied after the lock is
//!   released; the page stays pinned until then. A page that a reader waits for is held for it
//!   (`platter-cache/src/read.rs`).
//! - **Without the lock** a sleeping caller whose own I/O brought all that it needs copies from the frames and leaves
//!   the completion in an `Inbox` for the next thread that takes the lock (`platter-cache/src/inbox.rs`), unless tasks
//!   wait for it (`Engine::publish_urgency`). Writes are copied after a turn and end likewise (`late.rs`), or in the
//!   next turn; others wait as for an I/O that fills the page (`platter-cache/src/inflow.rs`, `moves.rs`).
//!   **Invariant:** no data is copied under the lock of a shard.
//! - **Waiting in line.** Tasks that wait for frames or for fewer dirty pages stand in a `Line` in order of arrival
//!   (`platter-stack/src/kit/lanes.rs`, `platter-cache/src/write.rs`), and `Engine::grant` wakes as many as there is
//!   room for. Tasks of a writer with more than its share of dirty pages have a line of their own
//!   (`platter-cache/src/writers.rs`).
//! - **One read at a time.** The policy `2.6.6+lock` runs one read of a handle at a time. A read that could continue
//!   but whose lane is not run for 10 ms loses the handle to the next one (`Engine::pass_handles_on`): the channel may
//!   never be polled.
//! - **Bounded work.** After `SPENT` (256) pages a turn releases the lock (`Engine::is_spent`): large reads and writes,
//!   advice and discards (`Jobs`) are done in pieces.
//! - **Two ways down.** A read whose caller sleeps until it completes goes on the caller's own lane below, submitted
//!   and waited for in one system call, and so does what its flush writes and flushes. All other I/O (readahead, write-back,
//!   channels, futures) goes on the engine's lane, which has a lock of its own (`Port`,
//!   `platter-stack/src/kit/port.rs`): a turn notes what it submits, and any lane of the cache that is run gives that
//!   to it and takes what has come back, before and after its turns (`Host::collect`, `Host::deliver`). One of the
//!   sleeping lanes listens to it (`Lanes::sleep`), and is woken when work is due before it would wake up
//!   (`Lanes::hasten`). **Invariant:** no system call is made under the engine's lock, but by a cache that is dropped
//!   (docs/decisions/2026-11-26-system-calls-without-the-lock.md); threads are woken when it has been released
//!   (`Rings`).
//! - **Write-back** (`platter-cache/src/writeback.rs`) is done in sorted pieces by every lane that runs
//!   (`Engine::run_background`), and by the service thread between calls (`Worker::keep`). At most `MAX_WRITES`
//!   write-back I/Os are in flight, fewer while there is no hurry (`Dirty::depth`); reads do not count.
//! - **Late I/O.** A write-back that takes long stays in flight: its pages stay dirty and in memory, a flush that
//!   concerns them waits for it, and a newer version is not written before the device has returned the older one. A
//!   read or a write that is late ends before (`Tasks::cancel`). What fails leaves its pages dirty and is tried again
//!   after pauses that double (`Dirty::went_wrong`).
//!
//! **Invariant:** the memory of a frame changes only while it is not pinned and no device has it; every access checks
//! this.
//!
//! **Invariant:** a dirty page is not evicted, and a write error does not make it clean. No completion stays in the
//! inbox while a task waits for it (`platter-cache/tests/interleavings`), and a thread that takes the lock ends first
//! what writes have left there (`Shared::engine`).

use super::answers::Exchange;
use super::engine::{Ask, Engine};
use super::frames::Held;
use super::holds::HoldId;
use super::inflow::Inflow;
use super::ios::{IoKey, IoKind};
use super::late::Early;
use super::plan::Plan;
use super::writers::WriterId;
use crate::readahead::{Access, Call, PAGE};
use platter_block::bio::{Bio, Flags, Op};
use platter_block::fault::{Fault, Kind, Stage};
use platter_block::time::Time;
use std::ops::Range;

/// Flags of writes that wait for the disk.
pub(super) const DURABLE: Flags = Flags::FUA.union(Flags::HARD_BARRIER);

/// Turns in which a task tries again before it waits for a copy: to copy a page takes less than a microsecond, to wake a thread
/// several. What it gains was not measured. If the thread that copies does not run, that many turns are lost.
const TRIES: u32 = 8;

/// What a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Nothing: it can continue.
    None,
    /// The next turn: it has used up its share of this one.
    Turn,
    /// An I/O of the cache.
    Io(IoKey),
    /// Fewer dirty pages, with its place in that line.
    Room(u64),
    /// Fewer dirty pages of its writer, with its place in that line.
    Share(WriterId, u64),
    /// A frame, with its place in that line.
    Frame(u64),
    /// The end of an operation on a range.
    Range(u64),
    /// The end of its own operation.
    Job(u64),
    /// Another read call of its handle.
    Handle(u16),
}

/// The phase of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Before the data: all dirty pages are written back and the device is flushed.
    Before,
    /// The data, or the whole operation.
    Data,
    /// After the data: it is made durable.
    After,
    /// The data could not be made durable and is dropped, from a page on.
    Forget(u64, Fault, u64),
}

/// The progress of a write-back.
pub(super) enum Progress {
    /// Complete.
    Done,
    /// Continues when an I/O ends.
    Waits(IoKey),
    /// Continues in the next turn.
    Again,
}

/// The progress of a flush.
#[derive(Default)]
pub(super) struct Flushing {
    /// It writes on the lane of the task.
    pub(super) own: bool,
    pub(super) begun: bool,
    /// The last sequence number of the pages that were dirty when the flush began.
    pub(super) limit: u32,
    /// The page from which on to search for dirty pages.
    pub(super) at: u64,
    /// The oldest epoch when it began to search from the front.
    pub(super) oldest: u16,
    /// Some pages can be written only after others.
    pub(super) again: bool,
    /// I/Os in flight that the flush waits for, and whether there were any since it began to search.
    pub(super) waiting: Vec<IoKey>,
    pub(super) waited: bool,
    /// All pages that were dirty have been written, or an attempt was made.
    pub(super) written: bool,
    pub(super) device: Option<IoKey>,
    pub(super) fault: Option<(Fault, u64)>,
    /// Number of write-back errors when the flush began.
    pub(super) errors: u64,
}

impl Flushing {
    /// Resets to the initial state and keeps allocated memory.
    pub(super) fn reset(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.clear();
        *self = Flushing { waiting, ..Flushing::default() };
    }

    pub(super) fn wait_for(&mut self, key: IoKey) {
        self.waited = true;
        if self.waiting.last() != Some(&key) {
            self.waiting.push(key);
        }
    }
}

/// The steps of a read with its current page.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PageSteps {
    /// The policy was told that the page is wanted,
    pub(super) announced: bool,
    /// that it was found,
    pub(super) found: bool,
    /// or that it is missing.
    pub(super) missed: bool,
    /// It was cached, but not all blocks that are needed.
    pub(super) partial: bool,
    /// What it wants read for the missing page is in the plan.
    pub(super) planned: bool,
    /// Reading the page together with others failed: now only the needed blocks are read.
    pub(super) bare: bool,
    /// The I/O of that read.
    pub(super) bare_io: Option<IoKey>,
}

/// A part of a page that is copied to the reader after the lock is released.
pub(super) struct Piece {
    pub(super) held: Held,
    pub(super) offset: u32,
    pub(super) len: u32,
}

/// Lists that tasks reuse.
#[derive(Default)]
pub(super) struct Spare {
    pub(super) flushing: Flushing,
    pub(super) pieces: Vec<Piece>,
    pub(super) missed: Vec<Range<u64>>,
    pub(super) early: Early,
    pub(super) inflow: Inflow,
    pub(super) plan: Plan,
}

/// A bio in the cache.
pub(super) struct Task {
    pub(super) bio: Bio,
    pub(super) wait: Wait,
    pub(super) phase: Phase,
    pub(super) barrier: bool,
    /// The bio is a barrier whose epoch has begun.
    pub(super) placed: bool,
    /// Dirty pages from before an earlier barrier have been written back for it, or need not be.
    pub(super) cleared: bool,
    pub(super) ask: Ask,
    /// Its place in a line, kept until it gets what it waited for.
    pub(super) turn: Option<u64>,
    /// When it began to wait for fewer dirty pages.
    pub(super) waits_since: Time,
    /// How often it searched for a frame while nothing was in flight.
    pub(super) looks: u32,
    /// How often it has tried again without waiting for a copy to end.
    pub(super) tries: u32,
    // Reads only.
    pub(super) call: Call,
    pub(super) begun: bool,
    /// Its number as an exclusive call of its handle; 0: it is not one.
    pub(super) sole: u64,
    pub(super) steps: PageSteps,
    /// The first byte that is not read yet, or not written to or planned to be, and the end.
    pub(super) at: u64,
    pub(super) end: u64,
    /// Pieces to copy.
    pub(super) pieces: Vec<Piece>,
    /// Pages that it has begun to read because they were not cached.
    pub(super) missed: Vec<Range<u64>>,
    /// The hold on the page that it waits for.
    pub(super) hold: Option<HoldId>,
    pub(super) early: Early,
    // Writes only.
    pub(super) inflow: Inflow,
    /// What it has asked the policy, unless that is called under the lock.
    pub(super) plan: Plan,
    pub(super) writer: Option<WriterId>,
    /// Commands only. Boxed, because others are many.
    pub(super) exchange: Option<Box<Exchange>>,
    // Flushes only.
    pub(super) flushing: Flushing,
    pub(super) start: u64,
    pub(super) size: u64,
    /// The operation on a range; 0: not begun.
    pub(super) ticket: u64,
    /// Number of [drops](Engine::forget) when it began.
    pub(super) drops: u64,
    /// The task is over and only waits for its copies, or for reads on its caller's own lane.
    pub(super) over: bool,
}

/// The result of a step: whether the task is over, or the fault and its position.
pub(super) type Step = Result<bool, (Fault, u64)>;

impl Task {
    /// `own`: the caller sleeps, and the lane may carry I/O out on its own lane below.
    pub(super) fn new(bio: Bio, lane: u32, own: bool, spare: Spare) -> Task {
        let (start, size) = match bio.op() {
            Op::Command => (bio.reach().0, bio.reach().1 - bio.reach().0),
            _ => (bio.pos() - bio.done(), bio.len() + bio.done()),
        };
        let flags = bio.flags();
        let barrier = flags.intersects(platter_stack::barrier_gate::BARRIER);
        // Operations that bypass the cache would otherwise reach the disk before pages that are cached.
        let past = barrier && matches!(bio.op(), Op::Discard | Op::WriteZeroes);
        let before =
            past || (bio.op() != Op::Flush && flags.intersects(Flags::PREFLUSH | Flags::HARD_BARRIER));
        let call = Call::new(Access::new(start, size));
        // A caller that may leave before its I/O completes must not leave a bio on its lane that other tasks
        // wait for.
        let own = own
            && match bio.op() {
                Op::Read => flags.contains(Flags::BORROWED),
                Op::Flush | Op::Write => true,
                Op::Discard | Op::WriteZeroes | Op::Command => false,
            };
        let flushing = Flushing { own, ..spare.flushing };
        let ask = Ask {
            lane,
            handle: 0,
            id: bio.handle(),
            demand: start / PAGE..start.saturating_add(size).div_ceil(PAGE),
            own,
            context: bio.context(),
            ioprio: bio.ioprio(),
        };
        Task {
            wait: Wait::None,
            phase: if before { Phase::Before } else { Phase::Data },
            barrier,
            placed: false,
            cleared: before
                || !matches!(bio.op(), Op::Discard | Op::WriteZeroes | Op::Command)
                || !bio.changes(),
            ask,
            turn: None,
            waits_since: Time(0),
            looks: 0,
            tries: 0,
            call,
            begun: false,
            sole: 0,
            steps: PageSteps::default(),
            at: bio.pos(),
            end: bio.end(),
            pieces: spare.pieces,
            missed: spare.missed,
            hold: None,
            early: spare.early,
            inflow: spare.inflow,
            plan: spare.plan,
            writer: None,
            exchange: None,
            flushing,
            start,
            size,
            ticket: 0,
            drops: 0,
            over: false,
            bio,
        }
    }

    /// Returns the parts that can be reused.
    pub(super) fn into_parts(mut self) -> (Bio, Spare) {
        self.flushing.reset();
        self.missed.clear();
        self.early.reset();
        self.inflow.reset();
        self.plan.end(&mut self.call);
        let Task { bio, flushing, pieces, missed, early, inflow, plan, .. } = self;
        (bio, Spare { flushing, pieces, missed, early, inflow, plan })
    }

    /// Adds pages that it has begun to read.
    pub(super) fn note_missed(&mut self, more: &mut Vec<Range<u64>>) {
        for pages in more.drain(..) {
            match self.missed.last_mut().filter(|last| last.end == pages.start) {
                Some(last) => last.end = pages.end,
                None => self.missed.push(pages),
            }
        }
    }

    /// Whether it has begun to read a page, which is the next that it takes.
    pub(super) fn has_missed(&mut self, page: u64) -> bool {
        let passed = self.missed.iter().take_while(|pages| pages.end <= page).count();
        self.missed.drain(..passed);
        self.missed.iter().any(|pages| pages.contains(&page))
    }

    /// Whether the task can continue.
    pub(super) fn is_ready(&self, engine: &Engine) -> bool {
        engine.is_over(self.wait)
    }
}

impl Engine {
    /// Whether the event that a task waits for has happened.
    pub(super) fn is_over(&self, wait: Wait) -> bool {
        match wait {
            Wait::None | Wait::Turn => true,
            Wait::Io(key) => !self.ios.is_running(key),
            Wait::Room(turn) => !self.room.has(turn),
            Wait::Share(writer, turn) => !self.pages.writers.has(writer, turn),
            Wait::Frame(turn) => !self.wanted.has(turn),
            Wait::Range(ticket) => !self.pages.reserved.is_live(ticket),
            Wait::Job(ticket) => !self.jobs.is_running(ticket),
            Wait::Handle(place) => !self.handles.is_busy(place),
        }
    }

    /// Advances a task as far as possible. `true`: it is over, successfully or not.
    pub(super) fn step(&mut self, now: Time, task: &mut Task, through: bool) -> bool {
        if task.over {
            return true;
        }
        let waited = std::mem::replace(&mut task.wait, Wait::None);
        let mut fault = match waited {
            Wait::Io(key) => self.failure_of(task.ask.lane, key),
            _ => None,
        };
        task.turn = self.leave_line(now, task, waited).or(task.turn);
        task.ask.handle = self.handles.place(task.bio.handle());
        let step = loop {
            if task.barrier && !task.placed {
                if !self.pages.dirty.has_room() {
                    break self.wait_for_epochs(now, task);
                }
                self.pages.dirty.next_epoch();
                task.placed = true;
            }
            if !task.cleared && !self.pages.dirty.is_one_epoch() {
                // It goes past the cache and would reach the disk before dirty pages from before a barrier.
                task.phase = Phase::Before;
            }
            task.cleared = true;
            let fault = fault.take();
            let step = match (task.phase, task.bio.op()) {
                (Phase::Data, Op::Read) => self.read(now, task, fault),
                (Phase::Data, Op::Write) => self.write(now, task, through),
                (Phase::Data, Op::Flush) => self.flush(task, fault),
                (Phase::Data, Op::Discard | Op::WriteZeroes) => self.pass_on(task),
                (Phase::Data, Op::Command) => self.command(task),
                (Phase::Before, _) => self.flush_before(task, fault),
                (Phase::After, _) => self.flush_after(task, fault, through),
                (Phase::Forget(from, fault, pos), _) => self.forget_write(task, from, (fault, pos)),
            };
            // A phase has ended, and the next has not begun.
            if step != Ok(false) || task.wait != Wait::None {
                break step;
            }
        };
        match step {
            Ok(false) => {
                if task.sole != 0 {
                    self.handles.parked(task.ask.handle, task.sole, task.wait);
                }
                return false;
            }
            Ok(true) => {}
            Err((fault, pos)) => {
                if task.bio.op() == Op::Flush {
                    task.bio.rewind(pos, 0);
                }
                task.bio.fail(fault);
            }
        }
        self.finish(now, task);
        true
    }

    /// Ends a task early: it is late, or was cancelled.
    pub(super) fn take_back(&mut self, now: Time, task: &mut Task, fault: Fault) {
        task.bio.fail(fault);
        self.finish(now, task);
    }

    /// Releases the resources of a task that has ended or was taken back.
    pub(super) fn finish(&mut self, now: Time, task: &mut Task) {
        self.progress = true;
        task.over = true;
        let waited = std::mem::replace(&mut task.wait, Wait::None);
        self.leave_line(now, task, waited);
        self.end_hold(task);
        self.end_writing(task);
        if task.begun && !self.handles.manners().are_free() {
            self.handles.end_call(task.ask.handle, &mut task.call);
            self.handles.release(task.ask.handle, task.sole).iter().for_each(|&lane| self.lanes.kick(lane));
        }
        if task.ticket != 0 {
            self.abandon_pass(task.ticket);
        }
        if task.placed {
            self.pages.dirty.next_epoch();
        }
    }

    /// Lets the task continue when an I/O ends.
    pub(super) fn park(&mut self, task: &mut Task, key: IoKey) -> Step {
        self.wait_for(task.ask.lane, key);
        task.wait = Wait::Io(key);
        Ok(false)
    }

    /// Lets the task continue when an I/O ends; when that is a copy, it first tries again in some turns.
    pub(super) fn park_briefly(&mut self, task: &mut Task, key: IoKey) -> Step {
        if task.tries < TRIES && matches!(self.ios.get(key).state.kind, IoKind::Copy | IoKind::Move) {
            task.tries += 1;
            return self.park_for_turn(task);
        }
        task.tries = 0;
        self.park(task, key)
    }

    /// Lets the task continue in its lane's next turn.
    pub(super) fn park_for_turn(&mut self, task: &mut Task) -> Step {
        task.wait = Wait::Turn;
        Ok(false)
    }

    /// Lets the task continue when its own operation ends.
    pub(super) fn park_for_job(&mut self, task: &mut Task) -> Step {
        task.wait = Wait::Job(task.ticket);
        Ok(false)
    }

    /// Lets the task continue when an operation on a range ends.
    pub(super) fn park_for_range(&mut self, task: &mut Task, ticket: u64) -> Step {
        if let Some(range) = self.pages.reserved.get(ticket)
            && !range.waiters.contains(&task.ask.lane)
        {
            range.waiters.push(task.ask.lane);
        }
        task.wait = Wait::Range(ticket);
        Ok(false)
    }

    /// The fault of an operation that the cache itself cannot do.
    pub(super) fn at_layer(kind: Kind, pos: u64) -> (Fault, u64) {
        (Fault::new(kind, Stage::Layer), pos)
    }
}
