//! A lane of a stateful layer.

use super::frame::{Frame, PATIENCE};
use super::lanes::LaneEntry;
use super::layer::Layer;
use crate::barrier_gate::{BARRIER, BarrierGate, Door};
use platter_block::backend::LaneUse;
use platter_block::bio::{Bio, Flags, Op};
use platter_block::driver::Geometry;
use platter_block::fault::{Fault, Kind, Stage};
use platter_block::lane::{Bell, Lane};
use platter_block::segment::{Region, RegionId};
use platter_block::time::{Span, Time};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(super) struct StatefulLane<L: Layer> {
    /// A lane to the first device. It carries no I/O: threads sleep in it.
    own: Box<dyn Lane>,
    frame: Arc<Frame<L>>,
    port: usize,
    geometry: Geometry,
    entry: Arc<LaneEntry>,
    number: u32,
    sleeps: bool,
    /// The lane is also run for the layer's own work.
    is_background: bool,
    has_bell: bool,
    door: Door,
    /// The caller's plug.
    plug: Vec<Bio>,
    /// Bios to be given to the engine.
    fresh: Vec<Bio>,
    /// Bios that the engine has.
    out: usize,
    /// The engine lists the lane among those that sleep until their bios complete.
    listed: bool,
    /// The lane listened to the layer's own lanes and was woken.
    woke: bool,
    /// A thread that sleeps on the lane's descriptors listens to the layer's own lanes.
    is_listed_outside: Cell<bool>,
    came: Vec<Bio>,
    done: Vec<Bio>,
    handles: Vec<i32>,
}

impl<L: Layer> StatefulLane<L> {
    pub(super) fn new(
        frame: &Arc<Frame<L>>,
        own: Box<dyn Lane>,
        port: usize,
        (geometry, gate): (Geometry, &Arc<BarrierGate>),
        lane_use: LaneUse,
    ) -> Result<StatefulLane<L>, Fault> {
        let bell = own.bell();
        let has_bell = bell.is_some();
        let entry = LaneEntry::new(bell.clone());
        let number = frame.engine()?.join(&entry);
        Ok(StatefulLane {
            own,
            frame: Arc::clone(frame),
            port,
            geometry,
            entry,
            number,
            sleeps: lane_use == LaneUse::Synchronous,
            is_background: lane_use == LaneUse::Shared,
            has_bell,
            door: Door::new(gate, bell),
            plug: Vec::new(),
            fresh: Vec::new(),
            out: 0,
            listed: false,
            woke: false,
            is_listed_outside: Cell::new(false),
            came: Vec::new(),
            done: Vec::new(),
            handles: Vec::new(),
        })
    }

