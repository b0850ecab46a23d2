//! Splits bios that exceed what the device takes in one request.

use super::{Role, SchedQueue};
use crate::bio::Bio;
use crate::fault::{Fault, Kind, Stage};
use crate::queue::family::Parent;
use crate::queue::split::front_bytes;
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
}
