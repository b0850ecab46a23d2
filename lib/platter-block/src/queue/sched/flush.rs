//! Flush, FUA, preflush: bios that are carried out in steps, and the flushes that they share.
//!
//! A durable bio is carried out in steps that depend on the device's features (Linux 2.6.37 and later): preflush,
//! data (with FUA if the device supports it), postflush. One flush is in flight at a time; flushes requested during
//! that time share the next one. A barrier is such a sequence, too (`barrier.rs`).

use super::SchedQueue;
use crate::bio::{Bio, Flags, Op};
use crate::fault::{Fault, Status};
use crate::queue::FLUSH;
use crate::queue::body::silence::GONE;
use crate::queue::family::{Parent, Role};
use crate::time::Time;

pub(super) const PRE: u8 = 1;
pub(super) const DATA: u8 = 2;
pub(super) const POST: u8 = 4;

impl SchedQueue {
    /// The flush failure that later flushes repeat, if any.
    pub fn flush_failure(&self) -> Option<Fault> {
        self.order.failed
    }

    /// A flush that something else than this queue made has failed: later ones repeat that.
    pub fn flush_failed_elsewhere(&mut self, now: Time, fault: Fault) {
        self.order.failed = Some(fault);
        self.fail_pending(now);
    }

    /// Whether flushes wait until something else than this queue has flushed the device.
    #[inline]
    pub fn is_denied_flush(&self) -> bool {
        self.order.flush_denied
    }

    /// What else flushed the device has ended: flushes that waited for that start.
    pub fn flush_freed(&mut self, now: Time) {
        if core::mem::take(&mut self.order.flush_denied) {
            self.kick_flush(now);
        }
    }

    /// Accepts that data written before the failed flush may be lost; flushes work again.
    pub fn acknowledge_flush_failure(&mut self) {
        self.order.failed = None;
    }

    pub(super) fn can_fua(&self) -> bool {
        self.geometry.features.fua
    }

    pub(super) fn steps(&self, bio: &Bio, preflush: bool, fua: bool) -> u8 {
        let cache = self.geometry.features.write_cache;
        if bio.op() == Op::Flush {
            return if cache { PRE } else { 0 };
        }
        let pre = if preflush && cache { PRE } else { 0 };
        let by_device = self.can_fua() && bio.op() == Op::Write;
        let post = if fua && cache && !by_device { POST } else { 0 };
        pre | DATA | post
    }

    pub(super) fn start_sequence(&mut self, now: Time, bio: Bio, steps: u8, barrier: bool) {
        let at = self.families.insert(Parent { bio, pending: 0, role: Role::Sequence { steps, barrier } });
        self.advance_sequence(now, at);
    }

    /// Runs the next step of a sequence, or completes it.
    pub(super) fn advance_sequence(&mut self, now: Time, at: u32) {
        let Some(parent) = self.families.get_mut(at) else { return };
        let Role::Sequence { steps, barrier } = &mut parent.role else { return };
        if parent.bio.status().is_err() {
            *steps = 0;
        }
        if *steps != 0 && self.failed {
            parent.bio.fail(GONE);
            return self.advance_sequence(now, at);
        }
        if *steps & PRE != 0 || (*steps & POST != 0 && *steps & DATA == 0) {
            if let Some(fault) = self.order.flush_fault() {
                parent.bio.fail(fault);
                return self.advance_sequence(now, at);
            }
            return self.await_flush(now, at);
        }
        if *steps & DATA != 0 {
            *steps &= !DATA;
            let post = *steps & POST != 0;
            parent.pending = 1;
            return self.write_data(now, at, post);
        }
        let barrier = *barrier;
        let Some(bio) = self.families.release(at) else { return };
        let status = bio.status();
        self.finish(now, bio);
        if barrier {
            self.order.shut = false;
            self.end_barrier(now, status);
        }
    }

