//! Counts: of the queues that are busy, and of writes.

use super::record::{Counted, Proc};
use super::service::CLASSES;
use platter_block::elevator::{Dir, MayQueue, RequestInfo};

/// Sixteenths of the pool that asynchronous writes and all writes may have: while no queue is raised, and while one is.
const WRITES: [[u64; 2]; 2] = [[8, 12], [3, 6]];

/// Counts of queues. Busy ones have requests or are being served; a weight also counts as long as its queue has requests in
/// the device, but not that of a raised queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Busy {
    pub(super) count: u32,
    pub(super) raised: u32,
    classes: [u32; CLASSES],
    weights: [u32; 8],
}

impl Busy {
    /// Counts a queue as it is now.
    #[inline]
    pub(super) fn update(&mut self, it: &mut Proc) {
        let raised = it.is_raised();
        let weighs = !raised && (it.busy || it.dispatched > 0);
        let new = Counted {
            busy: it.busy,
            raised: it.busy && raised,
            weight: weighs.then_some((it.weight / 10 - 1) as u8),
        };
        let old = core::mem::replace(&mut it.counted, new);
        if old == new {
            return;
        }
        let move_by =
            |count: &mut u32, old: bool, new: bool| *count = *count + u32::from(new) - u32::from(old);
        move_by(&mut self.count, old.busy, new.busy);
        move_by(&mut self.classes[it.class], old.busy, new.busy);
        move_by(&mut self.raised, old.raised, new.raised);
        if let Some(weight) = old.weight {
            self.weights[usize::from(weight)] -= 1;
        }
        if let Some(weight) = new.weight {
            self.weights[usize::from(weight)] += 1;
        }
    }

    /// Whether there is more than one busy queue.
    pub(super) fn several(&self) -> bool {
        self.count > 1
    }

    /// Whether queues are to receive different shares, and not only more than `it`: there are several weights, and a smaller
    /// one than its own, or several classes.
    pub(super) fn differ(&self, it: &Proc) -> bool {
        let mut weights = (0..).zip(&self.weights).filter(|&(_, &n)| n > 0).map(|(weight, _)| weight);
        let (smallest, more) = (weights.next(), weights.next().is_some());
        let has_least = it.counted.weight.is_some() && it.counted.weight == smallest;
        more && !has_least || self.classes.iter().filter(|&&n| n > 0).count() > 1
    }
}

/// Writes that are queued or with the driver.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writes {
    asynchronous: u64,
    all: u64,
    /// Size of the pool.
    pub(super) nr_requests: u64,
}

impl Default for Writes {
    fn default() -> Writes {
        Writes { asynchronous: 0, all: 0, nr_requests: 128 }
    }
}

impl Writes {
    /// A request comes, or goes.
    #[inline]
    pub(super) fn count(&mut self, info: &RequestInfo, change: i64) {
        if info.dir == Dir::Write {
            self.all = self.all.saturating_add_signed(change);
            self.asynchronous = self.asynchronous.saturating_add_signed(if info.sync { 0 } else { change });
        }
    }

    /// Whether there is room for another write.
    pub(super) fn room(&self, sync: bool, raised: bool) -> MayQueue {
        let part = WRITES[usize::from(raised)][usize::from(sync)];
        let used = if sync { self.all } else { self.asynchronous };
        let limit = (self.nr_requests * part / 16).max(1);
        if used < limit { MayQueue::May } else { MayQueue::No }
    }
}
