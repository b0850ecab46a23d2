//! A lane of a cache.

use super::Shared;
use super::engine::Engine;
use super::task::{Spare, Task};
use platter_block::backend::LaneUse;
use platter_block::bio::{Bio, Flags, Op};
use platter_block::fault::{Fault, Kind, Stage};
use platter_block::lane::{Bell, Lane};
use platter_block::segment::{Region, RegionId};
use platter_block::time::{Span, Time};
use platter_stack::barrier_gate::Door;
use platter_stack::kit::lanes::LaneEntry;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(super) struct CacheLane {
    // Dropped first: this waits for the I/O that its driver has.
    own: Box<dyn Lane>,
    shared: Arc<Shared>,
    entry: Arc<LaneEntry>,
    number: u32,
    /// Each caller sleeps until its bios complete. So reads may go on its own lane, and other lanes rely on
    /// it to listen to the shared lane.
    sleeps: bool,
    /// The lane is also run for the device's own work.
    is_background: bool,
    simulated: bool,
    has_bell: bool,
    door: Door,
    /// The caller's plug.
    plug: Vec<Bio>,
    tasks: Vec<Task>,
    /// The task to try first in the next turn.
    next: usize,
    /// Tasks have not been run yet, or could continue.
    fresh: bool,
    /// The engine lists the lane among those that sleep until their bios complete.
    listed: bool,
    /// The lane listened to the shared lane and was woken.
    woke: bool,
    /// A thread that sleeps on the lane's descriptors listens to the shared lane.
    is_listed_outside: Cell<bool>,
    /// The first deadline of a task, or an earlier time.
    deadline: Option<Time>,
    /// Bios in flight on the lane's own lane below.
    own_out: u32,
    came: Vec<Bio>,
    done: Vec<Bio>,
    spare: Vec<Spare>,
    handles: Vec<i32>,
}

impl CacheLane {
    pub(super) fn new(
        shared: Arc<Shared>,
        own: Box<dyn Lane>,
        lane_use: LaneUse,
    ) -> Result<CacheLane, Fault> {
        let bell = own.bell();
        let has_bell = bell.is_some();
        let entry = LaneEntry::new(bell);
        let number = shared.engine()?.lanes.join(&entry);
        let door = Door::new(&shared.gate, own.bell());
        Ok(CacheLane {
            own,
            entry,
            number,
            sleeps: lane_use == LaneUse::Synchronous,
            is_background: lane_use == LaneUse::Shared,
            simulated: shared.simulated,
            has_bell,
            door,
            plug: Vec::new(),
            tasks: Vec::new(),
            next: 0,
            fresh: false,
            listed: false,
            woke: false,
            is_listed_outside: Cell::new(false),
            deadline: None,
            own_out: 0,
            came: Vec::new(),
            done: Vec::new(),
            spare: Vec::new(),
            handles: Vec::new(),
            shared,
        })
    }

    fn flush_plug(&mut self) {
        if self.plug.is_empty() {
            return;
        }
        let mut plug = std::mem::take(&mut self.plug);
        let ordered = plug.iter().any(|bio| bio.flags().intersects(platter_stack::barrier_gate::BARRIER));
        if !ordered && self.door.pass(plug.len()) {
            plug.drain(..).for_each(|bio| self.start(bio));
        } else {
            plug.drain(..).for_each(|bio| self.door.place(bio));
        }
        self.plug = plug;
    }

    /// Starts the bios that the gate admits, and returns those that failed while they waited for it.
    #[cold]
    fn pass_door(&mut self, now: Time) {
        while let Some(bio) = self.door.take_next() {
            self.start(bio);
        }
        self.door.expire(now);
        self.door.take_failed(&mut self.done);
    }

    /// Starts a bio: data in memory is copied at once.
    fn start(&mut self, mut bio: Bio) {
        if let Err(fault) = self.check(&bio) {
            bio.fail(fault);
            return self.finish(bio);
        }
        let waits = bio.flags().intersects(Flags::PREFLUSH | platter_stack::barrier_gate::BARRIER);
        if bio.op() == Op::Read && self.shared.answers && !waits {
            self.shared.frames.read_bio(&mut bio);
            if bio.is_empty() {
                return self.finish(bio);
            }
        }
        let spare = self.spare.pop().unwrap_or_default();
        let own = self.sleeps && !self.simulated;
        let task = Task::new(bio, self.number, own, spare);
        self.deadline = Time::earliest(self.deadline, task.deadline);
        self.tasks.push(task);
        self.fresh = true;
    }

