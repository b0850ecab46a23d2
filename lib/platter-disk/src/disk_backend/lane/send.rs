//! Sends bios of a lane to the shared queue, cancels bios that are not in its own, and flushes on the thread of a caller that sleeps
//! until it is done anyway: without a driver, a thread of the kernel and the wake-ups between them.

use super::super::Shared;
use super::super::control::Outbox;
use super::super::flushes::{Ended, Turn};
use super::super::freeze::lane_of;
use super::DiskLane;
use crate::lock_meter::{Part, Parts};
use crate::sync::{Ordering, lock};
use platter_block::backend::LaneUse;
use platter_block::bio::{Bio, Flags, Op};
use platter_block::fault::{Fault, Stage, Status};
use platter_block::lane::Cancel;
use platter_block::queue::Prebuilt;
use platter_block::time::Time;
use std::sync::Arc;

/// The fault of what is taken back before a queue has it.
fn taken_back(which: &Cancel) -> Fault {
    Fault::new(which.kind(), Stage::Queue)
}

/// Errors that say nothing of the disk are tried again, by the queue.
fn ended(status: Status) -> Ended {
    match status {
        Ok(()) => Ended::Succeeded,
        Err(fault) if fault.is_transient() => Ended::Undone,
        Err(_) => Ended::Failed,
    }
}

impl Outbox {
    /// Puts the bios into the inbox. Returns how many are there then.
    pub(in crate::disk_backend) fn post(&mut self, shared: &Shared) -> u32 {
        let (mut inbox, prebuilt) = (lock(&shared.inbox), self.prebuilt);
        inbox.extend(self.bios.drain(..).map(|bio| (bio, prebuilt)));
        shared.has_inbox.store(true, Ordering::SeqCst);
        inbox.len() as u32
    }
}

impl DiskLane {
    /// Whether a bio flushes the device, which may have only one flush at a time, or has to wait for all lanes.
    fn is_ordered(&self, bio: &Bio) -> bool {
        let (flags, features) = (bio.flags(), &self.shared.geometry.features);
        let by_device = features.fua && bio.op() == Op::Write;
        let barrier = flags.intersects(Flags::BARRIERS);
        bio.op() == Op::Flush
            || barrier
            || flags.contains(Flags::PREFLUSH)
            || (flags.contains(Flags::FUA) && features.write_cache && !by_device)
    }

    /// Gives the plugged bios, which are not common, to the lane's own queue, or to the shared one if they need it.
    #[cold]
    pub(super) fn queue_rest(&mut self, now: Time) {
        let mut closed = false;
        while let Some(bio) = self.plug.pop_front() {
            let Some(bio) = self.check_memory(bio) else { continue };
            if closed || self.is_ordered(&bio) {
                closed |= bio.flags().intersects(Flags::BARRIERS);
                self.send(bio);
            } else if let Some(local) = &mut self.local {
                local.queue.submit_sound(now, bio);
            }
        }
    }

    /// Sends a bio to the shared queue. A barrier freezes the lanes until it has ended: later bios of any lane
    /// go the same way and so queue up behind it.
    fn send(&mut self, mut bio: Bio) {
        if bio.op() == Op::Flush {
            // Data to be made durable may lie beyond the end of a file that was truncated in the meantime.
            let _ = self.shared.extent.look(false, &*self.shared.disk, &self.shared.gate);
        }
        self.shared.gate.freeze_for(&mut bio, self.route);
        self.go_away(1);
        self.post();
        let mut inbox = lock(&self.shared.inbox);
        inbox.push((bio, Prebuilt::NOT));
        self.queued_behind = inbox.len() as u32;
        self.shared.has_inbox.store(true, Ordering::SeqCst);
    }

    /// Counts `bios` more bios in the shared queue. A thread that sleeps while others run the lane (the service
    /// thread) does not listen to that queue if the lane had nothing there, so it is rung.
    fn go_away(&mut self, bios: usize) {
        if self.away == 0 {
            self.cell.mailbox.ring();
        }
        self.away += bios;
    }

