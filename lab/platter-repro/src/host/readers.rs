//! Processes that read disks from end to end: what they, interrupts and bottom halves do, with a real queue and elevator for each
//! disk. The queue decides how many requests there are and how many units each has; the host decides how long it takes.

use super::kernel::times;
use super::kernel::{BUILD, CALL, COMPLETE, END, Kernel, Scope, WAIT};
use super::machine::Machine;
use crate::ReproError;
use platter_block::bio::Bio;
use platter_block::driver::{Completion, Geometry};
use platter_block::limits::Limits;
use platter_block::queue::{PlugSettings, SchedQueue, Settings};
use platter_block::time::{Span, Time};
use platter_sim::host::{Effects, Host, LockId, LockUse, Stage, Step, System, Usage, Who};
use platter_sim::rng::Rng;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The stages, by which processor time is accounted.
pub(crate) const STAGES: [&str; 11] =
    ["call", "build", "queue", "wait", "unplug", "send", "interrupt", "complete", "copy", "user", "other"];
const S_CALL: Stage = Stage(0);
const S_BUILD: Stage = Stage(1);
const S_QUEUE: Stage = Stage(2);
const S_WAIT: Stage = Stage(3);
const S_UNPLUG: Stage = Stage(4);
const S_SEND: Stage = Stage(5);
const S_INTERRUPT: Stage = Stage(6);
const S_COMPLETE: Stage = Stage(7);
const S_COPY: Stage = Stage(8);
const S_USER: Stage = Stage(9);
const S_OTHER: Stage = Stage(10);

/// The lock of all queues; then those of the queues, then those of the adapters.
const ALL: LockId = LockId(0);

/// A simulation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) machine: Machine,
    pub(crate) kernel: Kernel,
    pub(crate) load: Load,
    pub(crate) seed: u64,
}

/// What each process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    /// Bytes of a call of the program.
    pub(crate) bytes: u64,
    /// Pieces of memory of a call: one is `read`, more are `readv`.
    pub(crate) pieces: u64,
    /// Calls of each process.
    pub(crate) calls: u64,
    /// Processes, each with a disk of its own.
    pub(crate) processes: usize,
    /// Calls are of the kernel's readahead: the program reads through the page cache.
    pub(crate) cached: Option<Cached>,
    /// Mean processor time of the program after each call: uniform from half to one and a half of it.
    pub(crate) compute: Span,
    /// Time of a disk for each command, beside the adapter's.
    pub(crate) disk: Span,
}

/// A program that reads through the page cache, while the kernel keeps two windows in flight or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cached {
    /// Bytes of a read of the program.
    pub(crate) read: u64,
    /// Processor time of it: the call, the lookup and the copy.
    pub(crate) cost: Span,
}

/// Calls of functions of the kernel, as in Table 8.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Calls {
    pub(crate) raw_read: u64,
    pub(crate) submit_bh: u64,
    /// Units that came to a queue that was not empty.
    pub(crate) elevator_merge: u64,
    /// Units that the queue has joined with a request.
    pub(crate) back_merge: u64,
}

/// The outcome of a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found {
    /// MB/s of 10^6 bytes.
    pub(crate) rate: f64,
    /// Percent of the processors' time.
    pub(crate) idle: f64,
    pub(crate) usage: Usage,
    /// The lock of all queues.
    pub(crate) lock: LockUse,
    /// The same by caller, in the order of [`STAGES`].
    pub(crate) callers: Vec<LockUse>,
    /// The locks of queues, where units are queued.
    pub(crate) queue_lock: LockUse,
    pub(crate) elapsed: Span,
    pub(crate) bytes: u64,
    pub(crate) calls: Calls,
    /// Calls of the program.
    pub(crate) reads: u64,
    /// When the first process had ended, before the last one.
    pub(crate) spread: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Call,
    Unit,
    QueueLock,
    Queue,
    QueueUnlock,
    Target,
    UnplugLock(usize),
    Unplug,
    UnplugUnlock(usize),
    SendLock,
    Send,
    SendUnlock,
    Relock,
    Sleep,
    Compute,
    Copy,
    Over,
}

