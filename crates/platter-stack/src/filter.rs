//! The common part of layers over one device that delay bios, inspect them or fail them.
//!
//! A bio keeps its position and memory on its way. Its token is replaced by the number of a slot that holds
//! the layer's state of the bio, so that the slot is found even if another bio comes back in its place after
//! a timeout. A bio that the device has completed may be held until a time that the filter has set; held bios
//! are ordered by that time.

use crate::gate::{BARRIER, Door, Gate};
use platter_block::backend::{Backend, Fact, LaneUse};
use platter_block::bio::{Bio, Op};
use platter_block::driver::Geometry;
use platter_block::event::{DeviceEvent, Watcher};
use platter_block::fault::{Error, Fault, Kind, Stage};
use platter_block::lane::{Bell, Lane};
use platter_block::limits::{LimitSource, Limits};
use platter_block::segment::{Region, RegionId};
use platter_block::time::{Span, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// The filter of one lane.
pub(crate) trait Filter: Send {
    /// Whether another bio may start now. After `true` either a bio starts or the lane calls
    /// [`release`](Filter::release).
    fn admits(&mut self) -> bool {
        true
    }

    /// Starts a bio. Returns the earliest time at which it may complete, or the fault with which it fails at
    /// once.
    fn start(&mut self, now: Time, slot: usize, bio: &mut Bio) -> Result<Time, Fault>;

    /// Called when the device has completed a bio that was started.
    fn end(&mut self, _slot: usize, _bio: &mut Bio) {}

    /// Called when a held bio is returned, with the delay past its time: the lane was run late.
    fn late(&mut self, _by: Span) {}

    /// Called when a bio is returned to its submitter. Returns whether another lane may be waiting for this.
    fn release(&mut self) -> bool {
        false
    }
}

/// Makes the filter of a lane.
pub(crate) type MakeFilter = Box<dyn Fn() -> Box<dyn Filter> + Send + Sync>;

/// The size of the device below, which lanes that are open follow.
struct Size(AtomicU64);

impl Watcher for Size {
    fn event(&self, event: &DeviceEvent) {
        if let DeviceEvent::Resized { to, .. } = event {
            self.0.store(*to, Ordering::Relaxed);
        }
    }
}

/// A device behind a filter.
pub(crate) struct Filtered {
    pub(crate) below: Arc<dyn Backend>,
    pub(crate) name: Arc<str>,
    pub(crate) facts: Vec<Fact>,
    pub(crate) make: MakeFilter,
    gate: Arc<Gate>,
    size: Arc<Size>,
}

impl Filtered {
    /// Builds a device that is named `layer(PARAMS, below)`.
    pub(crate) fn new(layer: &str, params: &str, below: Arc<dyn Backend>, make: MakeFilter) -> Filtered {
        let name = crate::spread::name_of(layer, params, std::slice::from_ref(&below));
        let facts = vec![("layer", layer.to_string())];
        let size = Arc::new(Size(AtomicU64::new(below.geometry().size)));
        below.watch(Arc::downgrade(&size) as Weak<dyn Watcher>);
        Filtered { below, name, facts, make, gate: Arc::default(), size }
    }
}

impl LimitSource for Filtered {
    fn limits_at(&self, pos: u64) -> (Limits, u64) {
        self.below.limits_at(pos)
    }
}

impl Backend for Filtered {
    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn open_lane(&self, lane_use: LaneUse) -> Result<Box<dyn Lane>, Error> {
        let below = self.below.open_lane(lane_use)?;
        let geometry = self.below.geometry();
        Ok(Box::new(FilterLane {
            door: Door::new(&self.gate, below.bell()),
            below,
            filter: (self.make)(),
            refused: false,
            limits: geometry.limits,
            size: Arc::clone(&self.size),
            plug: Vec::new(),
            slots: Vec::new(),
            free: Vec::new(),
            late: BinaryHeap::new(),
            kept: Vec::new(),
            turns: 0,
            came: Vec::new(),
            done: Vec::new(),
        }))
    }

    fn locate(&self, pos: u64) -> Option<(usize, u64)> {
        Some((0, pos))
    }

    fn below(&self) -> Vec<Arc<dyn Backend>> {
        vec![Arc::clone(&self.below)]
    }

    fn explain(&self, fault: Fault) -> Option<String> {
        // The layer gives up its own barriers at the same faults as the disks below.
        let own =
            self.gate.blame().filter(|_| fault.kind == Kind::LaneStalled && fault.stage == Stage::Layer);
        own.or_else(|| self.below().iter().find_map(|below| below.explain(fault)))
    }

    fn facts(&self) -> Vec<Fact> {
        self.facts.iter().cloned().chain(self.below.facts()).collect()
    }
}

/// State of a bio in flight.
#[derive(Clone, Copy)]
struct Slot {
    /// Whether the bio is in the device below.
    out: bool,
    /// Whether [`Filter::start`] was called for the bio, so that [`Filter::end`] must be.
    started: bool,
    token: u64,
    due: Time,
    barrier: bool,
    /// The bio's deadline is earlier than the time until which it is held: it then fails.
    times_out: bool,
}

struct FilterLane {
    // Dropped first: this waits for the I/O that the driver has.
    below: Box<dyn Lane>,
    door: Door,
    filter: Box<dyn Filter>,
    /// The filter refused the last bio.
    refused: bool,
    limits: Limits,
    size: Arc<Size>,
    /// The caller's plug.
    plug: Vec<Bio>,
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// Completed bios that are held, ordered by time and then by completion, with their indexes in `kept`.
    late: BinaryHeap<Reverse<(Time, u64, usize)>>,
    kept: Vec<Option<Bio>>,
    /// Number of bios held so far; orders bios with the same time.
    turns: u64,
    came: Vec<Bio>,
    done: Vec<Bio>,
}

impl FilterLane {
    fn flush_plug(&mut self) {
        for bio in self.plug.drain(..) {
            self.door.place(bio);
        }
    }

    /// Starts the bios that the filter admits. Returns whether any started.
    fn admit(&mut self, now: Time) -> bool {
        let mut any = false;
        self.refused = false;
        while self.door.is_holding() {
            if !self.filter.admits() {
                self.refused = true;
                break;
            }
            let Some(bio) = self.door.take_next() else {
                self.give_way();
                break;
            };
            any = true;
            self.start(now, bio);
        }
        if self.door.is_holding() {
            self.door.expire(now);
            self.door.take_failed(&mut self.done);
        }
        any
    }

    /// Undoes the admission of a bio that is no longer in flight.
    fn give_way(&mut self) {
        if self.filter.release() {
            self.door.ring();
        }
    }

    fn start(&mut self, now: Time, mut bio: Bio) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                out: false,
                started: false,
                token: 0,
                due: now,
                barrier: false,
                times_out: false,
            });
            self.kept.push(None);
            self.slots.len() - 1
        });
        let barrier = bio.flags().intersects(BARRIER);
        // A bio with an invalid range is passed down for the device to refuse; the filter does not see it.
        let sound = bio.op() == Op::Flush
            || self.limits.check_range(bio.pos(), bio.len(), self.size.0.load(Ordering::Relaxed)).is_ok();
        let due = if sound { self.filter.start(now, slot, &mut bio) } else { Ok(now) };
        let (token, time) = (bio.token(), due.unwrap_or(now));
        let deadline = bio.deadline().filter(|&deadline| deadline < time);
        let (out, times_out) = (due.is_ok(), deadline.is_some());
        self.slots[slot] =
            Slot { out, started: sound, token, due: deadline.unwrap_or(time), barrier, times_out };
        bio.set_token(slot as u64);
        match due {
            Ok(_) => self.below.submit(now, bio),
            Err(fault) => {
                bio.fail(fault);
                self.give_back(slot, bio);
            }
        }
    }

    /// Takes completions from the device. Returns whether any bio is returned to its submitter at once.
    fn collect(&mut self, now: Time) -> bool {
        let (mut any, mut came) = (false, std::mem::take(&mut self.came));
        self.below.take_done(&mut came);
        for mut bio in came.drain(..) {
            let slot = bio.token() as usize;
            if self.slots[slot].started {
                self.filter.end(slot, &mut bio);
            }
            self.slots[slot].out = false;
            let due = self.slots[slot].due;
            if due > now {
                self.kept[slot] = Some(bio);
                self.late.push(Reverse((due, self.turns, slot)));
                self.turns += 1;
            } else {
                any = true;
                self.give_back(slot, bio);
            }
        }
        self.came = came;
        any
    }

    /// Returns held bios whose time has come. Returns whether there was any.
    fn release(&mut self, now: Time) -> bool {
        let mut any = false;
        while let Some(&Reverse((due, _, slot))) = self.late.peek()
            && due <= now
        {
            self.late.pop();
            if let Some(bio) = self.kept[slot].take() {
                any = true;
                self.filter.late(now.since(due));
                self.give_back(slot, bio);
            }
        }
        any
    }

    fn give_back(&mut self, slot: usize, mut bio: Bio) {
        let Slot { token, barrier, times_out, .. } = self.slots[slot];
        bio.set_token(token);
        if times_out {
            bio.fail(Fault::new(Kind::TimedOut, Stage::Layer));
        }
        self.free.push(slot);
        self.give_way();
        match barrier {
            true => self.door.complete_barrier(&mut bio),
            false => self.door.complete(1),
        }
        self.done.push(bio);
    }
}

