//! Threads that read small blocks directly, one for each disk, on a kernel with one list of plugged queues or without. The queue
//! of each disk is a real one.

use crate::ReproError;
use platter_block::bio::Bio;
use platter_block::driver::{Completion, Geometry};
use platter_block::limits::Limits;
use platter_block::queue::{SchedQueue, Settings};
use platter_block::time::{Span, Time};
use platter_sim::host::{Contention, Effects, Grant, Host, LockId, LockUse, Stage, Step, System, Usage, Who};
use platter_sim::rng::Rng;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How a waiting thread starts its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plugs {
    /// It starts every queue of one list, under one lock (`blk_run_queues`, Linux 2.5.19 to 2.6.6).
    Listed,
    /// It starts the queue that it waits for (`blk_run_backing_dev`).
    PerDevice,
}

/// A machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    pub(super) name: &'static str,
    pub(super) processors: usize,
    pub(super) disks: usize,
    pub(super) adapters: usize,
    /// Shortest service time of a disk, and what rotation adds at most.
    pub(super) service: (Span, Span),
    /// Processor time of a function of a unit, and of a command.
    pub(super) functions: (Span, Span),
    /// From the release of a contended lock to its next holder.
    pub(super) hand_over: Span,
}

/// A simulation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    pub(super) machine: Machine,
    pub(super) plugs: Plugs,
    pub(super) ios: u64,
    pub(super) seed: u64,
}

/// Its outcome.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Found {
    /// I/Os per second.
    pub(super) rate: f64,
    pub(super) usage: Usage,
    /// The lock of the list.
    pub(super) list: LockUse,
    pub(super) ios: u64,
    /// Requests that a thread has started for another one.
    pub(super) foreign: u64,
}

/// The stages, by which processor time is accounted.
pub(super) const STAGES: [&str; 6] = ["submit", "queue", "list", "wait", "unplug", "complete"];
const S_SUBMIT: Stage = Stage(0);
const S_QUEUE: Stage = Stage(1);
const S_LIST: Stage = Stage(2);
const S_WAIT: Stage = Stage(3);
const S_UNPLUG: Stage = Stage(4);
const S_COMPLETE: Stage = Stage(5);

/// The lock of the list; then those of the queues.
const LIST: LockId = LockId(0);
/// Bytes of an I/O.
pub(super) const BYTES: u64 = 2048;
/// Blocks of a disk.
const BLOCKS: u64 = 1 << 24;

/// What a thread or an interrupt does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Run(Stage, Span),
    Lock(LockId, Stage),
    Unlock(LockId),
    /// Gives the thread's next bio to its queue.
    Submit,
    /// Puts the thread's queue on the list.
    List,
    /// Takes all queues from the list, to start them one after the other.
    Take,
    /// Starts a queue: its requests go to the disk.
    Unplug(usize),
    /// Waits for the thread's I/O.
    Await,
    /// A request of a disk is complete.
    Complete(usize, u32),
}

#[derive(Default)]
struct Thread {
    ops: VecDeque<Op>,
    is_done: bool,
}

struct Disk {
    queue: SchedQueue,
    spare: Vec<Bio>,
    is_listed: bool,
}

#[derive(Default)]
struct Adapter {
    done: Vec<(usize, u32)>,
    ops: VecDeque<Op>,
}

struct Machinery {
    machine: Machine,
    plugs: Plugs,
    threads: Vec<Thread>,
    disks: Vec<Disk>,
    adapters: Vec<Adapter>,
    list: Vec<usize>,
    rng: Rng,
    completed: u64,
    foreign: u64,
    failed: bool,
}

/// The lock of a disk's queue.
fn queue_of(disk: usize) -> LockId {
    LockId(1 + disk)
}

