//! The shared state of a stateful layer: it runs the tasks, the layer's own lanes below, and gives bios back to their
//! lanes. One lock protects it; whichever lane runs carries out what all tasks can do.

use super::board::Outlook;
use super::core::{Below, BoxFuture, NO_LANE, Task, TaskState};
use super::host::Turns;
use super::lanes::{LaneEntry, Lanes};
use super::layer::Layer;
use platter_block::bio::{Bio, Flags, Op};
use platter_block::fault::{Fault, Kind, Stage, Status};
use platter_block::lane::{Cancel, Lane, Left};
use platter_block::time::{Span, Time};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

mod panic;

use panic::caught;

/// The result of bios of a layer that has panicked.
pub(super) const BROKEN: Fault = Fault::new(Kind::Broken, Stage::Layer);

/// Tasks that continue in one turn before the lock is released.
const SPENT: u32 = 256;

/// A device below.
struct Device {
    // Dropped first: this waits for the I/O that its driver has.
    lane: Box<dyn Lane>,
    /// I/Os that it has.
    out: u32,
}

/// See the module.
pub struct Engine<L> {
    devices: Vec<Device>,
    layer: Arc<L>,
    pub(super) below: Below,
    futures: Vec<Option<BoxFuture>>,
    /// By lane: bios that have completed.
    boxes: Vec<Vec<Bio>>,
    lanes: Lanes<()>,
    /// Tasks of the layer itself.
    own_tasks: u32,
    /// Bios that have not completed.
    bios: u32,
    /// Work is left that only waits for the next turn.
    is_behind: bool,
    /// Anything was done in this turn.
    progress: bool,
    /// And an I/O has succeeded that a bio, or a task that a thread waits for, needed.
    advanced: bool,
    came: Vec<Bio>,
    /// Tasks with bios that are late and have not ended.
    late: Vec<u32>,
    /// Lanes that were dropped while devices had bios of theirs; what is kept if some of these are changes.
    closed: Vec<(u32, Option<Arc<dyn Left>>)>,
    /// What the layer's panic said, after one.
    panic: Arc<OnceLock<String>>,
}

impl<L: Layer> Engine<L> {
    /// A panic of the layer is recorded in `panic`.
    pub(super) fn new(
        lanes: Vec<Box<dyn Lane>>,
        layer: Arc<L>,
        below: Below,
        panic: Arc<OnceLock<String>>,
    ) -> Engine<L> {
        let devices = lanes.into_iter().map(|lane| Device { lane, out: 0 }).collect();
        let (futures, boxes, lanes, came) = (Vec::new(), Vec::new(), Lanes::default(), Vec::new());
        let (own_tasks, bios, is_behind, progress, advanced) = (0, 0, false, false, false);
        Engine {
            devices,
            layer,
            below,
            futures,
            boxes,
            lanes,
            own_tasks,
            bios,
            is_behind,
            progress,
            advanced,
            came,
            late: Vec::new(),
            closed: Vec::new(),
            panic,
        }
    }

    /// Takes a bio of a lane: passes it on, or starts a task for it.
    pub(super) fn start(&mut self, lane: u32, port: usize, bio: Bio) {
        self.bios += 1;
        self.progress = true;
        if self.is_broken() {
            return self.refuse(lane, bio);
        }
        let plain = !bio.flags().intersects(crate::barrier_gate::BARRIER.union(Flags::PREFLUSH));
        let asks = plain && bio.op() != Op::Flush;
        let route = match caught(|| if asks { self.layer.route(port, &bio) } else { None }) {
            Ok(route) => route,
            Err(cause) => {
                self.break_off(&cause);
                return self.refuse(lane, bio);
            }
        };
        if let Some((device, pos)) = route {
            let mut core = self.below.core();
            let slot = core.enter(lane, port, Some(bio));
            core.tasks[slot as usize].routed = true;
            // The bio has just been put there.
            let _ = core.pass(slot, device, pos);
            return;
        }
        let (op, flags, pos, len) = (bio.op(), bio.flags(), bio.pos(), bio.len());
        let (reach, changes) = (bio.reach(), bio.changes());
        let slot = self.below.core().enter(lane, port, Some(bio));
        let (layer, below) = (Arc::clone(&self.layer), self.below.clone());
        let task = Task { below: below.clone(), slot, port, op, pos, len, flags, reach, changes };
        let future: BoxFuture = Box::pin(async move {
            if op == Op::Flush || flags.intersects(Flags::PREFLUSH | Flags::HARD_BARRIER) {
                Arc::clone(&layer).flush(below, port).await?;
            }
            if op == Op::Flush { Ok(()) } else { layer.run(task).await }
        });
        self.begin(slot, future);
    }

