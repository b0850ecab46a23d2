//! The microbenchmark on a kernel: what its processes, interrupts and bottom halves do, with a real queue and elevator for each
//! disk. The queue decides how many requests there are and how many units each has; the host decides how long it takes.

use super::Cell;
use super::kernels::{
    ADAPTER_COMMAND, ADAPTER_KIB, ADAPTERS, BUILD, CALL, COMPLETE, DISKS, END, INTERRUPT, Kernel, PROCESSORS,
    QUEUE, SEND, Scope, UNPLUG, WAIT,
};
use crate::ReproError;
use platter_bench::ladder::{Unit, Vector};
use platter_block::bio::Bio;
use platter_block::driver::{Completion, Geometry};
use platter_block::limits::Limits;
use platter_block::queue::{PlugSettings, SchedQueue, Settings};
use platter_block::time::{Span, Time};
use platter_sim::host::{Contention, Effects, Grant, Host, LockId, LockUse, Stage, Step, System, Usage, Who};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The stages, by which processor time is accounted.
pub(super) const STAGES: [&str; 8] =
    ["call", "build", "queue", "wait", "unplug", "send", "interrupt", "complete"];
const S_CALL: Stage = Stage(0);
const S_BUILD: Stage = Stage(1);
const S_QUEUE: Stage = Stage(2);
const S_WAIT: Stage = Stage(3);
const S_UNPLUG: Stage = Stage(4);
const S_SEND: Stage = Stage(5);
const S_INTERRUPT: Stage = Stage(6);
const S_COMPLETE: Stage = Stage(7);

/// The lock of all queues; then those of the queues, then those of the adapters.
const ALL: LockId = LockId(0);
const LOCKS: usize = 1 + DISKS + ADAPTERS;

/// 2.4 had neither a count nor a timer: a plugged device started when a process waited.
const PLUG: PlugSettings = PlugSettings { threshold: u32::MAX, delay: Span::from_secs(3600) };

/// What each process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    /// Bytes of a call of the program.
    pub(super) bytes: u64,
    /// Pieces of memory of a call: one is `read`, more are `readv`.
    pub(super) pieces: u64,
    /// Calls of each process.
    pub(super) calls: u64,
    /// Processes, each with a disk of its own.
    pub(super) processes: usize,
}

/// Calls of functions of the kernel, as in Table 8.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Calls {
    pub(super) raw_read: u64,
    pub(super) submit_bh: u64,
    /// Units that came to a queue that was not empty.
    pub(super) elevator_merge: u64,
    /// Units that the queue has joined with a request.
    pub(super) back_merge: u64,
}

/// The outcome of a run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Found {
    /// MB/s of 10^6 bytes.
    pub(super) rate: f64,
    /// Percent of the processors' time.
    pub(super) idle: f64,
    pub(super) usage: Usage,
    /// The lock of all queues.
    pub(super) lock: LockUse,
    pub(super) calls: Calls,
    /// Calls of the program.
    pub(super) reads: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Call,
    Unit,
    QueueLock,
    Queue,
    QueueUnlock,
    UnplugLock(usize),
    Unplug,
    UnplugUnlock(usize),
    SendLock,
    Send,
    SendUnlock,
    Sleep,
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
    requests: VecDeque<(u32, u64)>,
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

struct Dm {
    kernel: Kernel,
    /// Bytes of a system call.
    call: u64,
    processes: Vec<Process>,
    disks: Vec<Disk>,
    adapters: Vec<Adapter>,
    /// Commands for the bottom half.
    found: VecDeque<(usize, u32, u64)>,
    /// The process whose command the bottom half has, and its units.
    completing: Option<(usize, u64)>,
    calls: Calls,
    failed: bool,
}

fn adapter_of(disk: usize) -> usize {
    disk % ADAPTERS
}

fn lock_of(scope: Scope, disk: usize) -> LockId {
    match scope {
        Scope::All => ALL,
        Scope::Queue => LockId(1 + disk),
        Scope::Adapter => LockId(1 + DISKS + adapter_of(disk)),
    }
}

