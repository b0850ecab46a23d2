//! The gate of a layer that stands on several lanes: what keeps barriers across members and across lanes.
//!
//! Barriers are numbered in the order in which they take their places. A bio takes its place when the plug of
//! its lane is flushed and gets as its epoch the number of barriers before it. It may start once so many are
//! over; barrier k may start once k are over and nothing of an epoch up to k is left on any lane. So all that
//! is under way at a time is of one epoch, and a lane has to tell the others only the epoch of the oldest
//! bio it has.
//!
//! A lane publishes that before it looks at the number of barriers, and a barrier takes its number before it
//! looks at the lanes, both sequentially consistent: at least one of the two sees the other (Dekker's
//! argument, as in the gate of a disk).
//!
//! **Barriers that fail.** A barrier that no other barrier's end has brought nearer for [`BARRIER_TIMEOUT`] fails with
//! [`Kind::LaneStalled`]. Its own lane may notice that, or a lane that holds bios behind it, so that a lane that is not
//! run stops the others for no longer than that. A barrier also fails when its deadline passes, or when the device could
//! not carry it out because something timed out. All bios that are held behind it then fail with [`Kind::Cancelled`],
//! barriers among them: the numbers up to the last one given out are over, and each lane finds the range of epochs that
//! failed in its seat (`Seat::failed`) before it starts anything that it held.

use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering::SeqCst, lock};
use platter_block::bio::{Bio, Flags};
use platter_block::defect::{self, Defect};
use platter_block::fault::{Fault, Kind, Stage};
use platter_block::lane::Bell;
use platter_block::time::{Span, Time};
use std::collections::VecDeque;
use std::sync::Arc;

/// Bios that nothing may pass.
pub(crate) const BARRIER: Flags = Flags::SOFT_BARRIER.union(Flags::HARD_BARRIER);

/// How long a barrier may wait for bios of other lanes, and bios for a barrier.
pub(crate) const BARRIER_TIMEOUT: Span = Span::from_secs(30);

/// What a lane publishes when it has nothing.
const NOTHING: u64 = u64::MAX;

/// One per device.
pub(crate) struct Gate {
    /// Barriers that have their place.
    placed: AtomicU64,
    /// Barriers that are over: the first so many.
    over: AtomicU64,
    lanes: Mutex<Lanes>,
}

#[derive(Default)]
struct Lanes {
    seats: Vec<Seat>,
    /// Lanes that were opened so far.
    opened: u64,
    /// Barriers that are not over yet and that no lane will end: of lanes that are gone, and failed ones.
    orphans: Vec<u64>,
    /// Why the last barrier failed that waited too long.
    blame: Option<String>,
}

/// A lane in the list of all.
struct Seat {
    cell: Arc<Cell>,
    /// What the lane holds and has failed. Of several failures before the lane looks this is all in one: it has placed
    /// nothing since the first.
    failed: Option<Failed>,
}

/// Bios that have failed with a barrier before them.
#[derive(Clone, Copy)]
struct Failed {
    /// The barrier, and how it failed.
    number: u64,
    kind: Kind,
    /// Bios of later epochs up to this one fail with it.
    last: u64,
}

/// A lane as the others see it.
struct Cell {
    /// Epoch of the oldest bio that is not complete.
    oldest: AtomicU64,
    /// Not 0: there is something in the seat's `failed`.
    has_failed: AtomicU64,
    bell: Option<Arc<dyn Bell>>,
    /// Which lane it is, for errors.
    name: String,
}

impl Default for Gate {
    fn default() -> Gate {
        Gate { placed: AtomicU64::new(0), over: AtomicU64::new(0), lanes: Mutex::new(Lanes::default()) }
    }
}

