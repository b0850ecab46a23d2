//! A flush on the thread of its caller, which sleeps until it is done anyway: without a driver, a thread of the kernel and the
//! wake-ups between them.

use super::super::flushes::{Ended, Turn};
use super::DiskLane;
use crate::sync::lock;
use platter_block::backend::LaneUse;
use platter_block::bio::{Bio, Flags, Op};
use platter_block::fault::{Fault, Kind, Stage, Status};
use platter_block::time::Time;

/// Errors that say nothing of the disk are tried again, by the queue.
fn ended(status: Status) -> Ended {
    let passes = |fault: Fault| {
        matches!(i32::from(fault.errno), libc::EINTR | libc::EAGAIN | libc::ENOMEM | libc::ECANCELED)
    };
    match status {
        Ok(()) => Ended::Succeeded,
        Err(fault) if passes(fault) => Ended::Undone,
        Err(_) => Ended::Failed,
    }
}

impl DiskLane {
    /// Whether the lane's only bio is a flush that may take as long as the disk does, while nothing special is going on. It is
    /// left in the plug until the thread waits, which it does next.
    #[inline]
    pub(super) fn only_flushes(&self) -> bool {
        self.plug.front().is_some_and(|bio| bio.op() == Op::Flush) && self.may_block()
    }

    #[cold]
    fn may_block(&self) -> bool {
        let plain = |bio: &Bio| bio.deadline().is_none() && !bio.flags().intersects(Flags::ORDERED);
        let is_alone = self.plug.len() == 1 && self.away == 0 && !self.busy && !self.lingers;
        is_alone
            && self.shared.blocking_flush.is_some()
            && self.lane_use == LaneUse::Synchronous
            && self.timeout.is_none()
            && self.shared.scope.is_none()
            && self.shared.gate.look() == self.expected
            && self.plug.iter().all(plain)
            // A trace shows requests, which this is not.
            && lock(&self.shared.sinks).is_none()
    }

    /// Gives the flush to the shared queue: the thread is not going to sleep for it alone.
    pub(super) fn give_flush_away(&mut self, now: Time) {
        if self.only_flushes() {
            self.send_all();
            self.help(now);
        }
    }

    /// Carries out the flush. `false`: it has to go through the shared queue.
    #[cold]
    pub(super) fn flush_here(&mut self, now: Time) -> bool {
        let Some(flush) = self.shared.blocking_flush.clone() else { return false };
        // As for any flush, see `send`.
        let _ = self.shared.extent.look(false, &*self.shared.disk, &self.shared.gate);
        let turn = self.shared.flushes.begin();
        let counters = &self.cell.counters;
        let status = match turn {
            Turn::Queue => return false,
            Turn::Served => {
                counters.flushes_coalesced.add(1);
                Ok(())
            }
            Turn::Flush => {
                counters.flushes.add(1);
                counters.requests.add(1);
                counters.dispatched_in_a_row(0, 1);
                let status = flush(now);
                counters.completions.add(1);
                counters.latency_of(Op::Flush).record(self.shared.clock.now().since(now).0);
                let ended = ended(status);
                self.end_flush(ended, status);
                if ended == Ended::Undone {
                    return false;
                }
                status
            }
        };
        let Some(mut bio) = self.plug.pop_front() else { return true };
        // A given-up write may still change the disk.
        let doubt = self.shared.gate.look().is_doubtful().then_some(Fault::new(Kind::InDoubt, Stage::Queue));
        status.err().or(doubt).into_iter().for_each(|fault| bio.fail(fault));
        self.cell.counters.bios.add(1);
        self.cell.counters.completed(&bio);
        self.failed = self.cell.counters.bios_failed.get();
        self.shared.extent.look_after(std::slice::from_ref(&bio), &*self.shared.disk, &self.shared.gate);
        self.done.push(bio);
        true
    }

    /// A failure is known to the shared queue before another flush can begin.
    fn end_flush(&mut self, ended: Ended, status: Status) {
        let now = self.shared.clock.now();
        if ended == Ended::Failed
            && let Err(fault) = status
        {
            self.shared.with_control(|control| control.queue().flush_failed_elsewhere(now, fault));
        }
        if self.shared.flushes.end(ended) {
            self.help(now);
        }
    }
}
