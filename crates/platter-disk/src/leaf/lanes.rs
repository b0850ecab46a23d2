//! What a leaf knows of its lanes, and how bios find back to them.

use super::{Busy, Mailbox};
use crate::sync::{Mutex, lock};
use platter_block::bio::Bio;
use platter_block::counters::{Counters, Snapshot};
use platter_block::lane::Bell;
use std::sync::Arc;

/// A lane as the leaf sees it.
pub(super) struct LaneCell {
    pub(super) busy: Busy,
    pub(super) mailbox: Mailbox,
    pub(super) counters: Arc<Counters>,
}

impl Bell for LaneCell {
    fn ring(&self) {
        self.mailbox.nudge();
    }
}

/// A place in the list. The number of a place is the route of its lane's bios.
enum Slot {
    Free,
    Open(Arc<LaneCell>),
    /// The lane is gone, and the place not free before its last bio has come back.
    Closing(Arc<LaneCell>),
}

struct List {
    slots: Vec<Slot>,
    /// Counters of lanes that are gone.
    retired: Snapshot,
}

pub(super) struct Lanes(Mutex<List>);

impl Lanes {
    pub(super) fn new() -> Lanes {
        Lanes(Mutex::new(List { slots: Vec::new(), retired: Snapshot::default() }))
    }

    /// A new lane and its route.
    pub(super) fn add(&self, counters: Arc<Counters>) -> (Arc<LaneCell>, u32) {
        let cell = Arc::new(LaneCell { busy: Busy::new(), mailbox: Mailbox::new(), counters });
        let mut list = lock(&self.0);
        let free = list.slots.iter().position(|slot| matches!(slot, Slot::Free));
        let route = free.unwrap_or_else(|| {
            list.slots.push(Slot::Free);
            list.slots.len() - 1
        });
        list.slots[route] = Slot::Open(Arc::clone(&cell));
        (cell, route as u32)
    }

    /// A lane goes away while `away` of its bios are in the shared queue or on their way back from it.
    pub(super) fn remove(&self, route: u32, away: usize) {
        let mut list = lock(&self.0);
        let List { slots, retired } = &mut *list;
        let Some(slot) = slots.get_mut(route as usize) else { return };
        let Slot::Open(cell) = std::mem::replace(slot, Slot::Free) else { return };
        retired.add(&cell.counters);
        let (mail, all) = cell.mailbox.close(away);
        if !all {
            *slot = Slot::Closing(cell);
        }
        drop(list);
        // Buffers may be anything; they are not dropped with the lock held.
        drop(mail);
    }

    /// Brings a bio back to its lane.
    pub(super) fn post(&self, route: u32, bio: Bio) {
        let cell = match lock(&self.0).slots.get(route as usize) {
            Some(Slot::Open(cell) | Slot::Closing(cell)) => Arc::clone(cell),
            _ => return,
        };
        if cell.mailbox.put(bio)
            && let Some(slot) = lock(&self.0).slots.get_mut(route as usize)
        {
            *slot = Slot::Free;
        }
    }

    pub(super) fn any_busy(&self) -> bool {
        self.each(|cell| cell.busy.is_busy())
    }

    /// Wakes those that sleep.
    pub(super) fn ring_all(&self) {
        self.each(|cell| {
            cell.mailbox.ring();
            false
        });
    }

    /// Visits the open lanes until one says `true`.
    fn each(&self, mut visit: impl FnMut(&LaneCell) -> bool) -> bool {
        lock(&self.0).slots.iter().any(|slot| match slot {
            Slot::Open(cell) => visit(cell),
            _ => false,
        })
    }

    /// Sum of the counters of all lanes there ever were.
    pub(super) fn counters(&self) -> Snapshot {
        let list = lock(&self.0);
        let mut sum = list.retired.clone();
        for slot in &list.slots {
            if let Slot::Open(cell) = slot {
                sum.add(&cell.counters);
            }
        }
        sum
    }
}