impl Gate {
    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        lock(&self.lanes)
    }

    /// A lane says that it has nothing any more of what it said it had: a barrier may have waited for just that.
    fn ring_barriers(&self) {
        if self.placed.load(SeqCst) != self.over.load(SeqCst) {
            self.lanes().ring();
        }
    }

    /// Barrier `number` is over, and with it those that no lane will end. `false`: it was already, because it failed.
    fn end(&self, number: u64) -> bool {
        let mut lanes = self.lanes();
        if number < self.over.load(SeqCst) || lanes.orphans.contains(&number) {
            return false;
        }
        lanes.orphans.push(number);
        self.advance(&mut lanes);
        lanes.ring();
        true
    }

    /// Counts the barriers that are over.
    fn advance(&self, lanes: &mut Lanes) {
        let mut over = self.over.load(SeqCst);
        while let Some(at) = lanes.orphans.iter().position(|&orphan| orphan == over) {
            lanes.orphans.swap_remove(at);
            over += 1;
        }
        self.over.store(over, SeqCst);
    }

    /// Barrier `number` has failed, and with it all that is held behind it on any lane. `false`: it was over.
    fn fail(&self, number: u64, kind: Kind, blame: impl FnOnce(&Lanes) -> Option<String>) -> bool {
        let mut lanes = self.lanes();
        if number < self.over.load(SeqCst) || lanes.orphans.contains(&number) {
            return false;
        }
        if let Some(blame) = blame(&lanes) {
            lanes.blame = Some(blame);
        }
        // A number for no barrier, so that what takes its place from now on can be told from what fails.
        let last = self.placed.fetch_add(1, SeqCst);
        let failed: Vec<u64> = (number..=last).filter(|number| !lanes.orphans.contains(number)).collect();
        lanes.orphans.extend(failed);
        for seat in &mut lanes.seats {
            let before = seat.failed.filter(|before| before.number < number);
            seat.failed = Some(Failed { last, ..before.unwrap_or(Failed { number, kind, last }) });
            // Before the gate opens: a lane that sees it open sees this.
            seat.cell.has_failed.store(1, SeqCst);
        }
        self.advance(&mut lanes);
        lanes.ring();
        true
    }

    /// Why the last barrier failed that waited too long.
    pub(crate) fn blame(&self) -> Option<String> {
        self.lanes().blame.clone()
    }
}

impl Lanes {
    fn ring(&self) {
        self.seats.iter().filter_map(|seat| seat.cell.bell.as_ref()).for_each(|bell| bell.ring());
    }

    /// What barrier `number` waits for: lanes with bios from before it.
    fn culprits(&self, number: u64) -> String {
        let busy = |seat: &&Seat| seat.cell.oldest.load(SeqCst) <= number;
        let names: Vec<&str> = self.seats.iter().filter(busy).map(|seat| seat.cell.name.as_str()).collect();
        match &names[..] {
            [] => "the lane that sent the barrier is not run".to_owned(),
            [one] => format!("{one} has bios that are not complete"),
            [one, rest @ ..] => format!("{one} and {} more have bios that are not complete", rest.len()),
        }
    }
}

/// A lane's side of the gate: the bios that wait at it.
pub(crate) struct Door {
    gate: Arc<Gate>,
    cell: Arc<Cell>,
    /// Bios that have their place and may not start, with their epochs; a barrier's is the one behind it.
    held: VecDeque<(u64, Bio)>,
    /// Held bios that have failed.
    failed: Vec<Bio>,
    /// Bios that have started and are not complete.
    out: usize,
    /// Epoch of those.
    epoch: u64,
    /// The barrier among them.
    barrier: Option<u64>,
    /// Whether the cell says that there is something.
    open: bool,
    /// How many barriers were over when what is held first had to wait for another lane, and when that was.
    waits: Option<(u64, Time)>,
}

impl Door {
    /// A lane's door; `bell` wakes the lane when the gate has opened.
    pub(crate) fn new(gate: &Arc<Gate>, bell: Option<Arc<dyn Bell>>) -> Door {
        let mut lanes = gate.lanes();
        lanes.opened += 1;
        let thread = std::thread::current();
        let by = thread.name().map_or_else(|| format!("{:?}", thread.id()), |name| format!("\"{name}\""));
        let cell = Arc::new(Cell {
            oldest: AtomicU64::new(NOTHING),
            has_failed: AtomicU64::new(0),
            bell,
            name: format!("lane {}, opened by thread {by},", lanes.opened),
        });
        lanes.seats.push(Seat { cell: Arc::clone(&cell), failed: None });
        drop(lanes);
        Door {
            gate: Arc::clone(gate),
            cell,
            held: VecDeque::new(),
            failed: Vec::new(),
            out: 0,
            epoch: 0,
            barrier: None,
            open: false,
            waits: None,
        }
    }

    /// Whether bios that take their places now may all start at once. `true`: `count` of them have, barriers
    /// must not be among them.
    #[inline]
    pub(crate) fn pass(&mut self, count: usize) -> bool {
        let epoch = self.enter();
        let may = self.held.is_empty() && epoch == self.epoch && self.gate.over.load(SeqCst) >= epoch;
        if may {
            self.out += count;
        }
        may
    }

    /// Publishes that there is something, and gives the epoch of what comes now.
    #[inline]
    fn enter(&mut self) -> u64 {
        let mut epoch = self.gate.placed.load(SeqCst);
        if self.open {
            return epoch;
        }
        self.cell.oldest.swap(epoch, SeqCst);
        let again = self.gate.placed.load(SeqCst);
        if again != epoch {
            epoch = self.enter_again(again);
        }
        self.open = true;
        self.epoch = epoch;
        epoch
    }

