//! The engine: what processes do on a device, as the work of a [`Load`].

use super::bios::Bios;
use super::step::{Process, SLOTS, Step};
use super::task::{State, Task};
use super::{ProcessError, Record};
use crate::load::{Load, Stuck, Work};
use platter_block::bio::{Bio, Flags, Op};
use platter_block::fault;
use platter_block::time::{Span, Time};
use platter_disk::channel::Channel;
use platter_disk::device::Device;
use std::sync::atomic::AtomicBool;

/// Limits that end a run before its processes end.
pub struct RunLimits<'a> {
    /// How long it may take, by the clock of the device.
    pub time: Option<Span>,
    /// When it becomes true the run ends soon.
    pub cancel: &'a AtomicBool,
    /// Whether direct writes are synchronous to elevators, as in late kernels.
    pub sync_writes: bool,
    /// Whether writing back dirty pages starts the device, as `bdflush` of Linux 2.4 does after each pass: its plug
    /// ([`PlugSettings::BY_WAITERS`](platter_block::queue::PlugSettings::BY_WAITERS)) has no timer.
    pub flusher_starts: bool,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How long it took, by the clock of the device.
    pub took: Span,
    /// The processes, in the order in which they were given.
    pub records: Vec<Record>,
    /// Whether it was cancelled.
    pub cancelled: bool,
}

/// The slot of writes of the page cache, and that of the flush after them.
const WRITE_BACK: u8 = SLOTS as u8;
const SYNC_SLOT: u8 = SLOTS as u8 - 1;

/// Most bios in flight: the capacity of a channel.
const CAPACITY: usize = 65_536;

/// An I/O in flight.
#[derive(Clone, Copy)]
struct Flight {
    task: u32,
    slot: u8,
    len: u64,
    start: Time,
}

struct Engine<'a> {
    device: &'a Device,
    channel: Channel,
    tasks: Vec<Task>,
    flights: Vec<Flight>,
    free: Vec<u32>,
    bios: Bios,
    sync_writes: bool,
    flusher_starts: bool,
    /// Processes in the foreground that are not over.
    waited_for: usize,
}

/// Lets processes work on a device until all but those in the background are over, or the limits are reached.
///
/// # Errors
/// An I/O that fails, a device that is stuck, memory that cannot be had.
pub fn run(
    device: &Device,
    processes: Vec<Process>,
    limits: &RunLimits<'_>,
) -> Result<Outcome, ProcessError> {
    let channel = device.channel(CAPACITY)?;
    let start = device.clock().now();
    let waited_for = processes.iter().filter(|process| !process.background).count();
    let tasks: Vec<Task> = processes.into_iter().map(|process| Task::new(process, start)).collect();
    let mut load = Load::new(device.clock(), 1, tasks.len() as u32);
    for (task, number) in tasks.iter().zip(0..) {
        load.set_timer(number, Some(task.begin));
    }
    let mut engine = Engine {
        device,
        channel,
        tasks,
        flights: Vec::new(),
        free: Vec::new(),
        bios: Bios::new(device.geometry().limits.memory_align),
        sync_writes: limits.sync_writes,
        flusher_starts: limits.flusher_starts,
        waited_for,
    };
    let until = limits.time.map_or(Time(u64::MAX), |time| start + time);
    // What happens at the last moment still counts.
    let cancelled = load.run_unless(&mut engine, until + Span(1), limits.cancel)?;
    let now = load.now().min(until);
    engine.count_those_out(now);
    let records = engine.tasks.into_iter().map(|mut task| {
        task.record.ran = task.record.took.unwrap_or(now.since(task.begin));
        task.record
    });
    Ok(Outcome { took: now.since(start), records: records.collect(), cancelled })
}

impl Work for Engine<'_> {
    type Error = ProcessError;
    /// A process that thinks while its writes are out does not wait for them.
    const ALWAYS_WAITS: bool = false;

    fn channels(&mut self, _port: u32) -> impl Iterator<Item = &mut Channel> {
        std::iter::once(&mut self.channel)
    }

    fn completed(&mut self, load: &mut Load, _port: u32, done: &mut Vec<Bio>) -> Result<(), ProcessError> {
        done.drain(..).try_for_each(|bio| self.land(load, bio))
    }

    fn expired(&mut self, load: &mut Load, task: u32) -> Result<u32, ProcessError> {
        self.advance(load, task).map(|()| 0)
    }

    fn is_over(&self) -> bool {
        self.waited_for == 0
    }
}

