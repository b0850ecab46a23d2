//! What tasks share with the engine that runs them: I/Os below, the bios of the layer, timers, and which tasks can
//! continue.

#![allow(unsafe_code)]

use super::ios::{IoKey, IoTable};
use super::memory::{self, Buffer, Shared};
use crate::barrier_gate::BARRIER;
use crate::sync::{Mutex, MutexGuard, lock};
use platter_block::bio::{Bio, Flags, Op};
use platter_block::command::Command;
use platter_block::fault::{Fault, Kind, Stage, Status};
use platter_block::lane::Cancel;
use platter_block::time::Time;
use platter_block::whole::Whole;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// A task of a layer.
pub(super) type BoxFuture = Pin<Box<dyn Future<Output = Status> + Send>>;

/// No lane: a task of the layer itself.
pub(super) const NO_LANE: u32 = u32::MAX;

/// Flags that I/Os below do not inherit, because the layer keeps the order itself.
const ORDER: Flags = BARRIER.union(Flags::PREFLUSH);

/// The fault of what a task begins for a bio that was taken back.
pub(super) const LATE: Fault = Fault::new(Kind::TimedOut, Stage::Layer);

/// Where the bio of a task is.
#[derive(Default)]
pub(super) enum Hold {
    /// The task has none, or its submitter has it back.
    #[default]
    None,
    /// Here.
    Bio(Bio),
    /// In the task's [`Whole`], because parts were made of it.
    Whole,
    /// With a device below.
    Passed,
}

/// The bio of a task.
#[derive(Default)]
pub(super) struct TaskState {
    pub(super) lane: u32,
    pub(super) port: usize,
    pub(super) hold: Hold,
    whole: Whole,
    /// Its I/Os below that use its memory.
    pub(super) parts: u32,
    /// The first byte of the bio that failed, and why.
    pub(super) failed: Option<(u64, Fault)>,
    token: u64,
    identity: usize,
    flags: Flags,
    pos: u64,
    pub(super) len: u64,
    /// The bio may change the device.
    pub(super) changes: bool,
    /// Its submitter does not wait for it any longer: nothing more is begun for it.
    pub(super) late: bool,
    /// The bio was passed on without a task; it is over when it comes back.
    pub(super) routed: bool,
    /// The result of the task, which waits for its parts.
    pub(super) ended: Option<Status>,
    /// The layer has changed devices for it by I/O that is no part of it; and some of that may not be over.
    pub(super) copied: bool,
    pub(super) copying: bool,
    /// It is a change that devices have had and that is to be carried out again: a part of it may be done.
    pub(super) tried: bool,
    /// It is a task of the layer itself.
    pub(super) is_own: bool,
    /// Neither a bio nor a thread waits for it.
    pub(super) is_background: bool,
    pub(super) queued: bool,
}

impl TaskState {
    /// Whether the layer has the bio, and no device has a part of it or a copy of its data.
    pub(super) fn is_held(&self) -> bool {
        self.parts == 0 && !self.copying && matches!(self.hold, Hold::Bio(_) | Hold::Whole)
    }

    /// Whether nothing of the bio was carried out.
    pub(super) fn is_untouched(&self) -> bool {
        self.is_held() && !self.copied && matches!(self.hold, Hold::Bio(_))
    }

    /// Whether its bio has not completed.
    pub(super) fn is_in_use(&self) -> bool {
        !matches!(self.hold, Hold::None)
    }

    /// Whether its bio has completed, or completes as soon as no device has a part of it.
    pub(super) fn is_taken_back(&self) -> bool {
        self.late || !self.is_in_use()
    }
}

/// What an I/O below is for.
#[derive(Default)]
pub(super) struct IoState {
    device: usize,
    task: u32,
    /// A part of the task's bio, at this offset; or the bio itself.
    part: Option<u64>,
    passes: bool,
    /// It moves data of the task's bio, or what surrounds that.
    serves: bool,
    done: bool,
    /// No task waits for it.
    detached: bool,
    status: Option<Status>,
    buffer: Option<Buffer>,
}