    /// Barriers came while the lane published the epoch before them, and may wait now for what it does not have.
    #[cold]
    fn enter_again(&self, mut epoch: u64) -> u64 {
        loop {
            self.cell.oldest.swap(epoch, SeqCst);
            let again = self.gate.placed.load(SeqCst);
            if again == epoch {
                break;
            }
            epoch = again;
        }
        self.gate.ring_barriers();
        epoch
    }

    /// Gives a bio its place behind what the lane has.
    pub(crate) fn place(&mut self, bio: Bio) {
        // What has failed so far must be known before something takes a place that is not concerned.
        self.collect_failed();
        let mut epoch = self.enter();
        // A barrier is of an epoch of its own between the two; that before it is good enough to publish.
        let mut oldest = epoch;
        if bio.flags().intersects(BARRIER) {
            oldest = self.gate.placed.fetch_add(1, SeqCst);
            epoch = oldest + 1;
        }
        if self.out == 0 && self.held.is_empty() && self.cell.oldest.load(SeqCst) < oldest {
            // Others' barriers came after the lane had entered, and before this: it has nothing that they wait for.
            self.cell.oldest.swap(oldest, SeqCst);
            self.gate.ring_barriers();
        }
        self.held.push_back((epoch, bio));
    }

    /// The next bio that may start, if one may.
    pub(crate) fn next(&mut self) -> Option<Bio> {
        loop {
            let &(epoch, ref bio) = self.held.front()?;
            let over = self.gate.over.load(SeqCst);
            let barrier = bio.flags().intersects(BARRIER).then(|| epoch - 1);
            if over < epoch && barrier != Some(over) {
                return None;
            }
            // What opened the gate may be that a barrier failed.
            if self.collect_failed() {
                continue;
            }
            if let Some(number) = barrier {
                if self.out > 0 {
                    return None;
                }
                // All that this lane has is the barrier and what is behind it.
                self.cell.oldest.store(epoch, SeqCst);
                let is_before = |seat: &Seat| seat.cell.oldest.load(SeqCst) <= number;
                if self.gate.lanes().seats.iter().any(is_before) {
                    return None;
                }
            }
            // One that has failed may still be out.
            self.barrier = barrier.or(self.barrier);
            self.epoch = epoch;
            self.waits = None;
            self.out += 1;
            return self.held.pop_front().map(|(_, bio)| bio);
        }
    }

    /// Moves held bios that failed with a barrier before them to the failed ones. Whether there were any.
    fn collect_failed(&mut self) -> bool {
        if self.cell.has_failed.load(SeqCst) == 0 {
            return false;
        }
        let mut lanes = self.gate.lanes();
        self.cell.has_failed.store(0, SeqCst);
        let seat = lanes.seats.iter_mut().find(|seat| Arc::ptr_eq(&seat.cell, &self.cell));
        let range = seat.and_then(|seat| seat.failed.take());
        drop(lanes);
        let Some(Failed { number, kind, last }) = range else { return false };
        let before = self.failed.len();
        for (epoch, mut bio) in std::mem::take(&mut self.held) {
            if number < epoch && epoch <= last {
                let own = epoch == number + 1 && bio.flags().intersects(BARRIER);
                bio.fail(at_gate(if own { kind } else { Kind::Cancelled }));
                self.failed.push(bio);
            } else {
                self.held.push_back((epoch, bio));
            }
        }
        self.settle();
        self.failed.len() > before
    }

    /// Fails held bios whose deadline has come, and the barrier that has kept the lane waiting for too long. To be called
    /// whenever the lane is run and [is holding](Door::is_holding), after what may start has.
    pub(crate) fn expire(&mut self, now: Time) {
        self.collect_failed();
        let is_late = |(_, bio): &(u64, Bio)| bio.deadline().is_some_and(|at| at <= now);
        while let Some(at) = self.held.iter().position(is_late) {
            let (epoch, bio) = &self.held[at];
            if bio.flags().intersects(BARRIER) && self.gate.fail(epoch - 1, Kind::TimedOut, |_| None) {
                self.collect_failed();
                continue;
            }
            self.take_out(at, Kind::TimedOut);
        }
        let Some(&(epoch, ref bio)) = self.held.front() else { return };
        let over = self.gate.over.load(SeqCst);
        let own_barrier = bio.flags().intersects(BARRIER) && epoch == over + 1;
        // A bio that is before all barriers that are not over waits for its own lane, as does a barrier for the bios
        // of its own.
        if over >= epoch || (own_barrier && self.out > 0) || defect::is_on(Defect::LayerBarrierNeverFails) {
            self.waits = None;
            return;
        }
        match self.waits {
            Some((then, since)) if then == over => {
                if now.since(since) >= BARRIER_TIMEOUT {
                    self.waits = None;
                    let blame = |lanes: &Lanes| {
                        Some(format!(
                            "a barrier waited for {} s: {}",
                            BARRIER_TIMEOUT.as_millis() / 1000,
                            lanes.culprits(over)
                        ))
                    };
                    self.gate.fail(over, Kind::LaneStalled, blame);
                    self.collect_failed();
                }
            }
            _ => self.waits = Some((over, now)),
        }
    }

