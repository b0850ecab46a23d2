//! The lanes of a filtered device.
//!
//! A bio keeps its memory on its way. Its token is replaced by the number of a slot that holds the layer's state of
//! the bio, so that the slot is found when the bio comes back. A bio that the device has completed may be held until a time that the filter
//! has set; held bios are ordered by that time.

use super::dues::Dues;
use super::shape::Shape;
use super::{BioView, Filter};
use crate::barrier_gate::BARRIER;
use crate::gated_lane::LayerLane;
use platter_block::bio::{Bio, Flags, Op};
use platter_block::fault::{Fault, Kind, Stage};
use platter_block::lane::{Cancel, Lane};
use platter_block::time::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// The lane of a filter that passes all I/O on.
pub(super) struct PassLane {
    below: Box<dyn Lane>,
    shape: Shape,
    refused: Vec<Bio>,
}

impl PassLane {
    pub(super) fn new(below: Box<dyn Lane>, shape: Shape) -> PassLane {
        PassLane { below, shape, refused: Vec::new() }
    }
}

impl Lane for PassLane {
    fn below(&self) -> Option<&dyn Lane> {
        Some(&*self.below)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Lane> {
        Some(&mut *self.below)
    }

    fn submit(&mut self, now: Time, mut bio: Bio) {
        if let Err(fault) = self.shape.check(&bio) {
            bio.fail(fault);
            return self.refused.push(bio);
        }
        self.shape.enter(&mut bio);
        self.below.submit(now, bio);
    }

    fn take_done(&mut self, out: &mut Vec<Bio>) {
        out.append(&mut self.refused);
        let first = out.len();
        self.below.take_done(out);
        out[first..].iter_mut().for_each(|bio| self.shape.leave(bio));
    }

    fn has_done(&self) -> bool {
        !self.refused.is_empty() || self.below.has_done()
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
    identity: usize,
    due: Time,
    /// It was taken back as this, but the device below had it: it is not held.
    cancelled: Option<Kind>,
    /// The filter's fault, of a barrier in whose place a flush is below.
    fault: Option<Fault>,
    /// It is late, and [`Filter::release`] was called for it: its lane may not be run again, and others wait for its place.
    gave_way: bool,
}

impl Slot {
    fn new(started: bool, token: u64, identity: usize, due: Time) -> Slot {
        Slot { out: false, started, token, identity, due, cancelled: None, fault: None, gave_way: false }
    }
}

/// The lane of a filter that sees bios.
pub(super) struct FilterLane<F> {
    // Dropped first: this waits for the I/O that the driver has.
    below: Box<dyn Lane>,
    filter: F,
    /// [`Filter::keeps_places`]: the device below keeps barriers.
    keeps_places: bool,
    dues: Arc<Dues>,
    shape: Shape,
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// Completed bios that are held, ordered by time and then by completion, with their indexes in `kept`.
    late: BinaryHeap<Reverse<(Time, u64, usize)>>,
    kept: Vec<Option<Bio>>,
    /// Number of bios held so far; orders bios with the same time.
    turns: u64,
    came: Vec<Bio>,
    done: Vec<Bio>,
    /// Bios that have come back of which [`Filter::release`] was called before.
    gave_way: u32,
}

impl<F: Filter> FilterLane<F> {
    pub(super) fn new(below: Box<dyn Lane>, filter: F, shape: Shape, dues: &Arc<Dues>) -> FilterLane<F> {
        FilterLane {
            below,
            keeps_places: filter.keeps_places(),
            filter,
            dues: Arc::clone(dues),
            shape,
            slots: Vec::new(),
            free: Vec::new(),
            late: BinaryHeap::new(),
            kept: Vec::new(),
            turns: 0,
            came: Vec::new(),
            done: Vec::new(),
            gave_way: 0,
        }
    }

    fn start(&mut self, now: Time, mut bio: Bio) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::new(false, 0, 0, now));
            self.kept.push(None);
            self.slots.len() - 1
        });
        let barrier = bio.flags().intersects(BARRIER);
        let (token, identity) = (bio.token(), bio.identity());
        // Whatever reaches the device below must have been shown to the filter: the device may grow before it checks
        // the range of this bio itself.
        let allowed = self.shape.check(&bio).and_then(|()| self.shape.check_range(&bio));
        let sound = allowed.is_ok();
        let due = if sound {
            self.filter.start(now, slot, &mut BioView::new(&mut bio))
        } else {
            allowed.map(|()| now)
        };
        let mut time = due.unwrap_or(now);
        if self.keeps_places {
            time = self.dues.after(now, time, barrier);
        }
        self.slots[slot] = Slot { out: due.is_ok(), ..Slot::new(sound, token, identity, time) };
        bio.set_token(slot as u64);
        match due {
            Ok(_) => {
                self.shape.enter(&mut bio);
                self.below.submit(now, bio);
            }
            Err(fault) if self.keeps_places && barrier && sound => self.substitute(now, slot, bio, fault),
            Err(fault) => {
                bio.fail(fault);
                self.give_back(slot, bio);
            }
        }
    }

    /// Sends a flush as a barrier in the place of one that the filter has failed, which would otherwise order nothing. The
    /// bio fails when the flush has ended.
    #[cold]
    fn substitute(&mut self, now: Time, slot: usize, failed: Bio, fault: Fault) {
        let mut flush = Bio::new(Op::Flush, 0, 0);
        let is_hard = failed.flags().contains(Flags::HARD_BARRIER);
        flush.add_flags(if is_hard { Flags::HARD_BARRIER } else { Flags::SOFT_BARRIER });
        flush.set_token(slot as u64);
        (self.slots[slot].out, self.slots[slot].started) = (true, false);
        self.slots[slot].fault = Some(fault);
        self.kept[slot] = Some(failed);
        self.below.submit(now, flush);
    }

    /// Takes in what the device has completed.
    fn collect(&mut self, now: Time) {
        let mut came = std::mem::take(&mut self.came);
        for mut bio in came.drain(..) {
            let slot = bio.token() as usize;
            if self.keeps_places
                && let Some(mut failed) = self.kept[slot].take()
            {
                // The fault of a flush that has not kept the order says why.
                let own = self.slots[slot].fault.take();
                bio.status().err().or(own).into_iter().for_each(|fault| failed.fail(fault));
                bio = failed;
            } else {
                self.shape.leave(&mut bio);
            }
            if self.slots[slot].started {
                self.filter.end(slot, &mut BioView::new(&mut bio));
            }
            self.slots[slot].out = false;
            let Slot { due, cancelled, .. } = self.slots[slot];
            if let Some(kind) = cancelled.filter(|_| due > now) {
                self.end_early(slot, bio, kind);
            } else if due > now {
                self.kept[slot] = Some(bio);
                self.late.push(Reverse((due, self.turns, slot)));
                self.turns += 1;
            } else {
                self.give_back(slot, bio);
            }
        }
        self.came = came;
    }

    /// Returns held bios whose time has come.
    fn return_due(&mut self, now: Time) {
        while let Some(&Reverse((due, _, slot))) = self.late.peek()
            && due <= now
        {
            self.late.pop();
            if let Some(bio) = self.kept[slot].take() {
                self.filter.late(now.since(due));
                self.give_back(slot, bio);
            }
        }
    }

    /// Returns a bio that would be held, but was taken back. A cancelled one has the result that the device below gave it: a
    /// write that the device has carried out must not be reported as one without effect.
    #[cold]
    fn end_early(&mut self, slot: usize, mut bio: Bio, kind: Kind) {
        if kind == Kind::TimedOut {
            bio.fail(Fault::new(kind, Stage::Layer));
        }
        self.give_back(slot, bio);
    }

    fn give_back(&mut self, slot: usize, mut bio: Bio) {
        bio.set_token(self.slots[slot].token);
        self.gave_way += u32::from(self.slots[slot].gave_way);
        self.free.push(slot);
        self.done.push(bio);
    }
}