/// See the module.
#[derive(Default)]
pub(super) struct Core {
    pub(super) now: Time,
    /// The task that runs.
    pub(super) current: u32,
    pub(super) ready: Vec<u32>,
    pub(super) timers: BinaryHeap<Reverse<(Time, u32)>>,
    pub(super) ios: IoTable<IoState>,
    /// I/Os to submit, with the devices.
    pub(super) staged: Vec<(usize, Bio)>,
    pub(super) tasks: Vec<TaskState>,
    pub(super) free: Vec<u32>,
    /// Tasks to start.
    pub(super) spawned: Vec<BoxFuture>,
    /// An I/O has succeeded that is one of a bio, or of a task that a thread waits for.
    pub(super) advanced: bool,
}

impl Core {
    /// A place for a task.
    pub(super) fn enter(&mut self, lane: u32, port: usize, bio: Option<Bio>) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.tasks.push(TaskState::default());
            self.tasks.len() as u32 - 1
        });
        let task = &mut self.tasks[slot as usize];
        let (token, flags) = bio.as_ref().map_or((0, Flags::NONE), |bio| (bio.token(), bio.flags()));
        task.identity = bio.as_ref().map_or(0, Bio::identity);
        task.changes = bio.as_ref().is_some_and(Bio::changes);
        let (pos, len) = bio.as_ref().map_or((0, 0), |bio| (bio.pos(), bio.len()));
        (task.lane, task.port, task.hold) = (lane, port, bio.map_or(Hold::None, Hold::Bio));
        (task.parts, task.failed, task.late, task.tried) = (0, None, false, false);
        (task.token, task.flags, task.pos, task.len) = (token, flags, pos, len);
        (task.routed, task.copied, task.copying, task.ended) = (false, false, false, None);
        task.is_background = false;
        slot
    }

    /// Lets a task continue in this turn.
    pub(super) fn wake(&mut self, slot: u32) {
        let Some(task) = self.tasks.get_mut(slot as usize) else { return };
        if !std::mem::replace(&mut task.queued, true) {
            self.ready.push(slot);
        }
    }

    /// The next task that can continue.
    pub(super) fn next_ready(&mut self) -> Option<u32> {
        let slot = self.ready.pop()?;
        self.tasks[slot as usize].queued = false;
        Some(slot)
    }

    /// Starts an I/O of the layer.
    fn submit(&mut self, device: usize, task: u32, serves: bool, mut bio: Bio) -> IoKey {
        let key = self.ios.begin(IoState::default);
        self.ios.get(key).state = IoState { device, task, serves, ..IoState::default() };
        self.ios.sign(key, &mut bio);
        self.staged.push((device, bio));
        key
    }

    /// Passes the bio of a task on to `pos` of a device.
    pub(super) fn pass(&mut self, slot: u32, device: usize, pos: u64) -> Result<IoKey, Fault> {
        let task = &mut self.tasks[slot as usize];
        let mut bio = match std::mem::replace(&mut task.hold, Hold::Passed) {
            Hold::Bio(bio) if !task.late => bio,
            // It was taken back, has parts, or is below: it stays where it is, or it would never complete.
            hold => {
                task.hold = hold;
                return Err(LATE);
            }
        };
        let durable =
            task.flags.contains(Flags::HARD_BARRIER) && bio.op().changes() && bio.op() != Op::Command;
        bio.remove_flags(ORDER);
        if durable {
            bio.add_flags(Flags::FUA);
        }
        match bio.op() {
            Op::Flush => {}
            // It may have been refused by another device.
            Op::Command => bio.rewind(bio.pos(), task.len),
            _ => bio.remap(pos),
        }
        let key = self.ios.begin(IoState::default);
        self.ios.get(key).state = IoState { device, task: slot, passes: true, ..IoState::default() };
        self.ios.sign(key, &mut bio);
        task.parts += 1;
        self.staged.push((device, bio));
        Ok(key)
    }

    /// Makes a part of a task's bio, `len` bytes from its byte `skip` on, for `pos` of a device.
    fn part(&mut self, slot: u32, (skip, len): (u64, u64), device: usize, pos: u64) -> Result<IoKey, Fault> {
        let task = &mut self.tasks[slot as usize];
        if task.late {
            return Err(LATE);
        }
        if let Hold::Bio(_) = task.hold
            && let Hold::Bio(bio) = std::mem::replace(&mut task.hold, Hold::Whole)
        {
            task.whole.begin(bio);
        }
        let (Hold::Whole, Some(bio)) = (&task.hold, task.whole.bio()) else { return Err(LATE) };
        let mut part = self.ios.bio();
        task.whole.share(&mut part, bio.op(), pos);
        if bio.op().has_data() {
            let mut source = task.whole.source();
            source.skip(skip);
            source.give(&mut part, len)?;
        } else {
            part.rewind(pos, len);
        }
        part.remove_flags(ORDER);
        if task.flags.contains(Flags::HARD_BARRIER) && bio.op().changes() {
            part.add_flags(Flags::FUA);
        }
        task.parts += 1;
        let key = self.ios.begin(IoState::default);
        self.ios.get(key).state = IoState { device, task: slot, part: Some(skip), ..IoState::default() };
        self.ios.sign(key, &mut part);
        self.staged.push((device, part));
        Ok(key)
    }

    /// An I/O has come back from a device. Returns the task that is over by that: its bio was passed on, or its last
    /// part came back.
    pub(super) fn came_back(&mut self, mut bio: Bio) -> Option<u32> {
        let key = self.ios.of(&bio)?;
        let status = match bio.status() {
            Ok(()) if bio.op().has_data() && !bio.is_empty() => Err(Fault::new(Kind::Short, Stage::Layer)),
            status => status,
        };
        let done = bio.done();
        let state = &mut self.ios.get(key).state;
        (state.done, state.status) = (true, Some(status));
        let (slot, passes, part) = (state.task, state.passes, state.part);
        let detached = state.detached;
        let is_background = self.tasks.get(slot as usize).is_none_or(|task| task.is_background);
        self.advanced |= status.is_ok() && !is_background;
        if passes {
            // The table keeps another bio in place of this one.
            let spare = std::mem::replace(&mut bio, Bio::flush());
            bio.set_token(spare.token());
            self.restore(slot, spare);
        } else if part.is_none() {
            self.ios.get(key).state.buffer = bio.take_buffer();
        }
        self.ios.came_back(bio);
        if detached || (passes && self.tasks[slot as usize].routed) {
            self.ios.end(key);
        } else {
            self.wake(slot);
        }
        if !(passes || part.is_some()) {
            return None;
        }
        let task = &mut self.tasks[slot as usize];
        task.parts -= 1;
        if let (Some(skip), Err(fault)) = (part, status) {
            let at = skip + done;
            if task.failed.is_none_or(|(first, _)| at < first) {
                task.failed = Some((at, fault));
            }
        }
        (task.parts == 0 && (task.routed || task.ended.is_some())).then_some(slot)
    }

    /// A bio that was passed on is the layer's again.
    fn restore(&mut self, slot: u32, mut bio: Bio) {
        let task = &mut self.tasks[slot as usize];
        bio.set_token(task.token);
        bio.remove_flags(ORDER | Flags::FUA);
        bio.add_flags(task.flags);
        if !matches!(bio.op(), Op::Flush | Op::Command) {
            bio.remap(task.pos + bio.done());
        }
        task.hold = Hold::Bio(bio);
    }

    /// Takes the bio of a task with its result. `None`: its submitter has it back.
    pub(super) fn take_bio(&mut self, slot: u32, status: Status) -> Option<Bio> {
        let task = &mut self.tasks[slot as usize];
        match std::mem::take(&mut task.hold) {
            Hold::None | Hold::Passed => None,
            Hold::Bio(mut bio) => {
                match status {
                    Err(fault) => bio.fail(fault),
                    Ok(()) if bio.status().is_ok() => bio.advance(bio.len()),
                    Ok(()) => {}
                }
                Some(bio)
            }
            Hold::Whole => {
                let failed = status.err().map(|fault| match task.failed {
                    Some((done, first)) => (first, done),
                    None => (fault, 0),
                });
                task.whole.end(failed)
            }
        }
    }

    /// The device and token of each I/O below that carries a part of a task's bio; or `also` what serves it without being one.
    pub(super) fn parts_of(&self, slot: u32, also: bool) -> impl Iterator<Item = (usize, u64)> + '_ {
        let entries = (0..).zip(self.ios.entries()).filter(move |(_, io)| {
            let state = &io.state;
            io.is_out()
                && state.task == slot
                && (state.passes || state.part.is_some() || (also && state.serves))
        });
        entries.map(|(at, io)| (io.state.device, IoTable::<IoState>::token(self.ios.key(at))))
    }

    /// The tasks of a lane whose bios are to be taken back.
    pub(super) fn matching(&self, lane: u32, which: &Cancel) -> Vec<u32> {
        let is_it = |(_, task): &(u32, &TaskState)| {
            task.lane == lane && task.is_in_use() && which.is_of(task.token, task.identity)
        };
        (0..).zip(&self.tasks).filter(is_it).map(|(slot, _)| slot).collect()
    }
}