impl Engine<'_> {
    /// I/Os in flight have waited at least this long: a table without them would hide starvation.
    fn count_those_out(&mut self, now: Time) {
        let mut out = vec![true; self.flights.len()];
        self.free.iter().for_each(|&number| out[number as usize] = false);
        for (flight, _) in self.flights.iter().zip(out).filter(|(_, out)| *out) {
            let task = &mut self.tasks[flight.task as usize];
            if flight.slot != WRITE_BACK && flight.len > 0 && task.state != State::Over {
                task.record.latency.record(now.since(flight.start).0);
            }
        }
    }

    /// Processes a completed I/O and lets its process continue.
    fn land(&mut self, load: &mut Load, bio: Bio) -> Result<(), ProcessError> {
        let number = bio.token() as u32;
        let Flight { task, slot, len, start } = self.flights[number as usize];
        self.free.push(number);
        if let Err(fault) = bio.status() {
            let offset = bio.pos() - bio.done();
            let (device, detail) = (self.device.name(), String::new());
            return Err(fault::Error { fault, op: bio.op(), device, offset, len, detail }.into());
        }
        let waiting = &mut self.tasks[task as usize];
        waiting.record.bytes += len;
        if slot == WRITE_BACK {
            waiting.cache.written(len);
        } else {
            waiting.pending[usize::from(slot)] -= 1;
            if len > 0 {
                waiting.record.latency.record(load.now().since(start).0);
            }
        }
        self.bios.put(bio, len);
        self.advance(load, task)
    }

    /// Runs a process until it has to wait.
    fn advance(&mut self, load: &mut Load, index: u32) -> Result<(), ProcessError> {
        self.write_back(load.now(), index)?;
        while !self.tasks[index as usize].is_blocked(load.now()) {
            let task = &mut self.tasks[index as usize];
            if task.state == State::Syncing {
                self.start(load.now(), index, Op::Flush, 0, 0, SYNC_SLOT)?;
                self.tasks[index as usize].state = State::Awaiting(SYNC_SLOT);
                self.unplug();
                continue;
            }
            task.state = State::Going;
            let Some(step) = task.process.steps.next() else {
                self.end(load, index);
                return Ok(());
            };
            self.take_step(load, index, step)?;
        }
        Ok(())
    }

    fn take_step(&mut self, load: &mut Load, index: u32, step: Step) -> Result<(), ProcessError> {
        let now = load.now();
        let task = &mut self.tasks[index as usize];
        match step {
            Step::Start { op, offset, len, slot } => {
                return self.start(now, index, op, offset, len, slot.min(SYNC_SLOT));
            }
            Step::Await(slot) => {
                let slot = slot.min(SYNC_SLOT);
                task.state = State::Awaiting(slot);
                if task.pending[usize::from(slot)] > 0 {
                    self.unplug();
                }
            }
            Step::Think(span) => {
                task.state = State::Thinking(now + span);
                if span > Span::ZERO {
                    load.set_timer(index, Some(now + span));
                }
            }
            Step::Dirty { offset, len } => {
                task.cache.dirty(offset, len);
                task.state = State::Throttled;
                return self.write_back(now, index);
            }
            Step::Sync => {
                task.cache.sync();
                task.state = State::Syncing;
                return self.write_back(now, index);
            }
        }
        Ok(())
    }

    /// A process waits for submitted I/O: the device must not hold it back.
    fn unplug(&mut self) {
        self.channel.flush();
        self.channel.unplug();
    }

    fn start(
        &mut self,
        now: Time,
        index: u32,
        op: Op,
        offset: u64,
        len: u64,
        slot: u8,
    ) -> Result<(), ProcessError> {
        let task = &mut self.tasks[index as usize];
        let mut bio = self.bios.take(op, offset, len)?;
        bio.set_context(task.process.context);
        bio.set_ioprio(task.process.ioprio);
        if slot != WRITE_BACK {
            task.pending[usize::from(slot)] += 1;
            if op == Op::Write && self.sync_writes {
                // A process waits for this write; reads are always treated like that.
                bio.add_flags(Flags::SYNC);
            }
        }
        let flight = Flight { task: index, slot, len, start: now };
        let number = self.free.pop().unwrap_or_else(|| {
            self.flights.push(flight);
            self.flights.len() as u32 - 1
        });
        self.flights[number as usize] = flight;
        bio.set_token(u64::from(number));
        // Processes have far fewer I/Os in flight than a channel holds; one with more continues without its
        // I/O.
        self.channel.submit(bio).map_err(|_| Stuck { ios: CAPACITY }.into())
    }

    fn write_back(&mut self, now: Time, index: u32) -> Result<(), ProcessError> {
        let mut wrote = false;
        while let Some((offset, len)) = self.tasks[index as usize].cache.next_write() {
            self.start(now, index, Op::Write, offset, len, WRITE_BACK)?;
            wrote = true;
        }
        if wrote && self.flusher_starts {
            self.unplug();
        }
        Ok(())
    }

    fn end(&mut self, load: &mut Load, index: u32) {
        let task = &mut self.tasks[index as usize];
        task.state = State::Over;
        task.record.took = Some(load.now().since(task.begin));
        self.waited_for -= usize::from(!task.process.background);
        load.set_timer(index, None);
        self.device.context_exited(task.process.context);
    }
}
