//! The engine: lets processes work on a device, in the device's time.

use super::bios::Bios;
use super::step::{Process, SLOTS, Step};
use super::task::{State, Task};
use super::{ProcessError, Record};
use crate::agenda::Agenda;
use platter_block::bio::{Bio, Flags, Op};
use platter_block::fault;
use platter_block::time::{Span, Time};
use platter_disk::channel::Channel;
use platter_disk::device::Device;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Limits that end a run before its processes end.
pub struct RunLimits<'a> {
    /// How long it may take, by the clock of the device.
    pub time: Option<Span>,
    /// When it becomes true the run ends soon.
    pub cancel: &'a AtomicBool,
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

/// Longest sleep on a real device before the cancel flag is checked again.
const NAP: Span = Span::from_millis(50);

/// Rounds between two looks at the cancel flag in virtual time.
const ROUNDS: u32 = 1024;

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
    done: Vec<Bio>,
    /// Processes have the first numbers, the device has the last.
    agenda: Agenda,
    now: Time,
    simulated: bool,
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
    let mut agenda = Agenda::new(tasks.len() + 1);
    for (task, number) in tasks.iter().zip(0..) {
        agenda.set(number, Some(task.begin));
    }
    let mut engine = Engine {
        device,
        channel,
        tasks,
        flights: Vec::new(),
        free: Vec::new(),
        bios: Bios::new(device.geometry().limits.memory_align),
        done: Vec::new(),
        agenda,
        now: start,
        simulated: device.clock().simulated().is_some(),
        waited_for,
    };
    let until = limits.time.map_or(Time(u64::MAX), |time| start + time);
    let cancelled = engine.run(until, limits.cancel)?;
    engine.count_those_out();
    let now = engine.now;
    let records = engine.tasks.into_iter().map(|mut task| {
        task.record.ran = task.record.took.unwrap_or(now.since(task.begin));
        task.record
    });
    Ok(Outcome { took: now.since(start), records: records.collect(), cancelled })
}

