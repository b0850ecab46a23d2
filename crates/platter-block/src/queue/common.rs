//! The common bio: one segment of data within all limits, on a queue without an elevator. The values that such a
//! bio is compared against are kept together here, so that the check is short.

use crate::bio::{Bio, Flags, Op};
use crate::driver::Geometry;
use crate::fault::{Fault, Kind, Stage};

pub(super) struct Common {
    /// Whether the queue has no elevator, no trace and no timeout.
    pub(super) possible: bool,
    /// Whether the limits do not depend on position or memory.
    uniform: bool,
    read_only: bool,
    block_mask: u64,
    max_len: u64,
    size: u64,
    /// The largest size that the device has had.
    largest: u64,
    /// End of the last request on the dispatch list: a bio that starts there may merge. Only a hint.
    pub(super) tail: u64,
}

/// Bios with any of these flags take the slow path.
const SPECIAL: Flags = Flags::FUA
    .union(Flags::PREFLUSH)
    .union(Flags::SOFT_BARRIER)
    .union(Flags::HARD_BARRIER)
    .union(Flags::ATOMIC);

impl Common {
    pub(super) fn new(geometry: &Geometry) -> Common {
        let limits = &geometry.limits;
        Common {
            possible: true,
            uniform: limits.segment_boundary == 0 && limits.chunk == 0 && limits.max_segments > 0,
            read_only: geometry.features.read_only,
            block_mask: u64::from(limits.logical_block - 1),
            max_len: u64::from(limits.max_transfer.min(limits.max_segment_size)),
            size: geometry.size,
            largest: geometry.size,
            tail: u64::MAX,
        }
    }

    /// The size of the device has changed.
    pub(super) fn resize(&mut self, size: u64, largest: u64) {
        (self.size, self.largest) = (size, largest);
    }

    /// The fault of a bio past the end of the device: [`Kind::Gone`] if the device was once large enough.
    pub(super) fn past_the_end(&self, bio: &Bio, fault: Fault) -> Fault {
        let was_inside = bio.pos().checked_add(bio.len()).is_some_and(|end| end <= self.largest);
        match fault.kind {
            Kind::OutOfRange if was_inside => Fault::new(Kind::Gone, Stage::Queue),
            _ => fault,
        }
    }

    /// Whether the bio needs no further checks. `false` proves nothing.
    #[inline]
    pub(super) fn covers(&self, bio: &Bio) -> bool {
        let (pos, len) = (bio.pos(), bio.len());
        let misplaced = (pos | len) & self.block_mask;
        let op_fits = bio.op() == Op::Read || (bio.op() == Op::Write && !self.read_only);
        self.possible
            && self.uniform
            && misplaced == 0
            && bio.segment_count() == 1
            && len.wrapping_sub(1) < self.max_len
            && len <= self.size
            && pos <= self.size - len
            && pos != self.tail
            && op_fits
            && !bio.flags().intersects(SPECIAL)
            && bio.deadline().is_none()
    }
}
