//! Write-zeroes on devices that do not support it: the queue writes zeroes.

use super::{Role, SchedQueue};
use crate::bio::{Bio, Flags, Op};
use crate::queue::family::Parent;
use crate::queue::zeroes::{AT_ONCE, Zeroes, can_write};
use crate::time::Time;

impl SchedQueue {
    /// Whether a bio needs several requests because the device does not support its operation.
    pub(super) fn is_done_by_writing(&self, bio: &Bio) -> bool {
        bio.op() == Op::WriteZeroes && self.writes_zeroes && can_write(&self.geometry.limits)
    }

    /// The device does not support a bio's operation. Returns the bio if there is no substitute.
    #[cold]
    pub(super) fn replace_unsupported(&mut self, now: Time, bio: Bio) -> Option<Bio> {
        let is_over = bio.flags().intersects(Flags::ORPHAN | Flags::LAST);
        if bio.op() != Op::WriteZeroes || is_over || !can_write(&self.geometry.limits) {
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
        let role = Role::Zeroes(Zeroes::of(&bio));
        let at = self.families.insert(Parent::without_memory(bio, 1, role));
        self.child_done(now, at, Ok(()));
    }

    /// Starts further writes of a bio, up to the number allowed in flight.
    pub(super) fn write_more_zeroes(&mut self, now: Time, at: u32) {
        while let Some(child) = self.next_zeroes(at) {
            self.admit(now, child);
        }
    }

    fn next_zeroes(&mut self, at: u32) -> Option<Bio> {
        let mut child = self.spare_bio();
        let parent = self.families.get_mut(at)?;
        let Role::Zeroes(zeroes) = &mut parent.role else { return None };
        if parent.pending > AT_ONCE || zeroes.len == 0 || parent.bio.status().is_err() {
            self.keep_spare(child);
            return None;
        }
        zeroes.next(&self.geometry.limits, (&parent.bio, at), &mut child);
        parent.pending += 1;
        Some(child)
    }
}