    fn flush_plug(&mut self) {
        if self.plug.is_empty() {
            return;
        }
        let mut plug = std::mem::take(&mut self.plug);
        let ordered = plug.iter().any(|bio| bio.flags().intersects(BARRIER));
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

    fn start(&mut self, mut bio: Bio) {
        match check(&bio, &self.geometry) {
            Ok(()) => self.fresh.push(bio),
            Err(fault) => {
                bio.fail(fault);
                self.finish(bio);
            }
        }
    }

    fn finish(&mut self, mut bio: Bio) {
        match bio.flags().intersects(BARRIER) {
            true => self.door.complete_barrier(&mut bio),
            false => self.door.complete(1),
        }
        self.done.push(bio);
    }

    /// Whether the engine has something to do for this lane.
    fn is_needed(&self) -> bool {
        !self.fresh.is_empty() || self.woke || self.entry.kicked.load(Ordering::SeqCst)
    }

    /// Runs a turn of the engine.
    fn turn(&mut self, now: Time) {
        let frame = Arc::clone(&self.frame);
        let mut engine = match frame.engine() {
            Ok(engine) => engine,
            Err(fault) => return self.fail_all(fault),
        };
        engine.lanes.awake(self.number);
        self.woke = false;
        self.entry.kicked.store(false, Ordering::SeqCst);
        self.out += self.fresh.len();
        for bio in self.fresh.drain(..) {
            engine.start(self.number, self.port, bio);
        }
        engine.run(now);
        let mut came = std::mem::take(&mut self.came);
        engine.take_done(self.number, &mut came);
        self.out -= came.len();
        if self.out == 0 && std::mem::take(&mut self.listed) {
            engine.lanes.wake(self.number);
        }
        frame.publish(now, &engine);
        drop(engine);
        came.drain(..).for_each(|bio| self.finish(bio));
        self.came = came;
    }

    /// Fails all bios: the engine is broken, and has the bios that were started.
    fn fail_all(&mut self, fault: Fault) {
        (self.woke, self.listed) = (false, false);
        self.entry.kicked.store(false, Ordering::SeqCst);
        for mut bio in std::mem::take(&mut self.fresh) {
            bio.fail(fault);
            self.finish(bio);
        }
    }

    /// Advances everything as far as possible.
    fn progress(&mut self, now: Time) {
        self.flush_plug();
        // The shared work is done only once, or the lane might never return.
        let mut due = self.frame.is_due(now);
        loop {
            if self.door.is_holding() {
                self.pass_door(now);
            }
            // A cache below may have work of its own.
            if !self.own.is_idle() {
                self.own.run(now);
            }
            if !(std::mem::take(&mut due) || self.is_needed()) {
                return;
            }
            let before = self.done.len();
            self.turn(now);
            let may_pass = self.done.len() > before && self.door.is_holding();
            if !may_pass && !self.is_needed() {
                return;
            }
        }
    }

    /// Blocks until something has changed.
    fn sleep_on(&mut self, now: Time, timeout: Option<Span>, others: &[i32]) {
        let wakeup = self.next_wakeup().map(|at| at.since(now));
        let mut timeout = timeout.into_iter().chain(wakeup).min();
        if self.frame.simulated {
            return self.own.sleep(now, timeout, others);
        }
        let mut handles = std::mem::take(&mut self.handles);
        handles.extend_from_slice(others);
        let mut listens = false;
        let heard = match self.frame.engine() {
            // The next run fails all bios.
            Err(_) => false,
            Ok(mut engine) => {
                self.listed = self.sleeps && self.has_bell;
                listens = !self.listed || engine.lanes.sleep(self.number);
                // Every device is asked: one signals only lanes that have asked.
                let hears = !listens
                    || engine
                        .devices
                        .iter()
                        .fold(true, |heard, device| device.lane.wait_handles(&mut handles) & heard);
                // Another thread may have scheduled an earlier wakeup since.
                timeout = timeout.into_iter().chain(engine.wakeup(now).map(|at| at.since(now))).min();
                if self.listed && listens {
                    engine.lanes.set_hears(hears, timeout.map(|span| now + span));
                }
                self.frame.publish(now, &engine);
                hears || !engine.is_out()
            }
        };
        // Completions that cannot be waited for are found by the next run.
        if heard && !self.entry.kicked.load(Ordering::SeqCst) {
            self.own.sleep(now, timeout, &handles);
        }
        handles.clear();
        self.handles = handles;
        self.woke = listens;
        if self.out == 0 {
            // The lane may not be run again.
            self.resign(now);
        }
    }

    /// Removes the lane from those that others rely on to listen to the layer's own lanes.
    fn resign(&mut self, now: Time) {
        if std::mem::take(&mut self.listed)
            && let Ok(mut engine) = self.frame.engine()
        {
            engine.lanes.wake(self.number);
            if engine.is_out() {
                engine.lanes.appoint();
            }
            self.frame.publish(now, &engine);
        }
    }
}

impl<L: Layer> Lane for StatefulLane<L> {
    fn submit(&mut self, _now: Time, bio: Bio) {
        self.plug.push(bio);
    }

    fn run(&mut self, now: Time) {
        // Otherwise a completion would not be taken, and would wake the listening thread again and again.
        self.woke |= self.is_listed_outside.take() && self.frame.is_out();
        self.progress(now);
    }

    fn take_done(&mut self, out: &mut Vec<Bio>) {
        platter_block::queue::append(out, &mut self.done);
    }

    fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    fn next_wakeup(&self) -> Option<Time> {
        let own = if self.own.is_idle() { None } else { self.own.next_wakeup() };
        // Another lane may have opened the gate; a caller that advances simulated time must not skip this.
        let now = (self.is_needed() || self.door.is_ready()).then_some(Time(0));
        [own, self.frame.wakeup(), self.door.next_wakeup(), now].into_iter().flatten().min()
    }

    fn unplug(&mut self, now: Time) {
        if self.out > 0
            && let Ok(mut engine) = self.frame.engine()
        {
            engine.devices.iter_mut().for_each(|device| device.lane.unplug(now));
        }
    }

    fn wait(&mut self, now: Time, timeout: Option<Span>) {
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
        let Ok(engine) = self.frame.engine() else { return false };
        engine.devices.iter().fold(own, |heard, device| device.lane.wait_handles(out) & heard)
    }

    fn in_flight(&self) -> u32 {
        // A lane that is run for the layer's own work counts that work too.
        let counts = self.out > 0 || (self.is_background && self.frame.has_work());
        let shared = match (counts, self.frame.engine()) {
            (true, Ok(engine)) => engine.devices.iter().map(|device| device.lane.in_flight()).sum(),
            _ => 0,
        };
        self.own.in_flight() + shared
    }

    fn cancel(&mut self, now: Time, token: u64) {
        self.flush_plug();
        self.door.cancel(token);
        self.door.take_failed(&mut self.done);
        for mut bio in self.fresh.extract_if(.., |bio| bio.token() == token).collect::<Vec<_>>() {
            bio.fail(Fault::new(Kind::Cancelled, Stage::Layer));
            self.finish(bio);
        }
        if let Ok(mut engine) = self.frame.engine() {
            engine.cancel(now, self.number, token);
            self.frame.publish(now, &engine);
        }
    }

    fn is_idle(&self) -> bool {
        let idle = self.plug.is_empty() && self.fresh.is_empty() && self.out == 0 && self.door.out() == 0;
        let works = self.is_background && self.frame.has_work();
        idle && self.own.is_idle() && !self.door.is_holding() && !works
    }

    fn register(&mut self, region: &Region) {
        self.own.register(region);
    }

    fn unregister(&mut self, region: RegionId) {
        self.own.unregister(region);
    }
}

impl<L: Layer> Drop for StatefulLane<L> {
    /// Waits for what devices carry out for this lane, because a later write of another lane must not be overtaken.
    fn drop(&mut self) {
        let Ok(mut engine) = self.frame.engine() else { return };
        let mut since = self.frame.now();
        loop {
            let now = self.frame.now();
            engine.progress = false;
            if engine.leave(self.number) {
                break;
            }
            engine.devices.iter_mut().for_each(|device| device.lane.unplug(now));
            engine.run(now);
            if engine.progress {
                since = now;
            } else if now.since(since) >= PATIENCE {
                break;
            } else {
                engine.wait(now, Some(PATIENCE));
            }
        }
        self.frame.publish(self.frame.now(), &engine);
    }
}

/// Whether a bio has the range and the memory that a device of this geometry accepts.
fn check(bio: &Bio, geometry: &Geometry) -> Result<(), Fault> {
    if bio.op() == Op::Flush {
        return Ok(());
    }
    let refuse = |kind| Err(Fault::new(kind, Stage::Layer));
    let at_layer = |fault: Fault| Fault { stage: Stage::Layer, ..fault };
    geometry.limits.check_range(bio.pos(), bio.len(), geometry.size).map_err(at_layer)?;
    let bytes = || bio.segments().map(|segment| u64::from(segment.len())).sum::<u64>();
    if bio.op().has_data() && bytes() != bio.len() {
        return refuse(Kind::BadSegments);
    }
    if bio.op().changes() && geometry.features.read_only {
        return refuse(Kind::ReadOnly);
    }
    // The bio may be carried out in parts.
    if bio.flags().contains(Flags::ATOMIC) {
        return refuse(Kind::Unsupported);
    }
    Ok(())
}
