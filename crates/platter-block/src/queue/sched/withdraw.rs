//! Takes bios out of the shared queue before the driver has them: when they are cancelled or late, and when the device has
//! failed.
//!
//! Elevators have no call to remove a request, and need none: a bio that leaves a request before it starts leaves a
//! placeholder, and the request is dismantled when it is about to start.

use super::order::{DATA, PRE};
use super::{Role, SchedQueue};
use crate::bio::{Bio, Flags};
use crate::fault::Kind;
use crate::queue::family::Parent;
use crate::queue::pause::queue_fault;
use crate::request::{Marks, State};
use crate::time::Time;
use alloc::vec::Vec;

impl SchedQueue {
    /// Takes bios out of requests that have not started, and marks those requests.
    pub(super) fn withdraw_from_requests(&mut self, which: &dyn Fn(&Bio) -> bool, out: &mut Vec<Bio>) {
        let idle: Vec<u32> =
            self.store.table.in_state(State::Queued).chain(self.store.table.in_state(State::Ready)).collect();
        for index in idle {
            let before = out.len();
            self.store.table.for_each_bio_mut(index, |bio| {
                if !bio.flags().contains(Flags::ORPHAN) && which(bio) {
                    out.push(bio.leave_placeholder());
                }
            });
            if out.len() > before && !self.store.table.at(index).marks.contains(Marks::WITHDRAWN) {
                self.store.table.at_mut(index).marks.add(Marks::WITHDRAWN);
                self.withdrawn += 1;
            }
        }
    }

    /// Has a request be dismantled if the one that it is about to absorb would have been: placeholders have no memory.
    #[cold]
    pub(super) fn pass_mark_on(&mut self, survivor: u32, absorbed: u32) {
        let is_marked = |index| self.store.table.at(index).marks.contains(Marks::WITHDRAWN);
        if !is_marked(absorbed) {
            return;
        }
        if is_marked(survivor) {
            self.withdrawn -= 1;
        } else {
            self.store.table.at_mut(survivor).marks.add(Marks::WITHDRAWN);
        }
    }

    /// Ends sequences that have not started: they wait for the flush before their data. One whose data the device has ends with
    /// the flush behind it, and one that a flush in flight serves ends with that flush, without its data. On a device that has
    /// failed no flush starts, so all that wait for one end.
    pub(super) fn withdraw_sequences(&mut self, now: Time, which: &dyn Fn(&Bio) -> bool, why: Kind) {
        let (pending, running) = (core::mem::take(&mut self.order.pending), &self.order.running);
        for &at in running {
            let matching = self.families.get_mut(at).filter(|parent| which(&parent.bio));
            if let Some(Parent { bio, role: Role::Sequence { steps, .. }, .. }) = matching
                && *steps & DATA != 0
            {
                bio.fail(queue_fault(why));
            }
        }
        let mut ended: Vec<u32> = Vec::new();
        for at in pending {
            let ends = self.families.get_mut(at).filter(|parent| which(&parent.bio)).is_some_and(|parent| {
                let waits =
                    self.failed || matches!(parent.role, Role::Sequence { steps, .. } if steps & PRE != 0);
                if waits {
                    parent.bio.fail(queue_fault(why));
                }
                waits
            });
            if ends { &mut ended } else { &mut self.order.pending }.push(at);
        }
        ended.into_iter().for_each(|at| self.advance_sequence(now, at));
    }

    /// Dismantles a request of which bios were withdrawn: their placeholders are dropped, and the others start next, each in a
    /// request of its own.
    pub(super) fn take_apart(&mut self, now: Time, index: u32) {
        self.tell_completed(now, index);
        let (dir, bios) = (self.store.table.at(index).op.dir(), self.store.table.at(index).bios);
        self.withdrawn -= 1;
        if self.store.elevator.is_some() {
            self.store.pool.put(dir);
        }
        self.counters.dismantled.add(1);
        for _ in 0..bios {
            let Some(mut bio) = self.store.table.pop_bio(index) else { break };
            if bio.flags().contains(Flags::ORPHAN) {
                self.keep_spare(bio);
            } else {
                bio.add_flags(Flags::ALONE);
                self.retries.push_back(bio);
            }
        }
        // The slot is free now, and a barrier may have waited for that.
        self.attend(now);
    }
}
