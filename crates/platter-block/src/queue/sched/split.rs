//! Splits bios that exceed what the device takes in one request, and writes zeroes on devices that do not support
//! write-zeroes.

use super::{Role, SchedQueue};
use crate::bio::{Bio, Flags, Op};
use crate::fault::{Fault, Kind, Stage};
use crate::queue::family::Parent;
use crate::queue::split::front_bytes;
use crate::queue::zeroes::{AT_ONCE, Zeroes, can_write};
use crate::time::Time;
use crate::trace::{Action, Event};

impl SchedQueue {
    /// Cuts a bio into pieces that fit and admits each; the bio completes when all pieces have.
    #[cold]
    pub(super) fn split(&mut self, now: Time, bio: Bio) {
        if self.is_done_by_writing(&bio) {
            return self.write_zeroes(now, bio);
        }
        let limits = self.geometry.limits;
        let mut front = front_bytes(&limits, &bio);
        if front == bio.len() {
            return self.enqueue(now, bio);
        }
        let mut rest = self.spare_bio();
        rest.share_window(&bio);
        let parent = self.families.insert(Parent::new(bio, 1, Role::Split));
        while front > 0 && front < rest.len() {
            let mut piece = self.spare_bio();
            rest.split_front(front, &mut piece);
            self.note_split(now, &piece, rest.pos());
            self.admit_child(now, piece, parent);
            front = front_bytes(&limits, &rest);
        }
        if front == 0 {
            rest.fail(Fault::new(Kind::BadSegments, Stage::Queue));
            self.families.count_child(parent);
            rest.set_parent(parent);
            self.finish(now, rest);
        } else {
            self.admit_child(now, rest, parent);
        }
        self.child_done(now, parent, Ok(()));
    }

    fn admit_child(&mut self, now: Time, mut child: Bio, parent: u32) {
        self.families.count_child(parent);
        child.set_parent(parent);
        self.enqueue(now, child);
    }

    fn note_split(&mut self, now: Time, piece: &Bio, second: u64) {
        self.counters.splits.add(1);
        if let Some(sink) = &mut self.sink {
            let event = Event { extra: second / 512, ..Event::of_bio(now, Action::Split, piece) };
            sink.event(&event);
        }
    }

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