/// What a layer does I/O with. Cheap to clone.
#[derive(Clone, Default)]
pub struct Below(Arc<Mutex<Core>>);

impl Below {
    pub(super) fn core(&self) -> MutexGuard<'_, Core> {
        lock(&self.0)
    }

    /// The time of this turn.
    pub fn now(&self) -> Time {
        self.core().now
    }

    /// Reads from `pos` of a device into all of a buffer.
    pub fn read(&self, device: usize, pos: u64, buffer: Buffer) -> Transfer {
        self.transfer(device, false, Bio::read(pos, buffer))
    }

    /// Writes all of a buffer to `pos` of a device; `flags`: [`Flags::FUA`], or none.
    pub fn write(&self, device: usize, pos: u64, buffer: Buffer, flags: Flags) -> Transfer {
        let bio = Bio::write(pos, buffer).map(|mut bio| {
            bio.add_flags(flags);
            bio
        });
        self.transfer(device, false, bio)
    }

    /// Writes a share of memory to `pos` of a device, as [`write`](Below::write). The I/O keeps its share until it has come back.
    pub fn write_shared(&self, device: usize, pos: u64, data: &Shared, flags: Flags) -> Io {
        self.begin(device, flags, Bio::write(pos, data.clone()))
    }

    /// Discards, or writes zeroes to, `len` bytes from `pos` of a device; `flags` as for [`write`](Below::write).
    pub fn clear(&self, device: usize, discards: bool, pos: u64, len: u64, flags: Flags) -> Io {
        let bio = if discards { Bio::discard(pos, len) } else { Bio::write_zeroes(pos, len) };
        self.begin(device, flags, Ok(bio))
    }

    fn begin(&self, device: usize, flags: Flags, bio: Result<Bio, Fault>) -> Io {
        match bio {
            Ok(mut bio) => {
                bio.add_flags(flags);
                self.start(device, false, bio)
            }
            Err(fault) => Io { below: self.clone(), key: Err(fault) },
        }
    }

    /// Lets each task continue that waits for I/O of a device, because it need not wait any longer ([`unless`](super::unless)).
    pub fn wake_at(&self, device: usize) {
        let mut core = self.core();
        let waits = |io: &&super::ios::Io<IoState>| io.is_out() && io.state.device == device;
        let tasks: Vec<u32> = core.ios.entries().iter().filter(waits).map(|io| io.state.task).collect();
        tasks.into_iter().for_each(|task| core.wake(task));
    }

    fn transfer(&self, device: usize, serves: bool, bio: Result<Bio, Fault>) -> Transfer {
        Transfer(match bio {
            Ok(bio) => self.start(device, serves, bio),
            Err(fault) => Io { below: self.clone(), key: Err(fault) },
        })
    }

    /// Sends a command with the memory of its data.
    pub fn command(&self, device: usize, command: Arc<Command>, buffer: Buffer) -> Transfer {
        self.transfer(device, false, Bio::with_command(command, buffer))
    }

    /// Flushes a device.
    pub fn flush(&self, device: usize) -> Io {
        self.start(device, false, Bio::flush())
    }

    fn start(&self, device: usize, serves: bool, mut bio: Bio) -> Io {
        bio.add_flags(Flags::SYNC);
        let mut core = self.core();
        let task = core.current;
        let key = core.submit(device, task, serves, bio);
        drop(core);
        Io { below: self.clone(), key: Ok(key) }
    }

    /// Starts a task of the layer itself, which no bio waits for. Its result is ignored.
    pub fn spawn(&self, task: impl Future<Output = Status> + Send + 'static) {
        self.core().spawned.push(Box::pin(task));
    }

    /// Waits until a time.
    pub fn sleep_until(&self, at: Time) -> impl Future<Output = ()> + Send + use<> {
        let below = self.clone();
        std::future::poll_fn(move |_| {
            let mut core = below.core();
            if core.now >= at {
                return std::task::Poll::Ready(());
            }
            let current = core.current;
            core.timers.push(Reverse((at, current)));
            std::task::Poll::Pending
        })
    }
}

