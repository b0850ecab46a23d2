//! A lane of a cache.

use super::Shared;
use super::engine::{Engine, LaneCell};
use super::task::{Flushing, Task};
use crate::gate::Door;
use platter_block::backend::LaneUse;
use platter_block::bio::{Bio, Flags, Op};
use platter_block::fault::{Fault, Stage};
use platter_block::lane::{Bell, Lane};
use platter_block::segment::{Region, RegionId};
use platter_block::time::{Span, Time};
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(super) struct CacheLane {
    // Dropped first: it waits for what its driver has.
    own: Box<dyn Lane>,
    shared: Arc<Shared>,
    cell: Arc<LaneCell>,
    number: u32,
    /// Whether the thread that calls sleeps until its bios are done, so that reads may go on its own lane.
    shareable: bool,
    simulated: bool,
    door: Door,
    /// The caller's plug.
    plug: Vec<Bio>,
    tasks: Vec<Task>,
    /// Tasks that have not been at the engine yet.
    fresh: bool,
    /// Bios out on the own lane.
    own_out: u32,
    came: Vec<Bio>,
    done: Vec<Bio>,
    spare: Vec<Flushing>,
    handles: Vec<i32>,
}

impl CacheLane {
    pub(super) fn new(shared: Arc<Shared>, own: Box<dyn Lane>, lane_use: LaneUse) -> CacheLane {
        let cell = LaneCell::new(own.bell());
        let number = shared.engine().join(&cell);
        let door = Door::new(&shared.gate, own.bell());
        CacheLane {
            own,
            cell,
            number,
            shareable: lane_use != LaneUse::Exclusive,
            simulated: shared.simulated,
            door,
            plug: Vec::new(),
            tasks: Vec::new(),
            fresh: false,
            own_out: 0,
            came: Vec::new(),
            done: Vec::new(),
            spare: Vec::new(),
            handles: Vec::new(),
            shared,
        }
    }

    fn flush_plug(&mut self) {
        if self.plug.is_empty() {
            return;
        }
        let mut plug = std::mem::take(&mut self.plug);
        let ordered = plug.iter().any(|bio| bio.flags().intersects(crate::gate::BARRIER));
        if !ordered && self.door.pass(plug.len()) {
            plug.drain(..).for_each(|bio| self.start(bio));
        } else {
            plug.drain(..).for_each(|bio| self.door.place(bio));
        }
        self.plug = plug;
    }

    /// Begins with a bio: what is in memory is there at once.
    fn start(&mut self, mut bio: Bio) {
        if let Err(fault) = self.check(&bio) {
            bio.fail(fault);
            return self.finish(bio);
        }
        let waits = bio.flags().intersects(Flags::PREFLUSH | crate::gate::BARRIER);
        if bio.op() == Op::Read && self.shared.answers && !waits {
            self.shared.frames.read_bio(&mut bio);
            if bio.is_empty() {
                return self.finish(bio);
            }
        }
        let flushing = self.spare.pop().unwrap_or_default();
        let own = self.shareable && !self.simulated;
        self.tasks.push(Task::new(bio, self.number, own, flushing));
        self.fresh = true;
    }

    fn check(&self, bio: &Bio) -> Result<(), Fault> {
        if bio.op() == Op::Flush {
            return Ok(());
        }
        let geometry = &self.shared.geometry;
        let at_layer = |fault: Fault| Fault { stage: Stage::Layer, ..fault };
        geometry.limits.check_range(bio.pos(), bio.len(), geometry.size).map_err(at_layer)?;
        let bytes = || bio.segments().map(|segment| u64::from(segment.len())).sum::<u64>();
        if bio.op().has_data() && bytes() != bio.len() {
            return Err(Fault::new(platter_block::fault::Kind::BadSegments, Stage::Layer));
        }
        if bio.op().changes() && geometry.features.read_only {
            return Err(Fault::new(platter_block::fault::Kind::ReadOnly, Stage::Layer));
        }
        Ok(())
    }

    fn finish(&mut self, mut bio: Bio) {
        match bio.flags().intersects(crate::gate::BARRIER) {
            true => self.door.complete_barrier(&mut bio),
            false => self.door.complete(1),
        }
        self.done.push(bio);
    }

    /// Whether the engine has something to do for this lane, or for all.
    fn is_needed(&self, now: Time) -> bool {
        self.fresh
            || !self.came.is_empty()
            || self.cell.kicked.load(Ordering::SeqCst)
            || self.shared.is_due(now)
    }

    /// A turn with the engine: takes in what came back, and brings every task as far as it gets. Whether another
    /// turn may bring more.
    fn turn(&mut self, now: Time) -> bool {
        let shared = Arc::clone(&self.shared);
        let mut engine = shared.engine();
        let engine = &mut *engine;
        self.fresh = false;
        self.cell.kicked.store(false, Ordering::SeqCst);
        self.own_out -= self.came.len() as u32;
        self.came.drain(..).for_each(|bio| engine.came_back(now, bio));
        engine.run(now);
        engine.tend(now);
        let finished = self.step_all(now, engine);
        let to_own = engine.submit(now, self.own.as_mut());
        self.own_out += to_own;
        let more = engine.run(now);
        shared.publish(now, engine);
        to_own > 0 || more || finished
    }