fn times(count: usize, cost: Span) -> Span {
    Span(count as u64 * cost.0)
}

/// Runs a cell.
pub(super) fn run(cell: &Cell, cancel: &AtomicBool) -> Result<Found, ReproError> {
    let Cell { kernel, load, seed } = *cell;
    let (call, calls) = match kernel.vector {
        Vector::PerSegment => (load.bytes / load.pieces, load.calls * load.pieces),
        Vector::OneCall => (load.bytes, load.calls),
    };
    let size = 9_100_000_000 / 4096 * 4096;
    let geometry = Geometry::new(size, Limits::unlimited(512));
    let settings = Settings { plug: Some(PLUG), ..Settings::default() };
    let disk = |_| {
        let elevator = platter_elevators::by_name("linus").map(|row| (row.make)());
        Disk { queue: SchedQueue::new(geometry, settings, elevator, Arc::default()), spare: Vec::new() }
    };
    let process =
        |_| Process { at: At::Call, queued: 0, pos: 0, left: calls, out: 0, requests: VecDeque::new() };
    let system = Dm {
        kernel,
        call,
        processes: (0..load.processes).map(process).collect(),
        disks: (0..load.processes).map(disk).collect(),
        adapters: (0..ADAPTERS).map(|_| Adapter::default()).collect(),
        found: VecDeque::new(),
        completing: None,
        calls: Calls::default(),
        failed: false,
    };
    let sizes = (STAGES.len(), LOCKS, ADAPTERS);
    let mut host =
        Host::new(system, (PROCESSORS, load.processes), sizes, (Contention::free(Grant::Random), seed));
    host.run_until(|system| system.failed || cancel.load(Ordering::Relaxed))
        .map_err(|stuck| ReproError::Stack(stuck.to_string()))?;
    if cancel.load(Ordering::Relaxed) {
        return Err(ReproError::Interrupted);
    }
    if host.system().failed {
        return Err(ReproError::Stack(format!("dm2002: an I/O failed on the kernel {}", kernel.name)));
    }
    let usage = host.usage();
    let bytes = load.bytes * load.calls * load.processes as u64;
    let mut calls = host.system().calls;
    for disk in &host.system().disks {
        calls.back_merge += disk.queue.counters().back_merges.get();
    }
    Ok(Found {
        rate: bytes as f64 * 1e3 / host.elapsed().0 as f64,
        idle: usage.percent(usage.idle),
        lock: host.lock(ALL).total(),
        usage,
        calls,
        reads: load.calls * load.processes as u64,
    })
}

impl Dm {
    fn unit(&self) -> u64 {
        match self.kernel.unit {
            Unit::Sector => 512,
            Unit::Page => 4096,
            Unit::Call => self.call,
        }
        .min(self.call)
    }

    /// The locks under which requests are taken from a queue, in order.
    fn unplug_locks(&self, disk: usize) -> [Option<LockId>; 2] {
        let (sending, queueing) = (lock_of(self.kernel.sending, disk), lock_of(self.kernel.queueing, disk));
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
        self.calls.elevator_merge += u64::from(queue.has_work());
        queue.submit(now, bio);
        (process.queued, process.out) = (process.queued + unit, process.out + 1);
    }

    fn send(&mut self, disk: usize, now: Time, effects: &mut Effects) {
        let Some((tag, bytes)) = self.processes[disk].requests.pop_front() else { return };
        let at = adapter_of(disk);
        let adapter = &mut self.adapters[at];
        let time = Span(ADAPTER_COMMAND.0 + ADAPTER_KIB.0 * bytes / 1024);
        adapter.busy_until = adapter.busy_until.max(now) + time;
        adapter.sent.push_back((disk, tag, bytes));
        effects.at(adapter.busy_until, at as u64);
    }