impl<F: Filter> Lane for FilterLane<F> {
    fn below(&self) -> Option<&dyn Lane> {
        Some(&*self.below)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Lane> {
        Some(&mut *self.below)
    }

    fn submit(&mut self, now: Time, bio: Bio) {
        self.start(now, bio);
    }

    fn run(&mut self, now: Time) {
        self.below.turn(now, &mut self.came);
        // What is held was completed by the device before what it completes now.
        self.return_due(now);
        self.collect(now);
    }

    fn take_done(&mut self, out: &mut Vec<Bio>) {
        platter_block::queue::append(out, &mut self.done);
    }

    fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    fn next_wakeup(&self) -> Option<Time> {
        let late = self.late.peek().map(|&Reverse((due, ..))| due);
        Time::earliest(self.below.next_wakeup(), late)
    }

    fn cancel(&mut self, now: Time, which: &Cancel) {
        for slot in 0..self.slots.len() {
            let state = &mut self.slots[slot];
            if !which.is_of(state.token, state.identity) {
                continue;
            }
            if state.out {
                state.cancelled = Some(which.kind());
                let is_late = which.kind() == Kind::TimedOut && !self.keeps_places;
                if is_late && !std::mem::replace(&mut state.gave_way, true) {
                    self.filter.release();
                }
                self.below.cancel(now, &which.with_token(slot as u64));
            } else if let Some(bio) = self.kept[slot].take() {
                // The device has completed it: it only waits for its time.
                self.late.retain(|Reverse((.., late))| *late != slot);
                self.end_early(slot, bio, which.kind());
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.free.len() == self.slots.len() && self.below.is_idle()
    }
}

impl<F: Filter> LayerLane for FilterLane<F> {
    fn asks(&self) -> bool {
        true
    }

    fn admits(&mut self) -> bool {
        self.filter.admits()
    }

    fn release(&mut self) -> bool {
        if self.gave_way > 0 {
            self.gave_way -= 1;
            return false;
        }
        self.filter.release()
    }
}
