//! Freezing, switching elevators under load, and broken elevators.

use super::SchedQueue;
use super::pool::PoolStats;
use crate::bio::Bio;
use crate::elevator::{Dir, Elevator, Noop};
use crate::request::State;
use crate::time::Time;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

impl SchedQueue {
    /// Starts no further request until [`SchedQueue::unfreeze`]; requests with the driver continue.
    pub fn freeze(&mut self) {
        self.frozen = true;
    }

    /// Lets requests start again.
    pub fn unfreeze(&mut self) {
        self.frozen = false;
    }

    /// Whether the queue is frozen.
    pub fn is_frozen(&self) -> bool {
        self.frozen
    }

    /// State of the request pool for one direction.
    pub fn pool_stats(&self, dir: Dir) -> PoolStats {
        self.pool.stats(dir)
    }

    /// Replaces the elevator. Requests that the old elevator held go to the dispatch list in its order; none
    /// is lost, and none passes through the new one.
    pub fn switch_elevator(&mut self, now: Time, elevator: Option<Box<dyn Elevator>>) {
        self.unplug_for_waiter(now);
        while self.queued > 0 {
            let Some(index) = self.choose(now, true) else { break };
            self.ready.push_back(index);
        }
        self.table.forget_choices();
        let had_elevator = self.elevator.is_some();
        self.set_elevator(elevator);
        self.elevator_fault = None;
        self.recount_pool(had_elevator);
        let mut waiting: Vec<Bio> = Vec::new();
        self.waiting.iter_mut().for_each(|list| waiting.extend(list.drain(..)));
        for bio in waiting {
            self.enqueue(now, bio);
        }
    }

    /// The pool counts requests only while there is an elevator.
    fn recount_pool(&mut self, had_elevator: bool) {
        if had_elevator == self.elevator.is_some() {
            return;
        }
        self.pool = super::RequestPool::new(self.settings.nr_requests);
        if self.elevator.is_some() {
            let live: Vec<u32> =
                self.table.in_state(State::Ready).chain(self.table.in_state(State::Started)).collect();
            for index in live {
                self.pool.take_always(self.table.at(index).op.dir());
            }
        }
    }

    /// Replaces an elevator that broke its contract with `noop`, which gets all requests still queued.
    #[cold]
    pub(super) fn replace_broken(&mut self, now: Time, what: &str) {
        let name = self.elevator_name();
        self.elevator_fault = Some(format!("elevator {name} {what}; noop took over"));
        self.table.forget_choices();
        let mut noop = Noop::default();
        noop.reserve(self.table.capacity());
        let held: Vec<u32> = self.table.in_state(State::Queued).collect();
        for &index in &held {
            noop.insert(now, self.table.id(index), &self.table.at(index).info());
        }
        self.queued = held.len() as u32;
        self.elevator = Some(Box::new(noop));
    }
}