    /// Fails a bio that comes after a panic.
    fn refuse(&mut self, lane: u32, mut bio: Bio) {
        bio.fail(BROKEN);
        self.give_back(lane, bio);
    }

    /// Starts a task of the layer itself, unless the layer has panicked.
    pub(super) fn spawn(&mut self, future: BoxFuture) {
        self.spawn_as(true, future);
    }

    /// The same for a task that a thread waits for.
    pub(super) fn spawn_awaited(&mut self, future: BoxFuture) {
        self.spawn_as(false, future);
    }

    fn spawn_as(&mut self, is_background: bool, future: BoxFuture) {
        if self.is_broken() {
            return;
        }
        let mut core = self.below.core();
        let slot = core.enter(NO_LANE, 0, None);
        let task = &mut core.tasks[slot as usize];
        (task.is_own, task.is_background) = (true, is_background);
        drop(core);
        self.own_tasks += 1;
        self.begin(slot, future);
    }

    fn begin(&mut self, slot: u32, future: BoxFuture) {
        let index = slot as usize;
        if self.futures.len() <= index {
            self.futures.resize_with(index + 1, || None);
        }
        self.futures[index] = Some(future);
        self.below.core().wake(slot);
    }

    /// Does what can be done now: takes completions, lets tasks continue, submits I/O.
    pub(super) fn run_tasks(&mut self, now: Time) {
        self.below.core().now = now;
        self.is_behind = false;
        if self.is_broken() {
            // Code of the layer that programs call can still start tasks.
            self.drop_spawned();
        }
        self.fire_timers(now);
        let mut budget = SPENT;
        loop {
            self.run_devices(now);
            let mut any = self.submit(now);
            loop {
                let next = self.below.core().next_ready();
                let Some(slot) = next else { break };
                any = true;
                self.poll(slot);
                budget -= 1;
                if budget == 0 {
                    self.submit(now);
                    self.is_behind = true;
                    return;
                }
            }
            if !(self.submit(now) || any) {
                break;
            }
            self.progress = true;
        }
        self.end_late();
        if !self.closed.is_empty() {
            self.leave_closed();
        }
    }

    fn fire_timers(&mut self, now: Time) {
        let mut core = self.below.core();
        while let Some(&std::cmp::Reverse((at, slot))) = core.timers.peek()
            && at <= now
        {
            core.timers.pop();
            core.wake(slot);
        }
    }

    /// Runs the lanes below that have I/O.
    fn run_devices(&mut self, now: Time) {
        let mut came = std::mem::take(&mut self.came);
        for device in &mut self.devices {
            if device.out > 0 || !device.lane.is_idle() {
                device.lane.run(now);
                let before = came.len();
                device.lane.take_done(&mut came);
                device.out -= (came.len() - before) as u32;
            }
        }
        for bio in came.drain(..) {
            self.progress = true;
            self.came_back(bio);
        }
        self.came = came;
    }

    /// An I/O is no longer with its device.
    fn came_back(&mut self, bio: Bio) {
        let mut core = self.below.core();
        let over = core.came_back(bio);
        self.advanced |= std::mem::take(&mut core.advanced);
        let status = over.and_then(|slot| core.tasks[slot as usize].ended.take());
        drop(core);
        over.into_iter().for_each(|slot| self.finish(slot, status.unwrap_or(Ok(()))));
    }

    /// Submits staged I/Os. Returns whether there were any.
    fn submit(&mut self, now: Time) -> bool {
        let mut staged = std::mem::take(&mut self.below.core().staged);
        let any = !staged.is_empty();
        for (device, bio) in staged.drain(..) {
            let device = &mut self.devices[device];
            device.out += 1;
            device.lane.submit(now, bio);
        }
        let mut core = self.below.core();
        if core.staged.is_empty() {
            core.staged = staged;
        }
        any
    }