struct Process {
    at: At,
    /// Bytes of this system call that are queued, and where it begins.
    queued: u64,
    pos: u64,
    /// System calls to do.
    left: u64,
    /// Units in flight.
    out: u64,
    /// Devices that it has yet to start, and the one that it starts.
    targets: Vec<usize>,
    target: usize,
    /// Requests that it has yet to send: device, tag and bytes.
    requests: VecDeque<(usize, u32, u64)>,
    /// Steps of further acquisitions of the lock of all queues.
    relock: u32,
    /// Bytes that have arrived, and those that the program has read from the page cache.
    arrived: u64,
    consumed: u64,
    ended: Time,
}

struct Disk {
    queue: SchedQueue,
    spare: Vec<Bio>,
}

#[derive(Default)]
struct Adapter {
    busy_until: Time,
    /// Commands on it, in order, and those that are done and not yet found.
    sent: VecDeque<(usize, u32, u64)>,
    done: Vec<(usize, u32, u64)>,
    handler: u8,
}

struct Readers {
    machine: Machine,
    kernel: Kernel,
    load: Load,
    /// Bytes of a system call.
    call: u64,
    rng: Rng,
    /// Plugged devices, all of which a process that waits starts (`tq_disk`).
    plugged: Vec<usize>,
    processes: Vec<Process>,
    disks: Vec<Disk>,
    adapters: Vec<Adapter>,
    /// Commands for the bottom half.
    found: VecDeque<(usize, u32, u64)>,
    /// The process whose command the bottom half has, its units and bytes.
    completing: Option<(usize, u64, u64)>,
    relock: u32,
    calls: Calls,
    failed: bool,
}

impl Machine {
    fn adapter_of(&self, disk: usize) -> usize {
        disk % self.adapters
    }

    fn lock_of(&self, scope: Scope, disk: usize) -> LockId {
        match scope {
            Scope::All => ALL,
            Scope::Queue => LockId(1 + disk),
            Scope::Adapter => self.lock_of_adapter(self.adapter_of(disk)),
        }
    }

    fn lock_of_adapter(&self, adapter: usize) -> LockId {
        LockId(1 + self.disks + adapter)
    }

    fn locks(&self) -> usize {
        1 + self.disks + self.adapters
    }
}

/// Runs a cell.
pub(crate) fn run(cell: &Cell, cancel: &AtomicBool) -> Result<Found, ReproError> {
    let Cell { machine, kernel, load, seed } = *cell;
    let pieces = if kernel.per_segment { load.pieces } else { 1 };
    let call = (load.bytes / pieces).min(kernel.chunk);
    let calls = load.calls * load.bytes / call;
    let size = 18_200_000_000 / 4096 * 4096;
    let geometry = Geometry::new(size, Limits::unlimited(512).with_max_transfer(kernel.command));
    let settings = Settings { plug: Some(PlugSettings::BY_WAITERS), ..Settings::default() };
    let disk = |_| {
        let elevator = platter_elevators::by_name("linus").map(|row| (row.make)());
        Disk { queue: SchedQueue::new(geometry, settings, elevator, Arc::default()), spare: Vec::new() }
    };
    let system = Readers {
        machine,
        kernel,
        load,
        call,
        rng: Rng::stream(seed, 1),
        plugged: Vec::new(),
        processes: (0..load.processes).map(|_| Process::new(calls)).collect(),
        disks: (0..load.processes).map(disk).collect(),
        adapters: (0..machine.adapters).map(|_| Adapter::default()).collect(),
        found: VecDeque::new(),
        completing: None,
        relock: 0,
        calls: Calls::default(),
        failed: false,
    };
    let sizes = (STAGES.len(), machine.locks(), machine.adapters);
    let mut host = Host::new(system, (machine.processors, load.processes), sizes, (machine.contention, seed));
    host.run_until(|system| system.failed || cancel.load(Ordering::Relaxed))
        .map_err(|stuck| ReproError::Stack(stuck.to_string()))?;
    if cancel.load(Ordering::Relaxed) {
        return Err(ReproError::Interrupted);
    }
    if host.system().failed {
        return Err(ReproError::Stack(format!("an I/O failed on the kernel {}", kernel.name)));
    }
    let usage = host.usage();
    let bytes = load.bytes * load.calls * load.processes as u64;
    let mut calls = host.system().calls;
    for disk in &host.system().disks {
        calls.back_merge += disk.queue.counters().back_merges.get();
    }
    let ends = host.system().processes.iter().map(|process| process.ended);
    let (first, last) = (ends.clone().min(), ends.max());
    let spread = first.zip(last).map_or(Span::ZERO, |(first, last)| last.since(first));
    Ok(Found {
        spread,
        rate: bytes as f64 * 1e3 / host.elapsed().0 as f64,
        idle: usage.percent(usage.idle),
        lock: host.lock(ALL).total(),
        callers: (0..STAGES.len()).map(|stage| of_caller(&host, [ALL], stage)).collect(),
        queue_lock: of_caller(&host, (1..=machine.disks).map(LockId), usize::from(S_QUEUE.0)),
        elapsed: host.elapsed(),
        bytes,
        usage,
        calls,
        reads: load.calls * load.processes as u64,
    })
}