    fn step_all(&mut self, now: Time, engine: &mut Engine) -> bool {
        let (mut at, mut any) = (0, false);
        while at < self.tasks.len() {
            let task = &mut self.tasks[at];
            let over = task.is_ready(engine) && engine.step(now, task, self.shared.through);
            // A caller that sleeps has reads on its own lane: it must not go before they are back.
            if over && !(task.ask.own && self.own_out > 0) {
                any = true;
                let (bio, flushing) = self.tasks.swap_remove(at).into_parts();
                self.spare.push(flushing);
                self.finish(bio);
            } else {
                task.over |= over;
                at += 1;
            }
        }
        engine.forget_faults(self.number);
        any
    }

    /// Brings everything as far as it gets. A caller that `waits` and has only its own lane to wait for hands over
    /// what it has for it and sleeps in one go.
    fn progress(&mut self, now: Time, waits: bool) {
        self.flush_plug();
        loop {
            while self.door.is_holding()
                && let Some(bio) = self.door.next()
            {
                self.start(bio);
            }
            // A cache below may have work of its own.
            if self.own_out > 0 || !self.own.is_idle() {
                self.own.run(now);
                self.own.take_done(&mut self.came);
            }
            let before = self.own_out;
            if !self.is_needed(now) || !self.turn(now) {
                return;
            }
            if waits && before == 0 && self.waits_for_own() {
                return;
            }
        }
    }

    /// Blocks until something has changed.
    fn sleep_on(&mut self, now: Time, timeout: Option<Span>, others: &[i32]) {
        let wakeup = self.next_wakeup().map(|at| at.since(now));
        let timeout = timeout.into_iter().chain(wakeup).min();
        if self.simulated {
            return self.own.sleep(now, timeout, others);
        }
        let mut handles = std::mem::take(&mut self.handles);
        handles.extend_from_slice(others);
        let heard = {
            // Also while nothing is out there: somebody else may start something and go.
            let engine = self.shared.engine();
            engine.lane.wait_handles(&mut handles) || engine.shared_out == 0
        };
        // What cannot be heard of is there at the next run.
        if heard && !self.cell.kicked.load(Ordering::SeqCst) {
            self.own.sleep(now, timeout, &handles);
        }
        handles.clear();
        self.handles = handles;
    }

    /// Whether all that is waited for is on the own lane.
    fn waits_for_own(&self) -> bool {
        self.own_out > 0 && self.tasks.len() == 1 && self.done.is_empty() && !self.door.is_holding()
    }
}

impl Lane for CacheLane {
    #[inline]
    fn submit(&mut self, _now: Time, bio: Bio) {
        self.plug.push(bio);
    }

    fn run(&mut self, now: Time) {
        self.progress(now, false);
    }

    fn take_done(&mut self, out: &mut Vec<Bio>) {
        platter_block::queue::append(out, &mut self.done);
    }

    fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    fn next_wakeup(&self) -> Option<Time> {
        let runs = self.own_out > 0 || !self.own.is_idle();
        let own = if runs { self.own.next_wakeup() } else { None };
        Time::earliest(own, self.shared.wakeup())
    }

    fn unplug(&mut self, now: Time) {
        if self.own_out > 0 {
            self.own.unplug(now);
        }
        if !self.tasks.is_empty() {
            let mut engine = self.shared.engine();
            engine.lane.unplug(now);
        }
    }

    fn wait(&mut self, now: Time, timeout: Option<Span>) {
        self.progress(now, true);
        if self.has_done() {
            return;
        }
        if self.waits_for_own() {
            return self.own.wait(now, timeout);
        }
        self.sleep(now, timeout, &[]);
    }

    fn sleep(&mut self, now: Time, timeout: Option<Span>, others: &[i32]) {
        self.run(now);
        self.unplug(now);
        self.run(now);
        if !self.has_done() {
            self.sleep_on(now, timeout, others);
        }
    }

    fn bell(&self) -> Option<Arc<dyn Bell>> {
        self.own.bell()
    }

    fn wait_handles(&self, out: &mut Vec<i32>) -> bool {
        let engine = self.shared.engine();
        self.own.wait_handles(out) & engine.lane.wait_handles(out)
    }

    fn in_flight(&self) -> u32 {
        // Whoever may have to see to the cache's own work counts that too.
        let none = self.tasks.is_empty() && !(self.shareable && self.shared.has_work());
        let shared = if none { 0 } else { self.shared.engine().lane.in_flight() };
        self.own.in_flight() + shared
    }

    fn is_idle(&self) -> bool {
        let idle = self.plug.is_empty() && self.tasks.is_empty() && self.door.out() == 0;
        idle && self.own.is_idle() && !self.door.is_holding() && !(self.shareable && self.shared.has_work())
    }

    fn register(&mut self, region: &Region) {
        self.own.register(region);
    }

    fn unregister(&mut self, region: RegionId) {
        self.own.unregister(region);
    }
}

impl Drop for CacheLane {
    fn drop(&mut self) {
        let now = self.shared.below.now();
        // What is being read into pages belongs to all.
        while self.own_out > 0 {
            self.own.wait(now, None);
            self.own.run(now);
            self.own.take_done(&mut self.came);
            let mut engine = self.shared.engine();
            self.own_out -= self.came.len() as u32;
            self.came.drain(..).for_each(|bio| engine.came_back(now, bio));
        }
        let mut engine = self.shared.engine();
        for task in self.tasks.iter_mut().filter(|task| !task.over) {
            engine.give_up(task);
        }
        engine.leave(self.number);
    }
}