    /// Lets a task continue.
    fn poll(&mut self, slot: u32) {
        let Some(mut future) = self.futures.get_mut(slot as usize).and_then(Option::take) else { return };
        self.below.core().current = slot;
        let polled = caught(move || {
            let mut context = Context::from_waker(Waker::noop());
            match future.as_mut().poll(&mut context) {
                Poll::Pending => Err(future),
                Poll::Ready(status) => Ok(status),
            }
        });
        match polled {
            Ok(Err(future)) => self.futures[slot as usize] = Some(future),
            Ok(Ok(status)) => self.end(slot, status),
            Err(cause) => return self.break_off(&cause),
        }
        let spawned = std::mem::take(&mut self.below.core().spawned);
        spawned.into_iter().for_each(|future| self.spawn(future));
    }

    fn end(&mut self, slot: u32, status: Status) {
        let mut core = self.below.core();
        let task = &mut core.tasks[slot as usize];
        if task.parts > 0 {
            task.ended = Some(status);
            return;
        }
        drop(core);
        self.finish(slot, status);
    }

    /// A task is over: its bio goes back to its lane.
    fn finish(&mut self, slot: u32, status: Status) {
        let mut core = self.below.core();
        let bio = core.take_bio(slot, status);
        let task = &mut core.tasks[slot as usize];
        let (lane, is_own) = (task.lane, std::mem::take(&mut task.is_own));
        core.free.push(slot);
        drop(core);
        self.own_tasks -= u32::from(is_own);
        bio.into_iter().for_each(|bio| self.give_back(lane, bio));
    }

    fn give_back(&mut self, lane: u32, bio: Bio) {
        self.bios -= 1;
        if let Some(place) = self.boxes.get_mut(lane as usize) {
            place.push(bio);
            self.lanes.kick(lane);
        }
    }

    /// Fails the bios that are late, when no device has a part of them and their tasks cannot end at once. The tasks go on
    /// without the bios.
    fn end_late(&mut self) {
        if self.late.is_empty() {
            return;
        }
        let mut over = Vec::new();
        let core = self.below.core();
        self.late.retain(|&slot| {
            let task = &core.tasks[slot as usize];
            let is_over = task.is_held() && !task.queued;
            if task.late && is_over {
                over.push(slot);
            }
            task.late && task.is_in_use() && !is_over
        });
        drop(core);
        over.into_iter().for_each(|slot| self.take_back(slot, Kind::TimedOut));
    }

    /// Fails a bio that no device has. Its task goes on without it.
    fn take_back(&mut self, slot: u32, kind: Kind) {
        let mut core = self.below.core();
        let (lane, tried) = (core.tasks[slot as usize].lane, core.tasks[slot as usize].tried);
        // Cancelled by a layer means that nothing was carried out.
        let stage = if tried && kind == Kind::Cancelled { Stage::Disk } else { Stage::Layer };
        let bio = core.take_bio(slot, Err(Fault::new(kind, stage)));
        drop(core);
        self.progress = true;
        bio.into_iter().for_each(|bio| self.give_back(lane, bio));
    }

    /// Takes bios of a lane back as far as that is still possible: a cancelled one if nothing of it was carried out, a late one
    /// as soon as no device has a part of it.
    pub(super) fn cancel(&mut self, now: Time, lane: u32, which: &Cancel) {
        let slots = self.below.core().matching(lane, which);
        let is_late = which.kind() == Kind::TimedOut;
        for slot in slots {
            let mut core = self.below.core();
            let task = &mut core.tasks[slot as usize];
            if is_late {
                task.late = true;
                self.late.push(slot);
            } else if task.is_untouched() {
                drop(core);
                self.take_back(slot, which.kind());
                continue;
            }
            let parts: Vec<(usize, u64)> = core.parts_of(slot, is_late).collect();
            drop(core);
            // What a device fails by that comes back when its lane is run, and nothing else may cause the next turn.
            self.is_behind |= !parts.is_empty();
            for (device, token) in parts {
                self.devices[device].lane.cancel(now, &which.with_token(token));
            }
        }
        self.end_late();
    }