/// The use of some locks by the caller of that stage.
fn of_caller(host: &Host<Readers>, locks: impl IntoIterator<Item = LockId>, stage: usize) -> LockUse {
    let mut sum = LockUse::default();
    for used in locks.into_iter().filter_map(|lock| host.lock(lock).callers.get(&Stage(stage as u16))) {
        sum.acquisitions += used.acquisitions;
        sum.contended += used.contended;
        sum.held.0 += used.held.0;
        sum.spun.0 += used.spun.0;
    }
    sum
}

/// The next step of further acquisitions of the lock of all queues, of which three steps each are left.
fn relock(steps: &mut u32, hold: Span) -> Option<Step> {
    *steps = steps.checked_sub(1)?;
    Some(match *steps % 3 {
        2 => Step::Lock(ALL, S_OTHER),
        1 => Step::Run(S_OTHER, hold),
        _ => Step::Unlock(ALL),
    })
}

impl Process {
    fn new(calls: u64) -> Process {
        Process {
            at: At::Call,
            queued: 0,
            pos: 0,
            left: calls,
            out: 0,
            targets: Vec::new(),
            target: 0,
            relock: 0,
            requests: VecDeque::new(),
            arrived: 0,
            consumed: 0,
            ended: Time(0),
        }
    }

    /// Of the page cache: two windows of this size are read ahead, or all is.
    fn has_enough(&self, window: u64) -> bool {
        let requested = self.pos + self.queued;
        requested > self.consumed && (self.left == 0 || requested >= self.consumed + 2 * window)
    }
}

impl Readers {
    fn unit(&self) -> u64 {
        self.kernel.unit.min(self.call)
    }

    /// The locks under which requests are taken from a queue, in order.
    fn unplug_locks(&self, disk: usize) -> [Option<LockId>; 2] {
        let (sending, queueing) = (
            self.machine.lock_of(self.kernel.sending, disk),
            self.machine.lock_of(self.kernel.queueing, disk),
        );
        [Some(sending), (queueing != sending).then_some(queueing)]
    }

    fn queue_unit(&mut self, disk: usize, now: Time) {
        let unit = self.unit();
        let Disk { queue, spare } = &mut self.disks[disk];
        let process = &mut self.processes[disk];
        let pos = process.pos + process.queued;
        let bio = match spare.pop() {
            Some(mut bio) => {
                bio.rewind(pos, unit);
                Ok(bio)
            }
            None => Bio::read(pos, vec![0u8; unit as usize]),
        };
        let Ok(bio) = bio else {
            self.failed = true;
            return;
        };
        self.calls.submit_bh += 1;
        let has_work = queue.has_work();
        self.calls.elevator_merge += u64::from(has_work);
        if !has_work {
            self.plugged.push(disk);
        }
        queue.submit(now, bio);
        (process.queued, process.out) = (process.queued + unit, process.out + 1);
    }

    fn send(&mut self, process: usize, now: Time, effects: &mut Effects) {
        let Some((disk, tag, bytes)) = self.processes[process].requests.pop_front() else { return };
        let at = self.machine.adapter_of(disk);
        let adapter = &mut self.adapters[at];
        let time = Span(self.machine.command.0 + self.machine.kib.0 * bytes / 1024);
        adapter.busy_until = adapter.busy_until.max(now) + time;
        adapter.sent.push_back((disk, tag, bytes));
        effects.at(adapter.busy_until + self.load.disk, at as u64);
    }