/// Runs a cell.
pub(super) fn run(cell: &Cell, cancel: &AtomicBool) -> Result<Found, ReproError> {
    let Cell { machine, plugs, ios, seed } = *cell;
    let geometry = Geometry::new(BLOCKS * BYTES, Limits::unlimited(512));
    let disk = |_| {
        let elevator = platter_elevators::by_name("deadline").map(|row| (row.make)());
        let queue = SchedQueue::new(geometry, Settings::default(), elevator, Arc::default());
        Disk { queue, spare: Vec::new(), is_listed: false }
    };
    let system = Machinery {
        machine,
        plugs,
        threads: (0..machine.disks).map(|_| Thread::default()).collect(),
        disks: (0..machine.disks).map(disk).collect(),
        adapters: (0..machine.adapters).map(|_| Adapter::default()).collect(),
        list: Vec::new(),
        rng: Rng::stream(seed, 1),
        completed: 0,
        foreign: 0,
        failed: false,
    };
    let contention = Contention { hand_over: machine.hand_over, ..Contention::free(Grant::Random) };
    let sizes = (STAGES.len(), 1 + machine.disks, machine.adapters);
    let mut host = Host::new(system, (machine.processors, machine.disks), sizes, (contention, seed));
    let until = |host: &mut Host<Machinery>, completed: u64| {
        let is_over = |system: &Machinery| {
            system.failed || system.completed >= completed || cancel.load(Ordering::Relaxed)
        };
        host.run_until(is_over).map_err(|stuck| ReproError::Stack(stuck.to_string()))
    };
    // All threads begin at once; what is measured begins when each has read several times.
    let warm = 4 * machine.disks as u64;
    until(&mut host, warm)?;
    host.restart();
    let (before, foreign) = (host.system().completed, host.system().foreign);
    until(&mut host, warm + ios)?;
    if cancel.load(Ordering::Relaxed) {
        return Err(ReproError::Interrupted);
    }
    if host.system().failed {
        return Err(ReproError::Stack(format!("an I/O failed on the machine {}", machine.name)));
    }
    let ios = host.system().completed - before;
    Ok(Found {
        rate: ios as f64 * 1e9 / host.elapsed().0 as f64,
        usage: host.usage(),
        list: host.lock(LIST).total(),
        ios,
        foreign: host.system().foreign - foreign,
    })
}

impl Machinery {
    fn commands(&self, functions: u64) -> Span {
        Span(functions * self.machine.functions.1.0)
    }

    fn units(&self, functions: u64) -> Span {
        Span(functions * self.machine.functions.0.0)
    }

    /// A read of a thread's program. The functions are those of the paper of 2002, of which three of a unit are under the lock of
    /// the queue; what handles the list is a function of its own.
    fn call(&mut self, thread: usize) {
        let own = queue_of(thread);
        let listed = self.plugs == Plugs::Listed;
        let list = |op| [Op::Lock(LIST, S_LIST), Op::Run(S_LIST, self.units(1)), op];
        let mut ops = VecDeque::from([
            Op::Run(S_SUBMIT, Span(self.commands(5).0 + self.units(2).0)),
            Op::Lock(own, S_QUEUE),
            Op::Run(S_QUEUE, self.units(3)),
            Op::Submit,
        ]);
        if listed {
            ops.extend(list(Op::List).into_iter().chain([Op::Unlock(LIST)]));
        }
        ops.extend([Op::Unlock(own), Op::Run(S_WAIT, self.commands(2))]);
        match listed {
            true => ops.extend(list(Op::Take)),
            false => ops.extend(self.starts(thread)),
        }
        ops.extend([Op::Await, Op::Run(S_WAIT, self.commands(1))]);
        self.threads[thread].ops = ops;
    }

    fn starts(&self, queue: usize) -> [Op; 4] {
        let lock = queue_of(queue);
        [Op::Lock(lock, S_UNPLUG), Op::Run(S_UNPLUG, self.commands(5)), Op::Unplug(queue), Op::Unlock(lock)]
    }

    /// Starts the queues of the list. The lock of the list is held between queues, and inside that of a queue.
    fn take(&mut self, thread: usize) {
        let mut ops = Vec::new();
        for queue in std::mem::take(&mut self.list) {
            let [lock, run, unplug, unlock] = self.starts(queue);
            let remove = [Op::Lock(LIST, S_LIST), Op::Run(S_LIST, self.units(1)), Op::Unlock(LIST)];
            ops.extend([Op::Unlock(LIST), lock]);
            ops.extend(remove);
            ops.extend([run, unplug, unlock, Op::Lock(LIST, S_LIST)]);
        }
        ops.push(Op::Unlock(LIST));
        ops.into_iter().rev().for_each(|op| self.threads[thread].ops.push_front(op));
    }