    fn check(&self, bio: &Bio) -> Result<(), Fault> {
        let refuse = |kind| Err(Fault::new(kind, Stage::Layer));
        if bio.op() == Op::Flush {
            return Ok(());
        }
        let geometry = &self.shared.geometry;
        let at_layer = |fault: Fault| Fault { stage: Stage::Layer, ..fault };
        geometry.limits.check_range(bio.pos(), bio.len(), geometry.size).map_err(at_layer)?;
        let bytes = || bio.segments().map(|segment| u64::from(segment.len())).sum::<u64>();
        if bio.op().has_data() && bytes() != bio.len() {
            return refuse(Kind::BadSegments);
        }
        if bio.op().changes() && geometry.features.read_only {
            return refuse(Kind::ReadOnly);
        }
        // Pages are written back individually, so a write of several pages cannot be atomic.
        if bio.flags().contains(Flags::ATOMIC) {
            return refuse(Kind::Unsupported);
        }
        Ok(())
    }

    fn finish(&mut self, mut bio: Bio) {
        match bio.flags().intersects(platter_stack::barrier_gate::BARRIER) {
            true => self.door.complete_barrier(&mut bio),
            false => self.door.complete(1),
        }
        self.done.push(bio);
    }

    /// Whether the engine has something to do for this lane.
    fn is_needed(&self, now: Time) -> bool {
        self.fresh
            || self.woke
            || !self.came.is_empty()
            || self.entry.kicked.load(Ordering::SeqCst)
            || self.deadline.is_some_and(|at| at <= now)
    }

    /// Runs a turn of the engine: processes completions and advances every task as far as possible. Returns
    /// whether another turn may advance more.
    fn turn(&mut self, now: Time) -> bool {
        let called = self.woke || self.entry.kicked.load(Ordering::SeqCst);
        let shared = Arc::clone(&self.shared);
        let mut guard = match shared.engine() {
            Ok(guard) => guard,
            Err(fault) => return self.fail_all(fault),
        };
        let engine = &mut *guard;
        engine.enter();
        engine.lanes.awake(self.number);
        let mut came = self.came.drain(..);
        while !engine.is_spent()
            && let Some(bio) = came.next()
        {
            self.own_out -= 1;
            engine.came_back(now, bio);
        }
        let left: Vec<Bio> = came.collect();
        self.came.extend(left);
        engine.run(now);
        engine.run_background(now);
        // A kick from here on means a change that this turn has not seen.
        (self.fresh, self.woke) = (false, false);
        self.entry.kicked.store(false, Ordering::SeqCst);
        self.expire(now, engine);
        self.step_all(now, engine);
        let to_own = engine.submit(now, self.own.as_mut());
        self.own_out += to_own;
        engine.run(now);
        if self.tasks.iter().all(|task| task.over) {
            self.unlist(engine);
        }
        engine.totals.turns += 1;
        engine.totals.vain += u64::from(called && !engine.progress);
        shared.leave(now, engine);
        drop(guard);
        self.take_pieces();
        let finished = self.give_back();
        to_own > 0 || self.fresh || (finished && self.door.is_holding())
    }

    /// Fails tasks whose deadline has passed.
    fn expire(&mut self, now: Time, engine: &mut Engine) {
        if self.deadline.is_none_or(|at| at > now) {
            return;
        }
        for task in self.tasks.iter_mut().filter(|task| task.is_late(now)) {
            let range = task.start..task.start.saturating_add(task.size);
            let fault = match task.bio.op().changes() {
                true => engine.why_late(&range),
                false => Fault::new(Kind::TimedOut, Stage::Layer),
            };
            engine.give_up(task, fault);
        }
        self.deadline = self.tasks.iter().filter(|task| !task.over).filter_map(|task| task.deadline).min();
    }

