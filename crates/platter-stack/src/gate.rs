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

use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering::SeqCst, lock};
use platter_block::bio::{Bio, Flags};
use platter_block::lane::Bell;
use std::collections::VecDeque;
use std::sync::Arc;

/// Bios that nothing may pass.
pub(crate) const BARRIER: Flags = Flags::SOFT_BARRIER.union(Flags::HARD_BARRIER);

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
    cells: Vec<Arc<Cell>>,
    /// Barriers of lanes that are gone, not over yet.
    orphans: Vec<u64>,
}

/// A lane as the others see it.
struct Cell {
    /// Epoch of the oldest bio that is not complete.
    oldest: AtomicU64,
    bell: Option<Arc<dyn Bell>>,
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

    /// Barrier `number` is over, and with it those that nobody is left to see to.
    fn end(&self, number: u64) {
        let mut lanes = self.lanes();
        lanes.orphans.push(number);
        let mut over = self.over.load(SeqCst);
        while let Some(at) = lanes.orphans.iter().position(|&orphan| orphan == over) {
            lanes.orphans.swap_remove(at);
            over += 1;
        }
        self.over.store(over, SeqCst);
        lanes.ring();
    }
}

impl Lanes {
    fn ring(&self) {
        self.cells.iter().filter_map(|cell| cell.bell.as_ref()).for_each(|bell| bell.ring());
    }
}

/// A lane's side of the gate: the bios that wait at it.
pub(crate) struct Door {
    gate: Arc<Gate>,
    cell: Arc<Cell>,
    /// Bios that have their place and may not start, with their epochs; a barrier's is the one behind it.
    held: VecDeque<(u64, Bio)>,
    /// Bios that have started and are not complete.
    out: usize,
    /// Epoch of those.
    epoch: u64,
    /// The barrier among them.
    barrier: Option<u64>,
    /// Whether the cell says that there is something.
    open: bool,
}

impl Door {
    /// A lane's door; `bell` wakes the lane when the gate has opened.
    pub(crate) fn new(gate: &Arc<Gate>, bell: Option<Arc<dyn Bell>>) -> Door {
        let cell = Arc::new(Cell { oldest: AtomicU64::new(NOTHING), bell });
        gate.lanes().cells.push(Arc::clone(&cell));
        let held = VecDeque::new();
        Door { gate: Arc::clone(gate), cell, held, out: 0, epoch: 0, barrier: None, open: false }
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
        let &(epoch, ref bio) = self.held.front()?;
        let over = self.gate.over.load(SeqCst);
        if bio.flags().intersects(BARRIER) {
            let number = epoch - 1;
            if over != number || self.out > 0 {
                return None;
            }
            // All that this lane has is the barrier and what is behind it.
            self.cell.oldest.store(epoch, SeqCst);
            if self.gate.lanes().cells.iter().any(|cell| cell.oldest.load(SeqCst) <= number) {
                return None;
            }
            self.barrier = Some(number);
        } else if over < epoch {
            return None;
        }
        self.epoch = epoch;
        self.out += 1;
        self.held.pop_front().map(|(_, bio)| bio)
    }

    /// So many of those that started are complete.
    #[inline]
    pub(crate) fn complete(&mut self, count: usize) {
        self.out -= count;
        if self.out == 0 {
            self.drained();
        }
    }

    /// The barrier that started, if one has, is complete: the gate opens.
    pub(crate) fn complete_barrier(&mut self) {
        if let Some(number) = self.barrier.take() {
            self.gate.end(number);
        }
        self.complete(1);
    }

    fn drained(&mut self) {
        let left = self.held.front().map(|&(epoch, _)| epoch);
        self.open = left.is_some();
        self.cell.oldest.swap(left.unwrap_or(NOTHING), SeqCst);
        self.gate.ring_barriers();
    }

    /// Wakes the lanes that sleep: something that they share has changed.
    pub(crate) fn ring(&self) {
        self.gate.lanes().ring();
    }

    /// Whether bios wait.
    #[inline]
    pub(crate) fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Bios that have started and are not complete.
    #[inline]
    pub(crate) fn out(&self) -> usize {
        self.out
    }
}

impl Drop for Door {
    /// What the lane had is gone, or goes on without it.
    fn drop(&mut self) {
        let held = self.held.drain(..).filter(|(_, bio)| bio.flags().intersects(BARRIER));
        let numbers: Vec<u64> = held.map(|(epoch, _)| epoch - 1).chain(self.barrier).collect();
        self.cell.oldest.store(NOTHING, SeqCst);
        {
            let mut lanes = self.gate.lanes();
            lanes.cells.retain(|cell| !Arc::ptr_eq(cell, &self.cell));
            lanes.ring();
        }
        numbers.into_iter().for_each(|number| self.gate.end(number));
    }
}
