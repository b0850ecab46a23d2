//! Freezing, switching elevators or the order of barriers under load, and broken elevators.
//!
//! The order of barriers is switched when everything that the queue has admitted has ended, an ordered tag and its
//! repetition included. What is submitted meanwhile is held back, behind what a barrier holds back already, and follows in
//! the new mode. So the device never has requests of both modes.

use super::SchedQueue;
use super::pool::PoolStats;
use crate::bio::Bio;
use crate::elevator::{Dir, Elevator, Noop};
use crate::queue::Ordered;
use crate::request::State;
use crate::time::Time;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

impl SchedQueue {
    /// State of the request pool for one direction.
    pub fn pool_stats(&self, dir: Dir) -> PoolStats {
        self.store.pool.stats(dir)
    }

    /// Replaces the elevator. Requests that the old elevator held go to the dispatch list in its order; none
    /// is lost, and none passes through the new one.
    pub fn switch_elevator(&mut self, now: Time, elevator: Option<Box<dyn Elevator>>) {
        self.unplug_for_waiter(now);
        while self.store.queued > 0 {
            let Some(index) = self.choose(now, true) else { break };
            self.store.ready.push_back(index);
        }
        self.store.table.forget_choices();
        let had_elevator = self.store.elevator.is_some();
        self.set_elevator(elevator);
        self.store.elevator_fault = None;
        self.recount_pool(had_elevator);
        let mut waiting: Vec<Bio> = Vec::new();
        self.waiting.iter_mut().for_each(|list| waiting.extend(list.drain(..)));
        for bio in waiting {
            self.enqueue(now, bio);
        }
    }

    /// The pool counts requests only while there is an elevator.
    fn recount_pool(&mut self, had_elevator: bool) {
        if had_elevator == self.store.elevator.is_some() {
            return;
        }
        self.store.pool = super::RequestPool::new(&self.settings);
        if self.store.elevator.is_some() {
            let live: Vec<u32> = self
                .store
                .table
                .in_state(State::Ready)
                .chain(self.store.table.in_state(State::Started))
                .collect();
            for index in live {
                self.store.pool.take_always(self.store.table.at(index).op.dir());
            }
        }
    }

    /// Replaces an elevator that broke its contract with `noop`, which gets all requests still queued.
    #[cold]
    pub(super) fn replace_broken(&mut self, now: Time, what: &str) {
        let name = self.elevator_name();
        self.store.elevator_fault = Some(format!("elevator {name} {what}; noop took over"));
        self.store.table.forget_choices();
        let mut noop = Noop::default();
        noop.reserve(self.store.table.capacity());
        let held: Vec<u32> = self.store.table.in_state(State::Queued).collect();
        for &index in &held {
            noop.insert(now, self.store.table.id(index), &self.store.table.at(index).info());
        }
        self.store.queued = held.len() as u32;
        self.store.elevator = Some(Box::new(noop));
    }
}

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
        self.let_in(now);
    }

    /// Whether no request exists or will be made of what was admitted. Parents of bios that are held
    /// back may exist.
    fn has_nothing_to_send(&self) -> bool {
        self.store.table.used() == 0 && self.nothing_waits() && !self.order.has_sequences()
    }
}