    /// Takes the bios of a lane back that no device has, and removes the lane when it has no others. Returns whether it
    /// was removed.
    pub(super) fn leave_lane(&mut self, number: u32) -> bool {
        let core = self.below.core();
        let is_its = |(_, task): &(u32, &TaskState)| task.lane == number && task.is_in_use();
        let its: Vec<(u32, bool)> =
            (0..).zip(&core.tasks).filter(is_its).map(|(slot, task)| (slot, task.is_held())).collect();
        drop(core);
        let mut is_free = true;
        for (slot, is_held) in its {
            match is_held {
                true => self.take_back(slot, Kind::Cancelled),
                false => is_free = false,
            }
        }
        self.boxes[number as usize].clear();
        if is_free {
            self.lanes.leave(number);
        }
        is_free
    }

    /// The lane is dropped, and devices still have bios of it. `keep` is called if they have changes.
    pub(super) fn close_lane(&mut self, number: u32, keep: impl FnOnce() -> Option<Arc<dyn Left>>) {
        let changes = |task: &TaskState| task.lane == number && task.is_in_use() && task.changes;
        let has_changes = self.below.core().tasks.iter().any(changes);
        self.closed.push((number, if has_changes { keep() } else { None }));
    }

    /// Removes lanes that were dropped and of which no device has anything any more.
    #[cold]
    fn leave_closed(&mut self) {
        let mut closed = std::mem::take(&mut self.closed);
        closed.retain(|&(number, _)| !self.leave_lane(number));
        self.closed = closed;
    }

    /// Takes the bios of a lane that have completed.
    pub(super) fn take_done(&mut self, lane: u32, out: &mut Vec<Bio>) {
        out.append(&mut self.boxes[lane as usize]);
    }

    /// Whether anything of the layer has not ended.
    fn has_work(&self) -> bool {
        self.bios > 0 || self.own_tasks > 0 || self.is_out()
    }

    /// When the layer should be run even if nothing completes.
    fn wakeup(&self, now: Time) -> Option<Time> {
        let core = self.below.core();
        if self.is_behind || !core.ready.is_empty() || !core.staged.is_empty() {
            return Some(now);
        }
        let timer = core.timers.peek().map(|&std::cmp::Reverse((at, _))| at);
        drop(core);
        let runs = |device: &&Device| device.out > 0 || !device.lane.is_idle();
        let lanes = self.devices.iter().filter(runs).filter_map(|device| device.lane.next_wakeup());
        lanes.chain(timer).min()
    }
}

impl<L: Layer> Turns for Engine<L> {
    type Failure = ();

    fn lanes(&self) -> &Lanes<()> {
        &self.lanes
    }

    fn lanes_mut(&mut self) -> &mut Lanes<()> {
        &mut self.lanes
    }

    fn join(&mut self, entry: &Arc<LaneEntry>) -> u32 {
        let number = self.lanes.join(entry);
        if self.boxes.len() <= number as usize {
            self.boxes.resize_with(number as usize + 1, Vec::new);
        }
        number
    }

    fn each_below(&self, each: &mut dyn FnMut(&dyn Lane)) {
        self.devices.iter().for_each(|device| each(device.lane.as_ref()));
    }

    fn outlook(&self, now: Time) -> Outlook {
        let due = self.wakeup(now);
        // Work of the layer itself needs a thread, also to take what completes.
        let thread = (self.own_tasks > 0).then(|| due.map_or(now, |at| at.min(now)));
        Outlook { due, is_out: self.is_out(), has_work: self.has_work(), thread }
    }

    fn is_out(&self) -> bool {
        self.devices.iter().any(|device| device.out > 0)
    }

    fn enter(&mut self) {
        (self.progress, self.advanced) = (false, false);
    }

    fn leave(&mut self, _now: Time) {
        if self.is_out() {
            self.lanes.appoint();
        }
    }

    fn run(&mut self, now: Time) {
        self.run_tasks(now);
    }

    fn has_progress(&self) -> bool {
        self.progress
    }

    fn has_advanced(&self) -> bool {
        self.advanced
    }

    fn unplug(&mut self, now: Time) {
        self.devices.iter_mut().for_each(|device| device.lane.unplug(now));
    }

    fn wait(&mut self, now: Time, timeout: Option<Span>) {
        let timer = self.wakeup(now).map(|at| at.since(now));
        let timeout = timeout.into_iter().chain(timer).min();
        if let Some(device) = self.devices.iter_mut().find(|device| device.out > 0) {
            device.lane.wait(now, timeout);
        } else if let Some(device) = self.devices.first_mut() {
            // Its tasks wait for time only, which in a simulation passes only in a sleep.
            device.lane.sleep(now, timeout, &[]);
        }
    }
}