    /// The program: its calls, or those of readahead, and its reads from the page cache.
    fn program(&mut self, disk: usize, now: Time) -> (At, Step) {
        let (call, cached, per_command) = (self.call, self.load.cached, self.kernel.per_command);
        let process = &mut self.processes[disk];
        match (process.at, cached) {
            (At::Copy, Some(Cached { read, cost })) if process.arrived >= process.consumed + call => {
                process.consumed += call;
                (At::Call, Step::Run(S_COPY, Span(call / read * cost.0)))
            }
            (At::Copy, _) => (At::Copy, Step::Sleep),
            (_, Some(_)) if process.has_enough(call) => (At::Copy, Step::Run(S_COPY, Span::ZERO)),
            _ if process.left == 0 => {
                process.ended = now;
                (At::Over, Step::End)
            }
            _ => {
                process.left -= 1;
                (process.pos, process.queued) = (process.pos + process.queued, 0);
                self.calls.raw_read += 1;
                (At::Unit, Step::Run(S_CALL, times(CALL.len(), per_command)))
            }
        }
    }

    /// The program's own time, if its call is over, of which the system calls may be several.
    fn computes(&mut self, disk: usize) -> Span {
        let Process { pos, queued, .. } = self.processes[disk];
        let is_over = (pos + queued).is_multiple_of(self.load.bytes);
        match self.load.compute {
            Span(mean) if mean > 0 && is_over => Span(mean / 2 + self.rng.below(mean)),
            _ => Span::ZERO,
        }
    }

    fn process(&mut self, disk: usize, now: Time, effects: &mut Effects) -> Step {
        let kernel = self.kernel;
        let queueing = self.machine.lock_of(kernel.queueing, disk);
        let process = &mut self.processes[disk];
        let (next, step) = match process.at {
            At::Call | At::Copy => self.program(disk, now),
            At::Unit if process.queued < self.call => {
                (At::QueueLock, Step::Run(S_BUILD, times(BUILD.len(), kernel.per_unit)))
            }
            At::Unit => {
                process.targets.append(&mut self.plugged);
                (At::Target, Step::Run(S_WAIT, times(WAIT.len() - 1, kernel.per_command)))
            }
            At::QueueLock => (At::Queue, Step::Lock(queueing, S_QUEUE)),
            At::Queue => {
                self.queue_unit(disk, now);
                (At::QueueUnlock, Step::Run(S_QUEUE, kernel.queues()))
            }
            At::QueueUnlock => (At::Unit, Step::Unlock(queueing)),
            At::Sleep if process.out > 0 => (At::Sleep, Step::Sleep),
            // It is woken, and scheduled.
            At::Sleep => (At::Compute, Step::Run(S_WAIT, kernel.per_command)),
            At::Compute => (At::Call, Step::Run(S_USER, self.computes(disk))),
            At::Over => (At::Over, Step::End),
            _ => self.start(disk, now, effects),
        };
        self.processes[disk].at = next;
        step
    }

