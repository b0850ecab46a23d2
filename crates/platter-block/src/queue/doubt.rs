//! Ranges in doubt: ranges that a given-up request may still change.
//!
//! A changing request whose bios have timed out is still with the driver, so its data may reach the disk at any later
//! time, over newer data. Until the driver returns it, nothing that overlaps it is started. Requests are checked when
//! they are about to start, because every request passes that point, however it was queued, merged or retried.

use super::NO_PARENT;
use super::family::Families;
use crate::bio::{Bio, Flags};
use crate::fault::Status;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Receives the events of requests that were given up while the driver has them, for devices of several queues, whose
/// other queues must know. Called before the queue returns the bios that were given up.
pub trait Watch: Send {
    /// A request may still change the `len` bytes at `pos`.
    fn in_doubt(&mut self, tag: u32, pos: u64, len: u64);

    /// A request was given up as a whole. It keeps its place with the driver.
    fn quarantined(&mut self, tag: u32);

    /// The driver has returned a request that an earlier call reported.
    fn returned(&mut self, tag: u32);

    /// A request has failed or is short, and the queue would retry it or its bios. `false`: a barrier has passed
    /// because the device has completed everything that the driver had. Neither this request nor any other of those
    /// may be retried; their bios fail.
    fn may_restart(&mut self) -> bool {
        true
    }

    /// The queue would flush the device. `false`: something else is flushing it; [`SchedQueue::flush_freed`] is called when
    /// that has ended.
    ///
    /// [`SchedQueue::flush_freed`]: super::SchedQueue::flush_freed
    fn may_flush(&mut self) -> bool {
        true
    }

    /// The flush that the queue was last admitted to has ended.
    fn flushed(&mut self, status: Status) {
        let _ = status;
    }
}

struct Range {
    tag: u32,
    pos: u64,
    end: u64,
}

/// The ranges in doubt of a queue, the bios that wait for them, and the watch that is told of them.
#[derive(Default)]
pub(super) struct Doubts {
    own: Vec<Range>,
    /// Ranges of other queues: first byte, and byte past the last.
    outside: Vec<(u64, u64)>,
    /// Bios that overlap a range in doubt.
    pub(super) held: VecDeque<Bio>,
    pub(super) watch: Option<Box<dyn Watch>>,
    /// Given-up requests that the driver has not been asked to cancel yet.
    pub(super) given_up: Vec<u32>,
}

impl Doubts {
    #[inline]
    pub(super) fn exist(&self) -> bool {
        !self.own.is_empty() || !self.outside.is_empty()
    }

    /// Number of ranges of the queue's own requests.
    pub(super) fn own(&self) -> usize {
        self.own.len()
    }

    /// Sets the ranges of other queues.
    pub(super) fn set_outside(&mut self, ranges: impl Iterator<Item = (u64, u64)>) {
        self.outside.clear();
        self.outside.extend(ranges);
    }

    /// Whether a bio may read or change what is in doubt.
    pub(super) fn concern(&self, bio: &Bio) -> bool {
        let (pos, end) = bio.reach();
        self.overlap(pos, end)
    }

    pub(super) fn overlap(&self, pos: u64, end: u64) -> bool {
        self.own.iter().any(|range| range.pos < end && pos < range.end)
            || self.outside.iter().any(|range| range.0 < end && pos < range.1)
    }

    /// Gives up a bio of request `tag` that the driver has, and returns the bio that its submitter gets in its place;
    /// `None` if its memory is borrowed. `in_doubt` is set if the request may still change the device.
    pub(super) fn give_up(
        &mut self,
        families: &mut Families,
        tag: u32,
        bio: &mut Bio,
        in_doubt: &mut bool,
    ) -> Option<Bio> {
        let ((pos, end), changes) = (bio.reach(), bio.changes());
        let late = if !bio.op().has_data() {
            bio.leave_placeholder()
        } else if !bio.flags().contains(Flags::BORROWED) {
            let face = bio.abandon();
            if families.lends_memory(face.parent()) {
                families.orphaned(face.parent());
            } else {
                bio.set_parent(NO_PARENT);
            }
            face
        } else {
            return None;
        };
        if changes {
            *in_doubt = true;
            self.own.push(Range { tag, pos, end });
            self.watch.iter_mut().for_each(|watch| watch.in_doubt(tag, pos, end - pos));
        }
        Some(late)
    }

    /// Nothing waits for a request any more.
    pub(super) fn quarantine(&mut self, tag: u32) {
        self.given_up.push(tag);
        self.watch.iter_mut().for_each(|watch| watch.quarantined(tag));
    }

    /// The driver has returned a request that was given up in part or as a whole.
    pub(super) fn returned(&mut self, tag: u32) {
        self.given_up.retain(|&other| other != tag);
        self.watch.iter_mut().for_each(|watch| watch.returned(tag));
    }

    /// The driver has returned a request that was in doubt. The bios that it held up can be released.
    pub(super) fn end(&mut self, tag: u32) {
        self.own.retain(|range| range.tag != tag);
    }
}
