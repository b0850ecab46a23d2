//! Write-zeroes on devices that do not support it: the queue writes zeroes.

use super::Queue;
use super::family::{Parent, Role};
use crate::bio::{Bio, Flags, Op};
use crate::segment::{Segment, ZEROES_ALIGN};
use crate::time::Time;

/// Writes of one bio in flight at a time. A bio may be as large as the device, so its writes are made as earlier
/// ones complete.
const AT_ONCE: u32 = 4;

/// Largest size of one such write.
const MOST: u64 = 1 << 20;

impl Queue {
    /// Whether write-zeroes can be carried out as writes.
    fn can_write_zeroes(&self) -> bool {
        self.geometry.limits.memory_align <= ZEROES_ALIGN
    }

    /// Whether a bio needs several requests because the device does not support its operation.
    pub(super) fn is_done_by_writing(&self, bio: &Bio) -> bool {
        bio.op() == Op::WriteZeroes && self.writes_zeroes && self.can_write_zeroes()
    }

    /// The device does not support a bio's operation. Returns the bio if there is no substitute.
    #[cold]
    pub(super) fn replace_unsupported(&mut self, now: Time, bio: Bio) -> Option<Bio> {
        let is_over = bio.flags().intersects(Flags::ORPHAN | Flags::LAST);
        if bio.op() != Op::WriteZeroes || is_over || !self.can_write_zeroes() {
            return Some(bio);
        }
        self.writes_zeroes = true;
        self.write_zeroes(now, bio);
        None
    }

    /// Writes zeroes over the range of a bio, which completes when all of them are written.
    #[cold]
    pub(super) fn write_zeroes(&mut self, now: Time, bio: Bio) {
        self.counters.zeroes_written.add(bio.len());
        let (pos, len) = (bio.pos(), bio.len());
        let at = self.families.insert(Parent::new(bio, 1, Role::Zeroes { pos, len }));
        self.child_done(now, at, Ok(()));
    }

    /// Starts further writes of a bio, up to the number allowed in flight.
    pub(super) fn write_more_zeroes(&mut self, now: Time, at: u32) {
        while let Some(child) = self.next_zeroes(at) {
            self.admit(now, child);
        }
    }

    fn next_zeroes(&mut self, at: u32) -> Option<Bio> {
        let limits = self.geometry.limits;
        let mut child = self.spare_bio();
        let parent = self.families.get_mut(at)?;
        let Role::Zeroes { pos, len } = &mut parent.role else { return None };
        if parent.pending > AT_ONCE || *len == 0 || parent.bio.status().is_err() {
            self.keep_spare(child);
            return None;
        }
        let segments = u64::from(limits.max_segments.max(1)).min(MOST / u64::from(Segment::ZEROES));
        let most = limits.max_bytes_at(Op::Write, *pos).min(segments * u64::from(Segment::ZEROES)).min(MOST);
        let bytes = (*len).min(most);
        child.share_window(&parent.bio);
        child.reset_zeroes(*pos, bytes);
        child.add_flags(Flags::NOMERGE);
        // The zeroes belong to the queue, so no memory is borrowed.
        child.remove_flags(Flags::BORROWED | Flags::ALONE | Flags::SOFT_BARRIER | Flags::HARD_BARRIER);
        child.set_parent(at);
        (*pos, *len) = (*pos + bytes, *len - bytes);
        parent.pending += 1;
        Some(child)
    }
}