    fn write_data(&mut self, now: Time, at: u32, post: bool) {
        self.order.data_in_flight += 1;
        let Some(child) = self.data_of(at, post) else { return };
        self.admit(now, child);
    }

    /// The bio that writes the data of a sequence. `post`: a flush follows.
    pub(super) fn data_of(&mut self, at: u32, post: bool) -> Option<Bio> {
        let mut child = self.spare_bio();
        let parent = self.families.get_mut(at)?;
        child.share_window(&parent.bio);
        let durable = parent.bio.flags().intersects(Flags::FUA | Flags::HARD_BARRIER) && !post;
        child.remove_flags(Flags::ORDERED);
        child.add_flags(Flags::NOMERGE | Flags::SYNC);
        if durable && child.op() == Op::Write && self.geometry.features.write_cache && self.can_fua() {
            child.add_flags(Flags::FUA);
        }
        child.set_parent(at);
        Some(child)
    }

    /// The data step of a sequence has completed.
    pub(super) fn data_done(&mut self, now: Time, at: u32) {
        self.order.data_in_flight -= 1;
        self.advance_sequence(now, at);
        self.kick_flush(now);
    }

    fn await_flush(&mut self, now: Time, at: u32) {
        if self.order.pending.is_empty() {
            self.order.pending_since = now;
        }
        self.order.pending.push(at);
        self.kick_flush(now);
    }

    fn kick_flush(&mut self, now: Time) {
        if self.order.data_in_flight == 0 {
            self.start_flush(now);
        }
        self.order.deadline().into_iter().for_each(|at| self.arm(at));
    }

    /// Sends one flush for all sequences that wait for one.
    pub(super) fn start_flush(&mut self, now: Time) {
        if self.order.flush_in_flight || self.order.pending.is_empty() {
            return;
        }
        self.order.flush_denied = self.watch.as_mut().is_some_and(|watch| !watch.may_flush());
        if self.order.flush_denied {
            return;
        }
        core::mem::swap(&mut self.order.pending, &mut self.order.running);
        self.order.flush_in_flight = true;
        self.counters.flushes.add(1);
        self.counters.flushes_coalesced.add(self.order.running.len() as u64 - 1);
        let mut flush = self.spare_bio();
        flush.add_flags(Flags::NOMERGE | Flags::SYNC);
        flush.set_parent(FLUSH);
        if self.store.elevator.is_some() {
            self.store.pool.take_always(flush.op().dir());
        }
        if let Some(index) = self.make_request(now, flush) {
            self.store.ready.push_front(index);
        }
    }

    /// The flush has completed: every sequence that it served takes its next step, or fails with the flush.
    pub(super) fn flush_done(&mut self, now: Time, status: Status) {
        self.order.flush_in_flight = false;
        self.watch.iter_mut().for_each(|watch| watch.flushed(status));
        if let Err(fault) = status {
            // A flush that was not sent says nothing of the data.
            if fault != GONE {
                self.order.failed = Some(fault);
            }
            self.fail_pending(now);
        }
        let mut served = core::mem::take(&mut self.order.running);
        for at in served.drain(..) {
            if let Some(parent) = self.families.get_mut(at) {
                if let Err(fault) = status {
                    parent.bio.fail(fault);
                }
                if let Role::Sequence { steps, .. } = &mut parent.role {
                    *steps &= if *steps & PRE != 0 { !PRE } else { !POST };
                }
            }
            self.advance_sequence(now, at);
        }
        if self.order.running.is_empty() && !self.order.flush_in_flight {
            self.order.running = served;
        }
        self.kick_flush(now);
    }

    /// A flush failed. The sequences that wait fail too: a new flush could succeed and report lost data as durable.
    #[cold]
    fn fail_pending(&mut self, now: Time) {
        let mut pending = core::mem::take(&mut self.order.pending);
        for at in pending.drain(..) {
            self.advance_sequence(now, at);
        }
        if self.order.pending.is_empty() {
            self.order.pending = pending;
        }
    }
}