    /// Advances each task that can continue, starting with the one after the last task of the previous turn.
    fn step_all(&mut self, now: Time, engine: &mut Engine) {
        let count = self.tasks.len();
        let first = if self.next < count { self.next } else { 0 };
        for step in 0..count {
            let at = if first + step < count { first + step } else { first + step - count };
            let task = &mut self.tasks[at];
            if task.over || !task.is_ready(engine) {
                continue;
            }
            if engine.is_spent() {
                // The remaining tasks have not been run.
                (self.next, self.fresh) = (at, true);
                return;
            }
            engine.step(now, task, self.shared.through);
            self.fresh |= task.wait == super::task::Wait::Turn;
        }
        engine.lanes.forget_failures(self.number);
    }

    /// Removes the lane from the engine's list, because it will not sleep again or only in its own lane:
    /// others must not rely on it to listen to the shared lane.
    fn unlist(&mut self, engine: &mut Engine) {
        if std::mem::take(&mut self.listed) {
            engine.lanes.wake(self.number);
        }
    }

    /// As `unlist`, without the lock held.
    fn resign(&mut self, now: Time) {
        if !self.listed {
            return;
        }
        let shared = Arc::clone(&self.shared);
        if let Ok(mut engine) = shared.engine() {
            self.unlist(&mut engine);
            engine.enter();
            shared.leave(now, &mut engine);
        }
    }

    /// Copies the pieces that tasks have taken, without the lock.
    fn take_pieces(&mut self) {
        let frames = &self.shared.frames;
        let mut any = false;
        for task in self.tasks.iter_mut().filter(|task| !task.pieces.is_empty()) {
            any = true;
            for piece in task.pieces.drain(..) {
                frames.copy_out(piece.held, piece.offset as usize, &mut task.bio, piece.len as usize);
            }
        }
        if any
            && frames.was_starved()
            && let Ok(mut engine) = self.shared.engine()
        {
            engine.enter();
            self.shared.leave(self.shared.below.now(), &mut engine);
        }
    }

    /// Returns bios whose tasks are over. Returns whether there were any.
    fn give_back(&mut self) -> bool {
        let (mut at, before) = (0, self.done.len());
        while at < self.tasks.len() {
            let task = &self.tasks[at];
            // Reads of a sleeping caller are on its own lane: the caller must not continue before they have
            // completed.
            if task.over && !(task.ask.own && self.own_out > 0) {
                let (bio, spare) = self.tasks.swap_remove(at).into_parts();
                self.spare.push(spare);
                self.finish(bio);
            } else {
                at += 1;
            }
        }
        self.done.len() > before
    }

    /// Fails all tasks: the engine is broken.
    fn fail_all(&mut self, fault: Fault) -> bool {
        (self.fresh, self.woke, self.listed) = (false, false, false);
        self.entry.kicked.store(false, Ordering::SeqCst);
        self.deadline = None;
        self.own_out -= self.came.len() as u32;
        self.came.clear();
        for task in &mut self.tasks {
            task.bio.fail(fault);
            task.over = true;
        }
        self.give_back() && self.door.is_holding()
    }

    /// Advances everything as far as possible. If the caller `waits` and only has its own lane to wait for,
    /// it submits to that lane and sleeps in one call.
    fn progress(&mut self, now: Time, waits: bool) {
        self.flush_plug();
        // The shared work is done only once, or the lane might never return.
        let mut due = self.shared.is_due(now);
        loop {
            if self.door.is_holding() {
                self.pass_door(now);
            }
            // A cache below may have work of its own.
            if self.own_out > 0 || !self.own.is_idle() {
                self.own.run(now);
                self.own.take_done(&mut self.came);
            }
            let before = self.own_out;
            if !(std::mem::take(&mut due) || self.is_needed(now)) {
                return;
            }
            let more = self.turn(now);
            if waits && before == 0 && self.waits_for_own() {
                return;
            }
            if !more && !self.is_needed(now) {
                return;
            }
        }
    }

