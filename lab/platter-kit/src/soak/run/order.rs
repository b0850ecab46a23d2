//! The order in which a disk gets the writes before and after a barrier.
//!
//! A soft barrier makes nothing durable and waits for nothing; it only keeps its place in the order. Writes before it
//! reach the disk before it, and writes after it reach the disk later, whichever channel they come from.

use super::{Finding, Run};
use crate::soak::Feature;
use crate::soak::plan::Node;
use crate::soak::stamp::{self, SECTOR};
use platter_block::bio::{Flags, Op};
use platter_sim::SimDisk;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Number of the command with which a disk first took each sector of each write.
type Taken = BTreeMap<u64, (u64, u64)>;

/// The writes of a run in the order of their places, and in that in which the disk took them.
#[derive(Clone, Default)]
pub(super) struct Order(Arc<Mutex<Log>>);

#[derive(Default)]
struct Log {
    commands: u64,
    /// By number of the write: the commands that first brought any and that first brought the last of its sectors.
    taken: Taken,
    seen: BTreeMap<(u64, u64), ()>,
    /// Writes and barriers, by the event of their places.
    placed: Vec<(u64, bool)>,
}

impl Order {
    fn lock(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the commands that a disk takes.
    pub(super) fn watch(&self, disk: &SimDisk) {
        let order = self.clone();
        disk.observe(move |command, data| {
            let mut log = order.lock();
            log.commands += 1;
            if command.op == Op::Write {
                data.chunks(SECTOR).filter_map(stamp::parse).for_each(|(id, sector)| log.took(id, sector));
            }
        });
    }

    /// A write or a barrier got its place.
    pub(super) fn placed(&self, id: u64, op: Op, flags: Flags) {
        let barrier = flags.intersects(Flags::SOFT_BARRIER | Flags::HARD_BARRIER);
        if barrier || (op == Op::Write && !flags.contains(Flags::PREFLUSH)) {
            self.lock().placed.push((id, barrier));
        }
    }

    /// The order of a write or barrier is unknown, because it failed or may have been refused before the disk took it.
    pub(super) fn forget(&self, id: u64) {
        self.lock().placed.retain(|&(known, _)| known != id);
    }

    /// Clears all records, because the device was opened again.
    pub(super) fn clear(&self) {
        *self.lock() = Log::default();
    }
}

impl Log {
    fn took(&mut self, id: u64, sector: u64) {
        // A retried write counts from its first attempt.
        if self.seen.insert((id, sector), ()).is_none() {
            let at = self.commands;
            self.taken.entry(id).and_modify(|(_, last)| *last = at).or_insert((at, at));
        }
    }

    /// Two writes on different sides of a barrier that the disk got in the wrong order.
    fn wrong(&self) -> Option<(u64, u64)> {
        // The latest command of the writes before the last barrier, and of those since.
        let (mut before, mut since) = ((0, 0), (0, 0));
        for &(id, barrier) in &self.placed {
            let taken = self.taken.get(&id).copied();
            if barrier {
                before = before.max(since);
            }
            if let Some((first, last)) = taken {
                if first < before.0 {
                    return Some((before.1, id));
                }
                since = since.max((last, id));
            }
            if barrier {
                before = before.max(since);
            }
        }
        None
    }
}

impl Run<'_> {
    /// Whether a soft barrier decides the order in which the disk gets commands: there is one disk, nothing above it holds
    /// back or answers by itself, and all goes through one queue. A disk with an elevator has one; without one each lane
    /// has its own, beside that of flushes and durable writes.
    pub(super) fn orders_commands(&self) -> bool {
        fn plain(node: &Node) -> bool {
            matches!(node.kind(), "disk" | "partition") && node.members().iter().all(plain)
        }
        let on = self.plan.features;
        let elevator = self.plan.disks[0].elevator.is_some() && !on.has(Feature::Switch);
        let others =
            [Feature::Futures, Feature::Calls, Feature::DropLanes, Feature::Durable, Feature::Switch];
        let alone = self.plan.channels == 1 && !others.iter().any(|&feature| on.has(feature));
        // A command that meets a fault of the transport is sent again.
        plain(self.stack()) && (elevator || alone) && !on.has(Feature::Scsi)
    }

    /// Checks the order of commands around barriers since the device was opened.
    pub(super) fn look_for_order(&self) -> Result<(), Finding> {
        match self.order.lock().wrong() {
            Some((early, late)) if self.orders_commands() && !self.judged.dropped => {
                let what = format!("write {late} reached the disk before {early}, which is before a barrier");
                Err(Finding::new("passed", what))
            }
            _ => Ok(()),
        }
    }
}