/// An I/O that has been started, whether or not it is awaited: the layer's own, or a part of a bio.
pub struct Io {
    below: Below,
    key: Result<IoKey, Fault>,
}

impl Io {
    fn poll_both(&mut self) -> std::task::Poll<(Status, Option<Buffer>)> {
        let key = match self.key {
            Ok(key) => key,
            Err(fault) => return std::task::Poll::Ready((Err(fault), None)),
        };
        let mut core = self.below.core();
        let current = core.current;
        let state = &mut core.ios.get(key).state;
        if !state.done {
            // Another task may wait for the I/O than the one that started it, except for parts.
            if state.part.is_none() && !state.passes {
                state.task = current;
            }
            return std::task::Poll::Pending;
        }
        let (status, buffer) = (state.status.unwrap_or(Ok(())), state.buffer.take());
        core.ios.end(key);
        self.key = Err(Fault::new(Kind::Contract, Stage::Layer));
        std::task::Poll::Ready((status, buffer))
    }
}

impl Future for Io {
    type Output = Status;

    fn poll(mut self: Pin<&mut Io>, _: &mut std::task::Context<'_>) -> std::task::Poll<Status> {
        self.poll_both().map(|(status, _)| status)
    }
}

impl Drop for Io {
    fn drop(&mut self) {
        let Ok(key) = self.key else { return };
        let mut core = self.below.core();
        let state = &mut core.ios.get(key).state;
        if !state.done {
            state.detached = true;
            return;
        }
        let buffer = state.buffer.take();
        core.ios.end(key);
        drop(core);
        drop(buffer);
    }
}

