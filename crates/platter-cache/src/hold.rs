//! Pages that are held for the readers that requested them. Otherwise a page read for a reader that is not
//! run at once could be evicted for the next one and be read again, repeatedly.
//!
//! A reader whose lane is never run would keep its page and so a frame that others need. So a hold may be
//! ended if no other frame becomes free for some time.

use super::engine::Engine;
use super::frames::Held;
use super::task::Task;
use platter_block::defect::{self, Defect};
use platter_block::time::{Span, Time};

/// How long a page that was read is held while other tasks need frames.
const LONGEST: Span = Span::from_millis(100);

/// Holds that are checked in one turn.
const LOOKS: usize = 256;

struct Hold {
    held: Held,
    /// Since when another task has needed the frame.
    needed: Option<Time>,
}

/// Identifies a hold, even after it has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct HoldId {
    index: u32,
    generation: u32,
}

/// All holds: at most one per task.
#[derive(Default)]
pub(super) struct Holds {
    list: Vec<(u32, Option<Hold>)>,
    free: Vec<u32>,
    /// Where the next check begins.
    hand: usize,
    /// When the next hold may be ended.
    due: Option<Time>,
}

impl Holds {
    fn add(&mut self, held: Held) -> HoldId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.list.push((0, None));
            self.list.len() as u32 - 1
        });
        let (generation, hold) = &mut self.list[index as usize];
        *hold = Some(Hold { held, needed: None });
        HoldId { index, generation: *generation }
    }

    fn take(&mut self, id: HoldId) -> Option<Held> {
        let (generation, hold) = self.list.get_mut(id.index as usize)?;
        if *generation != id.generation {
            return None;
        }
        let hold = hold.take()?;
        *generation = generation.wrapping_add(1);
        self.free.push(id.index);
        Some(hold.held)
    }

    fn frame(&self, id: HoldId) -> Option<u32> {
        let (generation, hold) = self.list.get(id.index as usize)?;
        hold.as_ref().filter(|_| *generation == id.generation).map(|hold| hold.held.frame())
    }

    /// When a hold may be ended for a task that needs its frame.
    pub(super) fn wakeup(&self) -> Option<Time> {
        self.due
    }
}

impl Engine {
    /// Holds the frame into which a page is read for the task, so that the page is still there when the task
    /// continues.
    pub(super) fn hold_for(&mut self, task: &mut Task, frame: u32) {
        if task.hold.and_then(|id| self.holds.frame(id)) == Some(frame)
            || defect::is_on(Defect::CacheReadersLosePages)
        {
            return;
        }
        self.end_hold(task);
        let held = self.pages.store.hold(frame);
        task.hold = Some(self.holds.add(held));
    }

    /// Ends the hold of a task that has its page or no longer wants it.
    pub(super) fn end_hold(&mut self, task: &mut Task) {
        self.release_hold(task.hold.take());
    }

    /// Ends a hold if it has not ended yet.
    pub(super) fn release_hold(&mut self, hold: Option<HoldId>) {
        if let Some(held) = hold.and_then(|id| self.holds.take(id)) {
            let frame = held.frame();
            self.pages.store.unhold(held);
            self.pages.usable(frame);
        }
    }

    /// Ends old holds for a task that needs a frame which no I/O in flight will free. Returns whether any
    /// frame is held and will become free later.
    pub(super) fn end_old_holds(&mut self, now: Time) -> bool {
        let count = self.holds.list.len();
        let mut due = None;
        for _ in 0..count.min(LOOKS) {
            self.holds.hand = (self.holds.hand + 1) % count;
            let index = self.holds.hand;
            let (generation, hold) = &mut self.holds.list[index];
            let Some(held) = hold else { continue };
            if self.pages.store.is_filling(held.held.frame()) {
                continue;
            }
            let until = *held.needed.get_or_insert(now) + LONGEST;
            if until > now {
                due = Time::earliest(due, Some(until));
                continue;
            }
            let id = HoldId { index: index as u32, generation: *generation };
            if let Some(held) = self.holds.take(id) {
                let frame = held.frame();
                self.pages.store.unhold(held);
                self.pages.usable(frame);
            }
        }
        self.holds.due = due;
        due.is_some()
    }

    /// Whether holds must be checked again, or no task waits for that.
    pub(super) fn holds_are_due(&mut self, now: Time) -> bool {
        if self.holds.due.is_some_and(|at| at > now) {
            return false;
        }
        self.holds.due = None;
        true
    }
}