    /// A process that starts plugged devices: takes their requests and sends them.
    fn start(&mut self, disk: usize, now: Time, effects: &mut Effects) -> (At, Step) {
        let kernel = self.kernel;
        let unplug_locks = self.unplug_locks(self.processes[disk].target);
        let after = if self.load.cached.is_some() { At::Call } else { At::Sleep };
        let process = &mut self.processes[disk];
        match process.at {
            At::Target => match process.targets.pop() {
                Some(target) => {
                    process.target = target;
                    (At::UnplugLock(0), Step::Run(S_UNPLUG, Span::ZERO))
                }
                None => (after, Step::Run(S_UNPLUG, Span::ZERO)),
            },
            At::UnplugLock(number) => match unplug_locks.get(number).copied().flatten() {
                Some(lock) => (At::UnplugLock(number + 1), Step::Lock(lock, S_UNPLUG)),
                None => (At::Unplug, Step::Run(S_UNPLUG, kernel.unplugs())),
            },
            At::Unplug => {
                let target = process.target;
                let queue = &mut self.disks[target].queue;
                queue.unplug_for_waiter(now);
                while let Some(tag) = queue.next(now) {
                    process.requests.push_back((target, tag, queue.started(tag).len));
                }
                (At::UnplugUnlock(1), Step::Run(S_UNPLUG, Span::ZERO))
            }
            At::UnplugUnlock(number) => {
                let lock = unplug_locks[number];
                let next = if number == 0 { At::SendLock } else { At::UnplugUnlock(number - 1) };
                (next, lock.map_or(Step::Run(S_UNPLUG, Span::ZERO), Step::Unlock))
            }
            At::SendLock if process.requests.is_empty() => (At::Target, Step::Run(S_SEND, Span::ZERO)),
            At::SendLock => {
                (At::Send, Step::Lock(self.machine.lock_of(kernel.sending, process.target), S_SEND))
            }
            At::Send => (At::SendUnlock, Step::Run(S_SEND, kernel.sends())),
            At::SendUnlock => {
                let sending = self.machine.lock_of(kernel.sending, process.target);
                process.relock = 3 * kernel.relocks();
                self.send(disk, now, effects);
                (At::Relock, Step::Unlock(sending))
            }
            At::Relock => match relock(&mut process.relock, kernel.relock_hold()) {
                Some(step) => (At::Relock, step),
                None => (At::SendLock, Step::Run(S_OTHER, Span::ZERO)),
            },
            // The other steps are those of `process`.
            at => (at, Step::End),
        }
    }

    fn interrupt(&mut self, at: usize, effects: &mut Effects) -> Step {
        let lock = match self.kernel.sending {
            Scope::All | Scope::Queue => ALL,
            Scope::Adapter => self.machine.lock_of_adapter(at),
        };
        let adapter = &mut self.adapters[at];
        adapter.handler += 1;
        match adapter.handler {
            1 => Step::Lock(lock, S_INTERRUPT),
            2 => {
                let count = adapter.done.len();
                self.found.extend(adapter.done.drain(..));
                Step::Run(S_INTERRUPT, self.kernel.interrupts(count))
            }
            3 => {
                effects.raise_bottom();
                Step::Unlock(lock)
            }
            _ => {
                adapter.handler = 0;
                Step::End
            }
        }
    }

    fn bottom(&mut self, now: Time, effects: &mut Effects) -> Step {
        if let Some(step) = relock(&mut self.relock, self.kernel.relock_hold()) {
            return step;
        }
        if let Some((disk, units, bytes)) = self.completing.take() {
            let process = &mut self.processes[disk];
            (process.out, process.arrived) = (process.out - units, process.arrived + bytes);
            if process.out == 0 || self.load.cached.is_some() {
                effects.wake(disk);
            }
        }
        let Some((disk, tag, bytes)) = self.found.pop_front() else { return Step::End };
        let Disk { queue, spare } = &mut self.disks[disk];
        let before = spare.len();
        self.failed |= queue.complete(now, Completion { tag, result: bytes as i64 }).is_err();
        queue.take_done(spare);
        self.failed |= spare[before..].iter().any(|bio| bio.status().is_err());
        let units = spare.len() - before;
        self.completing = Some((disk, units as u64, bytes));
        self.relock = 3 * self.kernel.relocks();
        let copy = if self.kernel.bounce { self.kernel.copy_kib.0 * bytes / 1024 } else { 0 };
        let functions = times(COMPLETE.len(), self.kernel.per_command).0
            + times(units * END.len(), self.kernel.per_unit).0;
        Step::Run(S_COMPLETE, Span(functions + copy))
    }
}

impl System for Readers {
    fn step(&mut self, who: Who, now: Time, effects: &mut Effects) -> Step {
        match who {
            Who::Thread(disk) => self.process(disk, now, effects),
            Who::Interrupt(adapter) => self.interrupt(adapter, effects),
            Who::Bottom => self.bottom(now, effects),
        }
    }

    fn event(&mut self, event: u64, _now: Time, effects: &mut Effects) {
        let adapter = &mut self.adapters[event as usize];
        adapter.done.extend(adapter.sent.pop_front());
        effects.interrupt(event as usize);
    }
}
