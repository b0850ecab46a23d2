//! Switching how hard barriers keep their order, while I/O runs.
//!
//! The switch waits until everything that the queue has admitted has ended, an ordered tag and its repetition included.
//! What is submitted meanwhile is held back, behind what a barrier holds back already, and follows in the new mode. So the
//! device never has requests of both modes.

use super::SchedQueue;
use crate::defect::{self, Defect};
use crate::queue::Ordered;
use crate::time::Time;
use alloc::collections::VecDeque;

impl SchedQueue {
    /// How hard barriers that are submitted from now on keep their order.
    pub fn ordered(&self) -> Ordered {
        self.order.switching.unwrap_or(self.settings.ordered)
    }

    /// Changes how hard barriers keep their order. What has been admitted ends first; what a barrier holds back, and what is
    /// submitted meanwhile, follows in the new mode.
    pub fn switch_ordered(&mut self, now: Time, ordered: Ordered) {
        if ordered == self.ordered() {
            return;
        }
        self.order.switching = Some(ordered);
        self.unplug_for_waiter(now);
        self.finish_switch(now);
        self.note_attention();
    }

    /// Whether a switch waits for the queue to drain.
    pub fn ordered_switch_pending(&self) -> bool {
        self.order.switching.is_some()
    }

    /// Carries out a switch that was asked for, if all that came before it has ended.
    pub(super) fn finish_switch(&mut self, now: Time) {
        if self.order.is_closed_by_barrier() || self.order.tag.is_some() || !self.has_nothing_to_send() {
            return;
        }
        let Some(ordered) = self.order.switching.take() else { return };
        self.settings.ordered = ordered;
        if !defect::is_on(Defect::OrderedSwitchHolds) {
            self.let_in(now);
        }
    }

    /// Whether no request exists or will be made of what was admitted, except those given up. Parents of bios that are held
    /// back may exist.
    fn has_nothing_to_send(&self) -> bool {
        self.table.used() == self.quarantined as usize
            && self.waiting.iter().all(VecDeque::is_empty)
            && self.retries.is_empty()
            && self.paused.is_empty()
            && self.doubts.held.is_empty()
            && !self.order.has_sequences()
    }
}