/// A transfer with a buffer, which comes back when it succeeds.
pub struct Transfer(Io);

impl Future for Transfer {
    type Output = Result<Buffer, Fault>;

    fn poll(mut self: Pin<&mut Transfer>, _: &mut std::task::Context<'_>) -> std::task::Poll<Self::Output> {
        self.0.poll_both().map(|(status, buffer)| status.and_then(|()| buffer.ok_or(LATE)))
    }
}

/// A bio of a program that a layer carries out. When the layer's function returns, the bio completes with its result.
pub struct Task {
    pub(super) below: Below,
    pub(super) slot: u32,
    pub(super) port: usize,
    pub(super) op: Op,
    pub(super) pos: u64,
    pub(super) len: u64,
    pub(super) flags: Flags,
    pub(super) reach: (u64, u64),
    pub(super) changes: bool,
}

impl Task {
    /// The port through which the bio came.
    pub fn port(&self) -> usize {
        self.port
    }

    /// Read, write, discard, write-zeroes, or a command. (Flushes are not tasks.)
    pub fn op(&self) -> Op {
        self.op
    }

    /// First byte.
    pub fn pos(&self) -> u64 {
        self.pos
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is nothing to do; never, because empty bios are refused.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the change must be durable when the bio completes.
    pub fn is_durable(&self) -> bool {
        self.flags.intersects(Flags::FUA | Flags::HARD_BARRIER)
    }

    /// Passes the bio itself on to `pos` of a device: the cheapest way. It fails if parts were made of it.
    pub fn pass(&self, device: usize, pos: u64) -> Io {
        let key = self.below.core().pass(self.slot, device, pos);
        Io { below: self.below.clone(), key }
    }

    /// Starts the same operation for `len` bytes of the bio, from its byte `skip` on, at `pos` of a device. The memory
    /// is that of the bio. A layer keeps the number of parts in flight bounded.
    pub fn part(&self, skip: u64, len: u64, device: usize, pos: u64) -> Io {
        let key = self.below.core().part(self.slot, (skip, len), device, pos);
        Io { below: self.below.clone(), key }
    }

    /// Reads what surrounds the data of the bio, as [`Below::read`]. Nothing is begun for a bio that was
    /// [taken back](Task::is_taken_back).
    pub fn read(&self, device: usize, pos: u64, buffer: Buffer) -> Transfer {
        self.serve(device, Bio::read(pos, buffer))
    }

    /// Writes a buffer with data of the bio to `pos` of a device, as [`read`](Task::read).
    pub fn write(&self, device: usize, pos: u64, buffer: Buffer) -> Transfer {
        self.serve(device, Bio::write(pos, buffer))
    }

    fn serve(&self, device: usize, bio: Result<Bio, Fault>) -> Transfer {
        let bio = if self.is_taken_back() { Err(LATE) } else { bio };
        self.below.transfer(device, true, bio)
    }

    /// All copies have been written, or will not be.
    pub fn end_copies(&self) {
        self.below.core().tasks[self.slot as usize].copying = false;
    }

    /// Copies the data of a write, from its byte `skip` on. Until [`end_copies`](Task::end_copies) the bio is not taken back,
    /// because the copy may still be written; if it is late, what [`read`](Task::read) and [`write`](Task::write) have begun is.
    ///
    /// # Errors
    /// The bio was [taken back](Task::is_taken_back), or has no such data.
    pub fn copy_out(&self, skip: u64, out: &mut [u8]) -> Status {
        self.with_bio(|bio, _| {
            // SAFETY: the layer has the bio, or parts of it, and it has not completed.
            bio.op() == Op::Write && unsafe { memory::copy_out(bio, skip, out) }
        })?;
        self.begin_change()
    }

    /// Copies data into the memory of a read, from its byte `skip` on. No part of it may be in flight.
    ///
    /// # Errors
    /// As for [`copy_out`](Task::copy_out); parts are in flight.
    pub fn copy_in(&self, skip: u64, data: &[u8]) -> Status {
        self.with_bio(|bio, parts| {
            // SAFETY: as above, and no driver has a part of it.
            bio.op() == Op::Read && parts == 0 && unsafe { memory::copy_in(bio, skip, data) }
        })
    }

    fn with_bio(&self, copy: impl FnOnce(&Bio, u32) -> bool) -> Status {
        let core = self.below.core();
        let task = &core.tasks[self.slot as usize];
        if task.is_taken_back() {
            return Err(LATE);
        }
        let bio = match &task.hold {
            Hold::Bio(bio) => Some(bio),
            Hold::Whole => task.whole.bio(),
            Hold::None | Hold::Passed => None,
        };
        let bio = bio.ok_or(LATE)?;
        if copy(bio, task.parts) { Ok(()) } else { Err(Fault::new(Kind::BadSegments, Stage::Layer)) }
    }
}
