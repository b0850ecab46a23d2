//! The frames that are held for readers, by task.

use super::frames::Held;
use platter_block::time::Time;

pub(super) struct Hold {
    pub(super) held: Held,
    /// Since when another task has needed the frame.
    pub(super) needed: Option<Time>,
}

/// Identifies a hold, even after it has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct HoldId {
    pub(super) index: u32,
    pub(super) generation: u32,
}

/// All holds: at most one per task.
#[derive(Default)]
pub(super) struct Holds {
    pub(super) list: Vec<(u32, Option<Hold>)>,
    free: Vec<u32>,
    /// Where the next check begins.
    pub(super) hand: usize,
    /// When the next hold may be ended.
    pub(super) due: Option<Time>,
}

impl Holds {
    pub(super) fn add(&mut self, held: Held) -> HoldId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.list.push((0, None));
            self.list.len() as u32 - 1
        });
        let (generation, hold) = &mut self.list[index as usize];
        *hold = Some(Hold { held, needed: None });
        HoldId { index, generation: *generation }
    }

    pub(super) fn take(&mut self, id: HoldId) -> Option<Held> {
        let (generation, hold) = self.list.get_mut(id.index as usize)?;
        if *generation != id.generation {
            return None;
        }
        let hold = hold.take()?;
        *generation = generation.wrapping_add(1);
        self.free.push(id.index);
        Some(hold.held)
    }

    pub(super) fn frame(&self, id: HoldId) -> Option<u32> {
        let (generation, hold) = self.list.get(id.index as usize)?;
        hold.as_ref().filter(|_| *generation == id.generation).map(|hold| hold.held.frame())
    }

    /// When a hold may be ended for a task that needs its frame.
    pub(super) fn wakeup(&self) -> Option<Time> {
        self.due
    }
}
