//! Write-zeroes on devices that do not support it: a queue writes zeroes.

use crate::bio::{Bio, Flags, Op};
use crate::limits::Limits;
use crate::segment::{Segment, ZEROES_ALIGN};

/// Writes of one bio in flight at a time. A bio may be as large as the device, so its writes are made as earlier
/// ones complete.
///
/// Example: write-zeroes over 10 MiB starts four writes of 1 MiB. Each that completes starts the next one; the bio completes with the tenth.
pub(super) const AT_ONCE: u32 = 4;

/// Largest size of one such write.
const MOST: u64 = 1 << 20;

/// The part of a range over which zeroes have not been written yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Zeroes {
    pub(super) pos: u64,
    pub(super) len: u64,
}

/// Whether write-zeroes can be carried out as writes on a device with these limits.
pub(super) fn can_write(limits: &Limits) -> bool {
    limits.memory_align <= ZEROES_ALIGN
}

impl Zeroes {
    /// All of a bio.
    pub(super) fn of(bio: &Bio) -> Zeroes {
        Zeroes { pos: bio.pos(), len: bio.len() }
    }

    /// Makes `child` the next write on behalf of `parent`, number `at`.
    pub(super) fn next(&mut self, limits: &Limits, (parent, at): (&Bio, u32), child: &mut Bio) {
        let segments = u64::from(limits.max_segments.max(1)).min(MOST / u64::from(Segment::ZEROES));
        let most =
            limits.max_bytes_at(Op::Write, self.pos).min(segments * u64::from(Segment::ZEROES)).min(MOST);
        let bytes = self.len.min(most);
        child.share_window(parent);
        child.reset_zeroes(self.pos, bytes);
        child.add_flags(Flags::NOMERGE);
        // The zeroes belong to the queue, so no memory is borrowed.
        child.remove_flags(Flags::BORROWED | Flags::ALONE | Flags::BARRIERS);
        child.set_parent(at);
        (self.pos, self.len) = (self.pos + bytes, self.len - bytes);
    }
}