impl Engine<'_> {
    /// Whether it was cancelled.
    fn run(&mut self, until: Time, cancel: &AtomicBool) -> Result<bool, ProcessError> {
        let mut rounds = 0u32;
        while self.waited_for > 0 && self.now < until {
            if (!self.simulated || rounds.is_multiple_of(ROUNDS)) && cancel.load(Ordering::Relaxed) {
                return Ok(true);
            }
            rounds = rounds.wrapping_add(1);
            if self.simulated {
                self.pass(until)?
            } else {
                self.wait(until)
            }
            self.land_all()?;
            while let Some((_, number)) = self.agenda.first().filter(|(at, _)| *at <= self.now) {
                self.agenda.set(number, None);
                if (number as usize) < self.tasks.len() {
                    self.advance(number)?;
                }
                self.turn()?;
            }
            self.turn()?;
        }
        Ok(false)
    }

    /// I/Os in flight have waited at least this long: a table without them would hide starvation.
    fn count_those_out(&mut self) {
        let mut out = vec![true; self.flights.len()];
        self.free.iter().for_each(|&number| out[number as usize] = false);
        for (flight, _) in self.flights.iter().zip(out).filter(|(_, out)| *out) {
            let task = &mut self.tasks[flight.task as usize];
            if flight.slot != WRITE_BACK && flight.len > 0 && task.state != State::Over {
                task.record.latency.record(self.now.since(flight.start).0);
            }
        }
    }

    /// Advances the virtual clock to the next event.
    fn pass(&mut self, until: Time) -> Result<(), ProcessError> {
        let Some((at, _)) = self.agenda.first() else {
            return Err(ProcessError::Stuck { ios: self.channel.outstanding() });
        };
        self.now = at.min(until);
        if let Some(clock) = self.device.clock().simulated() {
            clock.advance_to(self.now);
        }
        Ok(())
    }

    /// Waits in real time for the next event.
    fn wait(&mut self, until: Time) {
        let timers = self.agenda.first().map_or(until, |(at, _)| at.min(until));
        let span = timers.since(self.channel.clock().now()).min(NAP);
        if self.channel.outstanding() > 0 {
            self.channel.wait(&mut self.done, Some(span));
        } else if span > Span::ZERO {
            std::thread::sleep(Duration::from_nanos(span.0));
        }
        self.now = self.channel.clock().now().min(until);
    }

    /// Hands over; in virtual time also collects, until nothing more happens at this time.
    fn turn(&mut self) -> Result<(), ProcessError> {
        if !self.simulated {
            self.channel.flush();
            return Ok(());
        }
        loop {
            self.channel.poll_at(self.now, &mut self.done);
            if self.done.is_empty() {
                break;
            }
            self.land_all()?;
        }
        // A device that wants to be polled again at the same time is polled a little later.
        let next = self.channel.next_wakeup().map(|at| at.max(self.now + Span(1)));
        self.agenda.set(self.tasks.len() as u32, next);
        Ok(())
    }

    fn land_all(&mut self) -> Result<(), ProcessError> {
        let mut done = std::mem::take(&mut self.done);
        for bio in done.drain(..) {
            self.land(bio)?;
        }
        self.done = done;
        Ok(())
    }

    /// Processes a completed I/O and lets its process continue.
    fn land(&mut self, bio: Bio) -> Result<(), ProcessError> {
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
                waiting.record.latency.record(self.now.since(start).0);
            }
        }
        self.bios.put(bio, len);
        self.advance(task)
    }

    /// Runs a process until it has to wait.
    fn advance(&mut self, index: u32) -> Result<(), ProcessError> {
        self.write_back(index)?;
        while !self.tasks[index as usize].is_blocked(self.now) {
            let task = &mut self.tasks[index as usize];
            if task.state == State::Syncing {
                self.start(index, Op::Flush, 0, 0, SYNC_SLOT)?;
                self.tasks[index as usize].state = State::Awaiting(SYNC_SLOT);
                self.unplug();
                continue;
            }
            task.state = State::Going;
            let Some(step) = task.process.steps.next() else {
                self.end(index);
                return Ok(());
            };
            self.take_step(index, step)?;
        }
        Ok(())
    }

    fn take_step(&mut self, index: u32, step: Step) -> Result<(), ProcessError> {
        let now = self.now;
        let task = &mut self.tasks[index as usize];
        match step {
            Step::Start { op, offset, len, slot } => {
                return self.start(index, op, offset, len, slot.min(SYNC_SLOT));
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
                    self.agenda.set(index, Some(now + span));
                }
            }
            Step::Dirty { offset, len } => {
                task.cache.dirty(offset, len);
                task.state = State::Throttled;
                return self.write_back(index);
            }
            Step::Sync => {
                task.cache.sync();
                task.state = State::Syncing;
                return self.write_back(index);
            }
        }
        Ok(())
    }

    /// A process waits for submitted I/O: the device must not hold it back.
    fn unplug(&mut self) {
        self.channel.flush();
        self.channel.unplug();
    }

    fn start(&mut self, index: u32, op: Op, offset: u64, len: u64, slot: u8) -> Result<(), ProcessError> {
        let task = &mut self.tasks[index as usize];
        let mut bio = self.bios.take(op, offset, len)?;
        bio.set_context(task.process.context);
        bio.set_ioprio(task.process.ioprio);
        if slot != WRITE_BACK {
            task.pending[usize::from(slot)] += 1;
            if op == Op::Write {
                // A process waits for this write; reads are always treated like that.
                bio.add_flags(Flags::SYNC);
            }
        }
        let flight = Flight { task: index, slot, len, start: self.now };
        let number = self.free.pop().unwrap_or_else(|| {
            self.flights.push(flight);
            self.flights.len() as u32 - 1
        });
        self.flights[number as usize] = flight;
        bio.set_token(u64::from(number));
        // Processes have far fewer I/Os in flight than a channel holds; one with more continues without its
        // I/O.
        self.channel.submit(bio).map_err(|_| ProcessError::Stuck { ios: CAPACITY })
    }

    fn write_back(&mut self, index: u32) -> Result<(), ProcessError> {
        while let Some((offset, len)) = self.tasks[index as usize].cache.next_write() {
            self.start(index, Op::Write, offset, len, WRITE_BACK)?;
        }
        Ok(())
    }

    fn end(&mut self, index: u32) {
        let task = &mut self.tasks[index as usize];
        task.state = State::Over;
        task.record.took = Some(self.now.since(task.begin));
        self.waited_for -= usize::from(!task.process.background);
        self.agenda.set(index, None);
        self.device.context_exited(task.process.context);
    }
}