impl Lane for FilterLane {
    fn submit(&mut self, _now: Time, bio: Bio) {
        self.plug.push(bio);
    }

    fn run(&mut self, now: Time) {
        self.flush_plug();
        loop {
            let started = self.admit(now);
            self.below.run(now);
            let freed = self.collect(now) | self.release(now);
            if !(started || freed) || !self.door.is_holding() {
                return;
            }
        }
    }

    fn take_done(&mut self, out: &mut Vec<Bio>) {
        platter_block::queue::append(out, &mut self.done);
    }

    fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    fn next_wakeup(&self) -> Option<Time> {
        let late = self.late.peek().map(|&Reverse((due, ..))| due);
        let now = (!self.refused && self.door.is_ready()).then_some(Time(0));
        let own = late.into_iter().chain(now).chain(self.door.next_wakeup()).min();
        Time::earliest(self.below.next_wakeup(), own)
    }

    fn unplug(&mut self, now: Time) {
        self.below.unplug(now);
    }

    fn wait(&mut self, now: Time, timeout: Option<Span>) {
        self.sleep(now, timeout, &[]);
    }

    fn sleep(&mut self, now: Time, timeout: Option<Span>, others: &[i32]) {
        self.run(now);
        self.unplug(now);
        self.run(now);
        if !self.has_done() {
            let wakeup = self.next_wakeup().map(|at| at.since(now));
            self.below.sleep(now, timeout.into_iter().chain(wakeup).min(), others);
        }
    }

    fn bell(&self) -> Option<Arc<dyn Bell>> {
        self.below.bell()
    }

    fn wait_handles(&self, out: &mut Vec<i32>) -> bool {
        self.below.wait_handles(out)
    }

    fn in_flight(&self) -> u32 {
        self.below.in_flight()
    }

    fn cancel(&mut self, now: Time, token: u64) {
        self.flush_plug();
        self.door.cancel(token);
        // A held bio can no longer be cancelled: the device has completed it.
        let concerned = self.slots.iter().enumerate().filter(|(_, slot)| slot.out && slot.token == token);
        concerned.for_each(|(slot, _)| self.below.cancel(now, slot as u64));
    }

    fn is_idle(&self) -> bool {
        self.plug.is_empty() && self.door.out() == 0 && !self.door.is_holding() && self.below.is_idle()
    }

    fn lingers(&self) -> bool {
        self.below.lingers()
    }

    fn register(&mut self, region: &Region) {
        self.below.register(region);
    }

    fn unregister(&mut self, region: RegionId) {
        self.below.unregister(region);
    }
}
