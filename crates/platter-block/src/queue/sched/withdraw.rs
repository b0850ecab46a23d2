//! Takes bios out of a queue before the driver has them: at their deadlines, when they are cancelled, and when
//! nothing can start any more.
//!
//! Elevators have no call to remove a request, and need none: a bio that leaves a request before it starts leaves a
//! placeholder, and the request is dismantled when it is about to start.

use super::{Role, SchedQueue, order};
use crate::bio::{Bio, Flags};
use crate::defect::{self, Defect};
use crate::fault::{Fault, Kind, Stage};
use crate::queue::pause::take_matching;
use crate::request::{Marks, State};
use crate::time::Time;
use alloc::vec::Vec;

impl SchedQueue {
    /// Aborts the bios that match. Those that have not started fail at once with [`Kind::Cancelled`]. For the others,
    /// `ask` is called with the tags of their requests; they are not retried, whatever their result.
    pub fn cancel(&mut self, now: Time, which: &dyn Fn(&Bio) -> bool, ask: &mut dyn FnMut(u32)) {
        self.withdraw(now, which, Kind::Cancelled);
        let started: Vec<u32> = self.table.in_state(State::Started).collect();
        for index in started {
            let mut found = false;
            self.table.for_each_bio_mut(index, |bio| {
                if !bio.flags().contains(Flags::ORPHAN) && !order::is_own_flush(bio) && which(bio) {
                    bio.add_flags(Flags::LAST);
                    found = true;
                }
            });
            // What the device has behind an ordered tag relies on its place.
            if found && !self.table.at(index).flags.contains(Flags::TAGGED) {
                ask(index);
            }
        }
        self.attend(now);
    }

    /// A barrier passes although requests of this queue have not been reported, because the device has completed them
    /// all. If such a request turns out to have failed or to be short, it is not retried, because the retry would
    /// come after the barrier; its bios fail.
    pub fn count_as_complete(&mut self) {
        let started: Vec<u32> = self.table.in_state(State::Started).collect();
        for index in started {
            self.table.for_each_bio_mut(index, |bio| bio.add_flags(Flags::LAST));
        }
    }

    /// The tag of a request that was given up as a whole and not returned by this call before: the driver may be
    /// asked to cancel it.
    pub fn next_given_up(&mut self) -> Option<u32> {
        self.doubts.given_up.pop()
    }

    /// Fails every bio that matches and that the driver does not have.
    #[cold]
    pub(super) fn withdraw(&mut self, now: Time, which: &dyn Fn(&Bio) -> bool, why: Kind) {
        let mut out: Vec<Bio> = Vec::new();
        for list in &mut self.waiting {
            take_matching(list, which, &mut out);
        }
        // The queue's own flush has no submitter: the sequences that wait for it are handled below.
        let of_submitter = |bio: &Bio| !order::is_own_flush(bio) && which(bio);
        take_matching(&mut self.retries, &of_submitter, &mut out);
        self.paused.withdraw(&of_submitter, &mut out);
        take_matching(self.order.held_back_mut(), which, &mut out);
        self.withdraw_from_requests(&of_submitter, &mut out);
        let mut in_doubt: Vec<Bio> = Vec::new();
        take_matching(&mut self.doubts.held, which, &mut in_doubt);
        let kind_in_doubt = if why == Kind::TimedOut { Kind::InDoubt } else { why };
        self.fail_all(now, out, why);
        self.fail_all(now, in_doubt, kind_in_doubt);
        self.withdraw_sequences(now, which, why);
        if self.order.waiting_barrier().is_some_and(which) {
            self.fail_barrier(now, why);
        }
        self.note_attention();
    }

    fn fail_all(&mut self, now: Time, bios: Vec<Bio>, kind: Kind) {
        for mut bio in bios {
            if matches!(kind, Kind::TimedOut | Kind::InDoubt) {
                self.counters.timeouts.add(1);
            }
            bio.fail(Fault::new(kind, Stage::Queue));
            self.finish(now, bio);
        }
    }

    /// Takes bios out of requests that have not started, and marks those requests.
    pub(super) fn withdraw_from_requests(&mut self, which: &dyn Fn(&Bio) -> bool, out: &mut Vec<Bio>) {
        let idle: Vec<u32> =
            self.table.in_state(State::Queued).chain(self.table.in_state(State::Ready)).collect();
        for index in idle {
            let before = out.len();
            self.table.for_each_bio_mut(index, |bio| {
                if !bio.flags().contains(Flags::ORPHAN) && which(bio) {
                    out.push(bio.leave_placeholder());
                }
            });
            if out.len() > before && !self.table.at(index).marks.contains(Marks::WITHDRAWN) {
                self.table.at_mut(index).marks.add(Marks::WITHDRAWN);
                self.withdrawn += 1;
            }
        }
    }

    /// Has a request be dismantled if the one that it is about to absorb would have been: placeholders have no memory.
    #[cold]
    pub(super) fn pass_mark_on(&mut self, survivor: u32, absorbed: u32) {
        let is_marked = |index| self.table.at(index).marks.contains(Marks::WITHDRAWN);
        if !is_marked(absorbed) || defect::is_on(Defect::AbsorbedAsWhole) {
            return;
        }
        if is_marked(survivor) {
            self.withdrawn -= 1;
        } else {
            self.table.at_mut(survivor).marks.add(Marks::WITHDRAWN);
        }
    }

    /// Ends sequences that wait for a flush. What is cancelled has changed nothing, so one whose data the device has carried
    /// out is not: it ends with the flush, as what the driver has ends with the driver's result.
    fn withdraw_sequences(&mut self, now: Time, which: &dyn Fn(&Bio) -> bool, why: Kind) {
        let families = &self.families;
        let may_end = |role: &Role| match role {
            Role::Sequence { steps, .. } => why != Kind::Cancelled || *steps & order::PRE != 0,
            _ => true,
        };
        let matches =
            |at: u32| families.get(at).is_some_and(|parent| which(&parent.bio) && may_end(&parent.role));
        let was_forsaken = self.order.flush_is_forsaken();
        let sequences = self.order.take_sequences(matches);
        // A cancelled sequence is not late, so its flush is not given up.
        if why == Kind::TimedOut && !was_forsaken && self.order.flush_is_forsaken() {
            self.quarantine_flush(now);
        }
        for at in sequences {
            if let Some(parent) = self.families.get_mut(at) {
                parent.bio.fail(Fault::new(why, Stage::Queue));
                if why == Kind::TimedOut {
                    self.counters.timeouts.add(1);
                }
                if let Role::Sequence { steps, .. } = &mut parent.role {
                    *steps = 0;
                }
            }
            self.advance_sequence(now, at);
        }
    }
}