    fn process(&mut self, disk: usize, now: Time, effects: &mut Effects) -> Step {
        let kernel = self.kernel;
        let queueing = lock_of(kernel.queueing, disk);
        let sending = lock_of(kernel.sending, disk);
        let process = &mut self.processes[disk];
        let (next, step) = match process.at {
            At::Call if process.left == 0 => (At::Over, Step::End),
            At::Call => {
                process.left -= 1;
                (process.pos, process.queued) = (process.pos + process.queued, 0);
                self.calls.raw_read += 1;
                (At::Unit, Step::Run(S_CALL, times(CALL.len(), kernel.per_command)))
            }
            At::Unit if process.queued < self.call => {
                (At::QueueLock, Step::Run(S_BUILD, times(BUILD.len(), kernel.per_unit)))
            }
            At::Unit => (At::UnplugLock(0), Step::Run(S_WAIT, times(WAIT.len() - 1, kernel.per_command))),
            At::QueueLock => (At::Queue, Step::Lock(queueing, S_QUEUE)),
            At::Queue => {
                self.queue_unit(disk, now);
                (At::QueueUnlock, Step::Run(S_QUEUE, times(QUEUE.len(), kernel.per_unit)))
            }
            At::QueueUnlock => (At::Unit, Step::Unlock(queueing)),
            At::UnplugLock(number) => match self.unplug_locks(disk).get(number).copied().flatten() {
                Some(lock) => (At::UnplugLock(number + 1), Step::Lock(lock, S_UNPLUG)),
                None => (At::Unplug, Step::Run(S_UNPLUG, times(UNPLUG.len(), kernel.per_command))),
            },
            At::Unplug => {
                let queue = &mut self.disks[disk].queue;
                queue.unplug_for_waiter(now);
                while let Some(tag) = queue.next(now) {
                    process.requests.push_back((tag, queue.started(tag).len));
                }
                (At::UnplugUnlock(1), Step::Run(S_UNPLUG, Span::ZERO))
            }
            At::UnplugUnlock(number) => {
                let lock = self.unplug_locks(disk)[number];
                let next = if number == 0 { At::SendLock } else { At::UnplugUnlock(number - 1) };
                (next, lock.map_or(Step::Run(S_UNPLUG, Span::ZERO), Step::Unlock))
            }
            At::SendLock if process.requests.is_empty() => (At::Sleep, Step::Run(S_SEND, Span::ZERO)),
            At::SendLock => (At::Send, Step::Lock(sending, S_SEND)),
            At::Send => (At::SendUnlock, Step::Run(S_SEND, times(SEND.len(), kernel.per_command))),
            At::SendUnlock => {
                self.send(disk, now, effects);
                (At::SendLock, Step::Unlock(sending))
            }
            At::Sleep if process.out > 0 => (At::Sleep, Step::Sleep),
            // It is woken, and scheduled.
            At::Sleep => (At::Call, Step::Run(S_WAIT, kernel.per_command)),
            At::Over => (At::Over, Step::End),
        };
        self.processes[disk].at = next;
        step
    }

    fn interrupt(&mut self, at: usize, effects: &mut Effects) -> Step {
        let lock = match self.kernel.sending {
            Scope::All | Scope::Queue => ALL,
            Scope::Adapter => LockId(1 + DISKS + at),
        };
        let adapter = &mut self.adapters[at];
        adapter.handler += 1;
        match adapter.handler {
            1 => Step::Lock(lock, S_INTERRUPT),
            2 => {
                let count = adapter.done.len();
                self.found.extend(adapter.done.drain(..));
                Step::Run(S_INTERRUPT, times(count * INTERRUPT.len(), self.kernel.per_command))
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
        if let Some((disk, units)) = self.completing.take() {
            self.processes[disk].out -= units;
            if self.processes[disk].out == 0 {
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
        self.completing = Some((disk, units as u64));
        let copy = if self.kernel.bounce { self.kernel.copy_kib.0 * bytes / 1024 } else { 0 };
        let functions = times(COMPLETE.len(), self.kernel.per_command).0
            + times(units * END.len(), self.kernel.per_unit).0;
        Step::Run(S_COMPLETE, Span(functions + copy))
    }
}

impl System for Dm {
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