    fn submit(&mut self, at: usize, now: Time) {
        let pos = self.rng.below(BLOCKS) * BYTES;
        let disk = &mut self.disks[at];
        let bio = match disk.spare.pop() {
            Some(mut bio) => {
                bio.rewind(pos, BYTES);
                Ok(bio)
            }
            None => Bio::read(pos, vec![0u8; BYTES as usize]),
        };
        match bio {
            Ok(bio) => disk.queue.submit(now, bio),
            Err(_) => self.failed = true,
        }
    }

    fn unplug(&mut self, thread: usize, at: usize, now: Time, effects: &mut Effects) {
        let (least, rotation) = self.machine.service;
        let disk = &mut self.disks[at];
        disk.is_listed = false;
        disk.queue.unplug_for_waiter(now);
        while let Some(tag) = disk.queue.next(now) {
            self.foreign += u64::from(thread != at);
            let service = Span(least.0 + self.rng.below(rotation.0 + 1));
            effects.at(now + service, (at as u64) << 32 | u64::from(tag));
        }
    }

    fn complete(&mut self, at: usize, tag: u32, now: Time, effects: &mut Effects) {
        let Disk { queue, spare, .. } = &mut self.disks[at];
        self.failed |= queue.complete(now, Completion { tag, result: BYTES as i64 }).is_err();
        queue.take_done(spare);
        self.failed |= spare.iter().any(|bio| bio.status().is_err());
        self.completed += 1;
        self.threads[at].is_done = true;
        effects.wake(at);
    }

    /// Makes the next step of a thread.
    fn thread(&mut self, number: usize, now: Time, effects: &mut Effects) -> Step {
        loop {
            let Some(op) = self.threads[number].ops.pop_front() else {
                self.call(number);
                continue;
            };
            match op {
                Op::Run(stage, span) => return Step::Run(stage, span),
                Op::Lock(lock, caller) => return Step::Lock(lock, caller),
                Op::Unlock(lock) => return Step::Unlock(lock),
                Op::Submit => self.submit(number, now),
                Op::List if !std::mem::replace(&mut self.disks[number].is_listed, true) => {
                    self.list.push(number)
                }
                Op::Take => self.take(number),
                Op::Unplug(queue) => self.unplug(number, queue, now, effects),
                Op::Await if !std::mem::take(&mut self.threads[number].is_done) => {
                    self.threads[number].ops.push_front(Op::Await);
                    return Step::Sleep;
                }
                Op::List | Op::Await | Op::Complete(..) => {}
            }
        }
    }

    /// Makes the next step of an interrupt, which completes what its adapter has done.
    fn interrupt(&mut self, number: usize, now: Time, effects: &mut Effects) -> Step {
        let (per_command, per_unit) = (self.commands(8), self.units(2));
        let adapter = &mut self.adapters[number];
        for (disk, tag) in adapter.done.drain(..) {
            let lock = queue_of(disk);
            adapter.ops.extend([
                Op::Run(S_COMPLETE, per_command),
                Op::Lock(lock, S_COMPLETE),
                Op::Run(S_COMPLETE, per_unit),
                Op::Complete(disk, tag),
                Op::Unlock(lock),
            ]);
        }
        loop {
            match self.adapters[number].ops.pop_front() {
                Some(Op::Complete(disk, tag)) => self.complete(disk, tag, now, effects),
                Some(Op::Run(stage, span)) => return Step::Run(stage, span),
                Some(Op::Lock(lock, caller)) => return Step::Lock(lock, caller),
                Some(Op::Unlock(lock)) => return Step::Unlock(lock),
                _ => return Step::End,
            }
        }
    }
}

impl System for Machinery {
    fn step(&mut self, who: Who, now: Time, effects: &mut Effects) -> Step {
        match who {
            Who::Thread(number) => self.thread(number, now, effects),
            Who::Interrupt(number) => self.interrupt(number, now, effects),
            Who::Bottom => Step::End,
        }
    }

    fn event(&mut self, event: u64, _now: Time, effects: &mut Effects) {
        let (disk, tag) = ((event >> 32) as usize, event as u32);
        let adapter = disk % self.machine.adapters;
        self.adapters[adapter].done.push((disk, tag));
        effects.interrupt(adapter);
    }
}