    /// Blocks until something has changed.
    fn sleep_on(&mut self, now: Time, timeout: Option<Span>, others: &[i32]) {
        let wakeup = self.next_wakeup().map(|at| at.since(now));
        let mut timeout = timeout.into_iter().chain(wakeup).min();
        if self.simulated {
            return self.own.sleep(now, timeout, others);
        }
        let mut handles = std::mem::take(&mut self.handles);
        handles.extend_from_slice(others);
        let mut listens = false;
        let heard = match self.shared.engine() {
            // The next run fails all tasks.
            Err(_) => false,
            Ok(mut engine) => {
                self.listed = self.sleeps && self.has_bell;
                listens = !self.listed || engine.lanes.sleep(self.number);
                // Also if nothing is in flight there: another thread may submit a bio and not wait for it.
                let hears = !listens || engine.lane.wait_handles(&mut handles);
                // Another thread may have scheduled an earlier wakeup since.
                timeout = timeout.into_iter().chain(engine.wakeup(now).map(|at| at.since(now))).min();
                if self.listed && listens {
                    engine.lanes.set_hears(hears, timeout.map(|span| now + span));
                }
                self.shared.publish(now, &engine);
                hears || engine.shared_out == 0
            }
        };
        // Completions that cannot be waited for are found by the next run.
        if heard && !self.entry.kicked.load(Ordering::SeqCst) {
            self.own.sleep(now, timeout, &handles);
        }
        handles.clear();
        self.handles = handles;
        self.woke = listens;
        if self.tasks.is_empty() {
            // The lane may not be run again.
            self.resign(now);
        }
    }

    /// Whether all tasks wait for bios on the own lane.
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
        // Otherwise the completion would not be processed, and would wake the listening thread again and
        // again.
        self.woke |= self.is_listed_outside.take() && self.shared.is_out();
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
        // Another lane may have opened the gate; a caller that advances simulated time must not skip this.
        let kicked = self.entry.kicked.load(Ordering::SeqCst);
        let now = (self.fresh || kicked || self.door.is_ready()).then_some(Time(0));
        let timers = [own, self.shared.wakeup(), self.deadline, self.door.next_wakeup(), now];
        timers.into_iter().flatten().min()
    }

    fn unplug(&mut self, now: Time) {
        if self.own_out > 0 {
            self.own.unplug(now);
        }
        if !self.tasks.is_empty()
            && let Ok(mut engine) = self.shared.engine()
        {
            engine.lane.unplug(now);
        }
    }

    fn wait(&mut self, now: Time, timeout: Option<Span>) {
        self.progress(now, true);
        if self.has_done() {
            return;
        }
        if self.waits_for_own() {
            self.resign(now);
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
        let own = self.own.wait_handles(out);
        self.is_listed_outside.set(true);
        self.shared.engine().is_ok_and(|engine| engine.lane.wait_handles(out)) && own
    }

    fn in_flight(&self) -> u32 {
        // A lane that is run for the cache's own work counts that work too.
        let none = self.tasks.is_empty() && !(self.is_background && self.shared.has_work());
        let shared = match (none, self.shared.engine()) {
            (false, Ok(engine)) => engine.lane.in_flight(),
            _ => 0,
        };
        self.own.in_flight() + shared
    }

    fn cancel(&mut self, now: Time, token: u64) {
        self.flush_plug();
        self.door.cancel(token);
        self.door.take_failed(&mut self.done);
        let shared = Arc::clone(&self.shared);
        let Ok(mut engine) = shared.engine() else { return };
        engine.enter();
        let concerned = |task: &&mut Task| !task.over && !task.ask.own && task.bio.token() == token;
        for task in self.tasks.iter_mut().filter(concerned) {
            match engine.io_of_pass(task.ticket) {
                // The device is carrying it out and is asked to cancel it.
                Some(key) => engine.cancel(now, key),
                None => engine.give_up(task, Fault::new(Kind::Cancelled, Stage::Layer)),
            }
        }
        self.shared.leave(now, &mut engine);
        drop(engine);
        self.give_back();
    }

    fn is_idle(&self) -> bool {
        let idle = self.plug.is_empty() && self.tasks.is_empty() && self.door.out() == 0;
        let works = self.is_background && self.shared.has_work();
        idle && self.own.is_idle() && !self.door.is_holding() && !works
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
        // Pages that are being read belong to all lanes.
        while self.own_out > 0 {
            self.own.wait(now, None);
            self.own.run(now);
            self.own.take_done(&mut self.came);
            self.own_out -= self.came.len() as u32;
            match self.shared.engine() {
                Ok(mut engine) => self.came.drain(..).for_each(|bio| engine.came_back(now, bio)),
                Err(_) => self.came.clear(),
            }
        }
        let Ok(mut engine) = self.shared.engine() else { return };
        engine.enter();
        for task in self.tasks.iter_mut().filter(|task| !task.over) {
            engine.finish(task);
        }
        engine.lanes.leave(self.number);
        self.shared.leave(now, &mut engine);
    }
}