    /// Sends all plugged bios to the shared queue. Follow with [`help`](DiskLane::help) or [`post`](DiskLane::post).
    pub(super) fn send_all(&mut self) {
        let mut parts = Parts::begin();
        let (route, mut simple) = (self.route, 0);
        let verdict = self.examiner.examine(self.plug.iter_mut(), |bio| {
            bio.set_route(route);
            simple += 1;
        });
        if self.shared.settings.prebuild {
            parts.end(Part::Prepare);
        }
        if simple > 0 {
            self.go_away(simple);
            self.outbox.prebuilt = verdict;
            match simple == self.plug.len() {
                true => std::mem::swap(&mut self.outbox.bios, &mut self.plug),
                false => self.outbox.bios.extend(self.plug.drain(..simple)),
            }
        }
        while let Some(bio) = self.plug.pop_front() {
            if let Some(bio) = self.check_memory(bio) {
                self.send(bio);
            }
        }
    }

    /// Puts what is on its way to the shared queue into the inbox, where other threads see it.
    pub(super) fn post(&mut self) {
        if !self.outbox.bios.is_empty() {
            self.queued_behind = self.outbox.post(&self.shared);
        }
    }

    /// Cancels bios that have not entered a queue yet.
    pub(super) fn cancel_plugged(&mut self, which: &Cancel) {
        for bio in std::mem::take(&mut self.plug) {
            if which.matches(&bio) {
                self.refuse(bio, taken_back(which));
            } else {
                self.plug.push_back(bio);
            }
        }
    }

    /// Cancels bios in the shared queue or on their way to it.
    #[cold]
    pub(super) fn cancel_away(&mut self, now: Time, what: &Cancel) {
        let (route, shared) = (self.route, Arc::clone(&self.shared));
        let which = |bio: &Bio| what.matches(bio) && lane_of(bio) == route;
        let mut cancelled = Vec::new();
        shared.with_control(|control| {
            let mut inbox = lock(&shared.inbox);
            for (bio, prebuilt) in std::mem::take(&mut *inbox) {
                if which(&bio) { cancelled.push(bio) } else { inbox.push((bio, prebuilt)) }
            }
            drop(inbox);
            if let Some(lane) = control.lane_mut() {
                lane.cancel_where(now, &which, what.kind());
            }
        });
        self.away -= cancelled.len();
        for bio in cancelled {
            shared.gate.thaw_after(&bio);
            self.refuse(bio, taken_back(what));
        }
        self.help(now);
    }

    /// Whether the lane's only bio is a flush that may take as long as the disk does, while nothing special is going on. It is
    /// left in the plug until the thread waits, which it does next.
    #[inline]
    pub(super) fn only_flushes(&self) -> bool {
        self.plug.front().is_some_and(|bio| bio.op() == Op::Flush) && self.may_block()
    }

    #[cold]
    fn may_block(&self) -> bool {
        let plain = |bio: &Bio| !bio.flags().intersects(Flags::ORDERED);
        let is_alone = self.plug.len() == 1 && self.away == 0 && !self.busy;
        is_alone
            && self.shared.blocking_flush.is_some()
            && self.lane_use == LaneUse::Synchronous
            && !self.has_timeouts
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
        status.err().into_iter().for_each(|fault| bio.fail(fault));
        self.cell.counters.bios.add(1);
        self.cell.counters.completed(&bio);
        self.failed = self.cell.counters.bios_failed.get();
        self.shared.extent.look_after(std::slice::from_ref(&bio), &*self.shared.disk, &self.shared.gate);
        self.done.push(bio);
        true
    }

    /// A failure is known to the shared queue before another flush can begin, and no acknowledgement comes in between.
    fn end_flush(&mut self, ended: Ended, status: Status) {
        let (now, shared) = (self.shared.clock.now(), &self.shared);
        let queue_waits = match (ended, status) {
            (Ended::Failed, Err(fault)) => shared.with_control(|control| {
                control.queue().flush_failed_elsewhere(now, fault);
                shared.flushes.end(ended)
            }),
            _ => shared.flushes.end(ended),
        };
        if queue_waits {
            self.help(now);
        }
    }
}
