//! Pages that are held for the readers that requested them. Otherwise a page read for a reader that is not
//! run at once could be evicted for the next one and be read again, repeatedly.
//!
//! A reader whose lane is never run would keep its page and so a frame that others need. So a hold may be
//! ended if no other frame becomes free for some time.

use super::engine::Engine;
use super::holds::HoldId;
use super::task::Task;
use platter_block::time::{Span, Time};

/// How long a page that was read is held while other tasks need frames.
const LONGEST: Span = Span::from_millis(100);

/// Holds that are checked in one turn.
const LOOKS: usize = 256;

impl Engine {
    /// Holds the frame into which a page is read for the task, so that the page is still there when the task
    /// continues.
    pub(super) fn hold_for(&mut self, task: &mut Task, frame: u32) {
        if task.hold.and_then(|id| self.holds.frame(id)) == Some(frame) {
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