    /// Takes a held bio out, which fails. The number of a barrier is over when its turn comes.
    fn take_out(&mut self, at: usize, kind: Kind) {
        let Some((epoch, mut bio)) = self.held.remove(at) else { return };
        if bio.flags().intersects(BARRIER) {
            self.gate.end(epoch - 1);
        }
        bio.fail(at_gate(kind));
        self.failed.push(bio);
        self.settle();
    }

    /// Fails held bios with a token, on the submitter's demand.
    pub(crate) fn cancel(&mut self, token: u64) {
        while let Some(at) = self.held.iter().position(|(_, bio)| bio.token() == token) {
            self.take_out(at, Kind::Cancelled);
        }
    }

    /// Held bios that have failed: they go back to their submitter.
    pub(crate) fn take_failed(&mut self, out: &mut Vec<Bio>) {
        out.append(&mut self.failed);
    }

    /// Whether a run would start or fail a held bio now, as far as the gate is concerned.
    pub(crate) fn is_ready(&self) -> bool {
        let Some(&(epoch, ref bio)) = self.held.front() else { return !self.failed.is_empty() };
        if self.cell.has_failed.load(SeqCst) != 0 || !self.failed.is_empty() {
            return true;
        }
        let over = self.gate.over.load(SeqCst);
        if !bio.flags().intersects(BARRIER) {
            return over >= epoch;
        }
        let is_before =
            |seat: &Seat| !Arc::ptr_eq(&seat.cell, &self.cell) && seat.cell.oldest.load(SeqCst) < epoch;
        over + 1 == epoch && self.out == 0 && !self.gate.lanes().seats.iter().any(is_before)
    }

    /// When held bios have to be looked at although nothing changes.
    pub(crate) fn next_wakeup(&self) -> Option<Time> {
        let deadline = self.held.iter().filter_map(|(_, bio)| bio.deadline()).min();
        Time::earliest(deadline, self.waits.map(|(_, since)| since + BARRIER_TIMEOUT))
    }

    /// So many of those that started are complete.
    #[inline]
    pub(crate) fn complete(&mut self, count: usize) {
        self.out -= count;
        if self.out == 0 {
            self.drained();
        }
    }

    /// The barrier that started is complete: the gate opens. If it timed out, or other lanes would not wait for it any
    /// longer, it fails with all that was held behind it.
    pub(crate) fn complete_barrier(&mut self, bio: &mut Bio) {
        if let Some(number) = self.barrier.take() {
            let was_due = match bio.status().map_err(|fault| fault.kind) {
                Err(kind @ (Kind::TimedOut | Kind::InDoubt | Kind::Stuck | Kind::LaneStalled)) => {
                    self.gate.fail(number, kind, |_| None)
                }
                _ => self.gate.end(number),
            };
            if !was_due {
                // Other lanes have not waited for it, and may have started what was behind it.
                bio.fail(at_gate(Kind::LaneStalled));
            }
        }
        self.complete(1);
    }

    fn drained(&mut self) {
        let left = self.held.front().map(|&(epoch, _)| epoch);
        self.open = left.is_some();
        self.cell.oldest.swap(left.unwrap_or(NOTHING), SeqCst);
        self.gate.ring_barriers();
    }

    /// What was held first may have gone.
    fn settle(&mut self) {
        self.waits = None;
        if self.out == 0 {
            self.drained();
        }
    }

    /// Wakes the lanes that sleep: something that they share has changed.
    pub(crate) fn ring(&self) {
        self.gate.lanes().ring();
    }

    /// Whether bios wait, or have failed and are to be taken.
    #[inline]
    pub(crate) fn is_holding(&self) -> bool {
        !self.held.is_empty() || !self.failed.is_empty()
    }

    /// Bios that have started and are not complete.
    #[inline]
    pub(crate) fn out(&self) -> usize {
        self.out
    }
}

fn at_gate(kind: Kind) -> Fault {
    Fault::new(kind, Stage::Layer)
}

impl Drop for Door {
    /// What the lane had is gone, or goes on without it.
    fn drop(&mut self) {
        let held = self.held.drain(..).filter(|(_, bio)| bio.flags().intersects(BARRIER));
        let numbers: Vec<u64> = held.map(|(epoch, _)| epoch - 1).chain(self.barrier).collect();
        self.cell.oldest.store(NOTHING, SeqCst);
        {
            let mut lanes = self.gate.lanes();
            lanes.seats.retain(|seat| !Arc::ptr_eq(&seat.cell, &self.cell));
            lanes.ring();
        }
        for number in numbers {
            self.gate.end(number);
        }
    }
}
