//! The state of flushes and barriers. The [shared queue](super::SchedQueue) has the steps.

use super::pause::queue_fault;
use super::{Ordered, Rest};
use crate::bio::Bio;
use crate::fault::{Fault, Kind, Stage};
use crate::time::{Span, Time};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Longest time that a flush waits for the data of other sequences, so that it can cover that data too
/// (`FLUSH_PENDING_TIMEOUT`).
const PENDING_TIMEOUT: Span = Span::from_secs(5);

/// A barrier that the device has as an ordered tag.
pub(super) struct Tag {
    /// A request has failed since it was sent: nothing more is sent.
    pub(super) broken: bool,
    /// A step was aborted, or must be repeated for another reason.
    pub(super) redo: bool,
}

#[derive(Default)]
pub(super) struct Order {
    /// Sequences that wait for the next flush, and the time since when they do.
    pub(super) pending: Vec<u32>,
    pub(super) pending_since: Time,
    /// Sequences that the running flush serves.
    pub(super) running: Vec<u32>,
    pub(super) flush_in_flight: bool,
    /// Something else flushes the device; the sequences that wait start when it has ended.
    pub(super) flush_denied: bool,
    /// Sequences whose data is being written.
    pub(super) data_in_flight: u32,
    /// A hard barrier that waits for the queue to drain, and the time since when it does.
    pub(super) barrier: Option<Bio>,
    pub(super) barrier_since: Time,
    /// Until when it waits instead, because nothing was run when its time was over.
    pub(super) barrier_until: Option<Time>,
    /// The waiting barrier must drain: the device has aborted it as an ordered tag.
    pub(super) by_drain: bool,
    /// The barrier that the device has as an ordered tag.
    pub(super) tag: Option<Tag>,
    /// The last ordered tag has failed, and the device may still abort requests behind it. They must be back before
    /// anything else is sent.
    pub(super) settling: bool,
    /// New bios are held back although no barrier waits: a barrier runs, or an ordered tag is on its way that they
    /// must not follow yet.
    pub(super) shut: bool,
    /// Bios submitted after the barrier.
    pub(super) held: VecDeque<Bio>,
    /// Bios that were held back are being admitted.
    pub(super) releasing: bool,
    /// The waiting barrier is soft: it takes its place as soon as other queues have started all their requests.
    pub(super) only_places: bool,
    /// Contents of other queues of the same device.
    pub(super) outside: Rest,
    pub(super) failed: Option<Fault>,
    /// The device has failed and works again: completed writes may be lost, which the next flush tells.
    pub(super) lost: bool,
    /// The mode to switch to once the queue has drained. New bios are held back until then.
    pub(super) switching: Option<Ordered>,
}

impl Order {
    /// Whether new bios must be held back.
    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed_by_barrier() || self.switching.is_some()
    }

    /// Whether they must be held back because of a barrier.
    #[inline]
    pub(super) fn is_closed_by_barrier(&self) -> bool {
        self.shut || self.barrier.is_some()
    }

    /// Whether a barrier has closed the queue or is on its way as an ordered tag.
    pub(super) fn is_watched(&self) -> bool {
        self.is_closed() || self.tag.is_some()
    }

    /// Whether the waiting barrier must wait for other queues.
    pub(super) fn waits_for_outside(&self) -> bool {
        match self.outside {
            Rest::Settled => false,
            Rest::Started => !self.only_places,
            Rest::Waits => true,
        }
    }

    /// The fault of the next flush, if it must not be carried out. Lost writes are told once.
    pub(super) fn flush_fault(&mut self) -> Option<Fault> {
        match self.failed {
            Some(fault) => Some(Fault { kind: Kind::FlushFailed, stage: Stage::Queue, ..fault }),
            None => core::mem::take(&mut self.lost).then_some(queue_fault(Kind::FlushFailed)),
        }
    }

    /// Whether there are bios that are carried out in steps.
    pub(super) fn has_sequences(&self) -> bool {
        self.data_in_flight > 0 || self.flush_in_flight || !self.pending.is_empty()
    }

    /// Number of bios that have not been admitted: the barrier and the bios after it.
    pub(super) fn held_back_len(&self) -> usize {
        usize::from(self.barrier.is_some()) + self.held.len()
    }

    pub(super) fn is_idle(&self) -> bool {
        !self.is_closed() && self.held.is_empty() && self.pending.is_empty() && !self.flush_in_flight
    }

    #[inline]
    pub(super) fn deadline(&self) -> Option<Time> {
        let waits = !self.pending.is_empty() && !self.flush_in_flight && !self.flush_denied;
        waits.then(|| self.pending_since + PENDING_TIMEOUT)
    }

    /// Until when the waiting barrier waits for other queues, if it may wait for `timeout`.
    pub(super) fn barrier_deadline(&self, timeout: Span) -> Option<Time> {
        let waits = self.barrier.is_some() && self.waits_for_outside();
        waits.then(|| self.barrier_until.unwrap_or(self.barrier_since + timeout))
    }
}
