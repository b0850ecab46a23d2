//! Splits bios that exceed what the device takes in one request.

use super::Queue;
use super::family::{Parent, Role};
use crate::bio::{Bio, Op};
use crate::fault::{Fault, Kind, Stage};
use crate::limits::Limits;
use crate::time::Time;
use crate::trace::{Action, Event};

/// Bytes at the front of a bio without data that one request can take, at most `most`. Discards are cut at a
/// multiple of the discard granularity if the range contains one.
fn front_of_range(limits: &Limits, bio: &Bio, most: u64) -> u64 {
    if most == bio.len() {
        return most;
    }
    let unit = u64::from(limits.discard_granularity);
    let end = bio.pos() + most;
    if bio.op() == Op::Discard && unit != 0 && end - end % unit > bio.pos() {
        return most - end % unit;
    }
    most - most % u64::from(limits.logical_block)
}

/// Bytes at the front of `bio` that one request can take: all of it, or a number at which it can be cut; 0 if
/// not even one block fits into the allowed number of segments.
pub(super) fn front_bytes(limits: &Limits, bio: &Bio) -> u64 {
    let most = limits.max_bytes_at(bio.op(), bio.pos()).min(bio.len());
    if !bio.op().has_data() {
        return front_of_range(limits, bio, most);
    }
    let (mut bytes, mut room) = (0u64, limits.max_segments);
    for segment in bio.segments() {
        let left = u32::try_from(most - bytes).unwrap_or(u32::MAX);
        limits.for_each_piece(segment.slice(0, left), |piece| {
            // If a segment has more pieces than there is room for, its first pieces are taken.
            bytes += if room > 0 { u64::from(piece.len()) } else { 0 };
            room = room.saturating_sub(1);
        });
        if room == 0 || bytes == most {
            break;
        }
    }
    if bytes == bio.len() { bytes } else { bytes - bytes % limits.cut_unit() }
}

impl Queue {
    /// Whether a bio certainly fits into one request, by cheap tests only.
    #[inline]
    pub(super) fn fits(&self, bio: &Bio) -> bool {
        let limits = &self.geometry.limits;
        bio.op() != Op::WriteZeroes
            && bio.len() <= u64::from(limits.max_segment_size)
            && limits.segment_boundary == 0
            && bio.segment_count() <= limits.max_segments
            && bio.len() <= limits.max_bytes_at(bio.op(), bio.pos())
    }

    /// Checks whether the device can carry out an atomic write as one request.
    pub(super) fn check_atomic(&self, bio: &Bio) -> Result<(), Fault> {
        let (limits, len) = (&self.geometry.limits, bio.len());
        let fault = |kind| Err(Fault::new(kind, Stage::Queue));
        if bio.op() != Op::Write || len > u64::from(limits.atomic_write) {
            return fault(Kind::Unsupported);
        }
        if !len.is_power_of_two() || !bio.pos().is_multiple_of(len) {
            return fault(Kind::Misaligned);
        }
        if front_bytes(limits, bio) < len { fault(Kind::BadSegments) } else { Ok(()) }
    }

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
            self.count_child(parent);
            rest.set_parent(parent);
            self.finish(now, rest);
        } else {
            self.admit_child(now, rest, parent);
        }
        self.child_done(now, parent, Ok(()));
    }

    fn count_child(&mut self, parent: u32) {
        if let Some(parent) = self.families.get_mut(parent) {
            parent.pending += 1;
        }
    }

    fn admit_child(&mut self, now: Time, mut child: Bio, parent: u32) {
        self.count_child(parent);
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
}
