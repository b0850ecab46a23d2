//! Requests that have timed out while the driver has them, and the ranges that they leave in doubt.

use super::body::{Queue, Store};
use super::doubt::Watch;
use super::ends::is_waited_for;
use crate::bio::{Bio, Flags};
use crate::fault::Kind;
use crate::request::Marks;
use crate::time::Time;
use alloc::boxed::Box;
use alloc::vec::Vec;

impl<S: Store> Queue<S> {
    /// Sets the watch that is told of requests that are given up. The owner of the queue then decides when the queue
    /// is [stuck](Queue::set_stuck).
    pub fn set_watch(&mut self, watch: Option<Box<dyn Watch>>) {
        self.doubts.watch = watch;
    }

    /// The tag of a request that was given up as a whole and not returned by this call before: the driver may be
    /// asked to cancel it.
    pub fn next_given_up(&mut self) -> Option<u32> {
        self.doubts.given_up.pop()
    }

    /// Whether some range of the device is in doubt.
    pub fn is_in_doubt(&self) -> bool {
        self.doubts.exist()
    }

    /// Requests that were given up as a whole and that the driver still has. They keep their places with it.
    #[inline]
    pub fn quarantined(&self) -> u32 {
        self.quarantined
    }

    /// Sets whether given-up requests hold the whole depth of the device. While they do, everything that has not
    /// started fails with [`Kind::Stuck`], and so does every new bio.
    pub fn set_stuck(&mut self, now: Time, stuck: bool) {
        if stuck && !self.stuck {
            self.stuck = true;
            self.withdraw(now, &|_| true, Kind::Stuck);
        }
        self.stuck = stuck;
        self.note_attention();
    }

    /// Without a watch, a queue is stuck when its given-up requests fill its depth.
    pub(super) fn look_whether_stuck(&mut self, now: Time) {
        if self.doubts.watch.is_none() {
            self.set_stuck(now, self.quarantined >= self.settings.depth);
        }
    }

    /// Whether a bio that its request did not complete may be retried.
    pub(super) fn may_restart(&mut self) -> bool {
        let may = self.doubts.watch.as_mut().is_none_or(|watch| watch.may_restart());
        if !may {
            self.count_as_complete();
        }
        may
    }

    /// Whether the driver has borrowed memory.
    pub fn has_borrowed(&mut self) -> bool {
        let lent = |bio: &Bio| bio.flags().contains(Flags::BORROWED) && bio.op().has_data();
        let mut any = false;
        for tag in self.store.tags() {
            self.store.visit(tag, |bio| any |= lent(bio));
        }
        any
    }

    /// Gives up all requests that the driver has, except those over borrowed memory. Ranges that they still change
    /// are in doubt. For an owner that goes away.
    pub fn give_up_all(&mut self, now: Time) {
        self.give_up(now, &|_| true);
    }

    /// Gives up bios that match and that the driver has: they fail with [`Kind::TimedOut`], and their memory stays
    /// with their requests until the driver returns it. Bios over borrowed memory are not given up.
    pub(super) fn give_up(&mut self, now: Time, which: &dyn Fn(&Bio) -> bool) {
        let mut late: Vec<Bio> = Vec::new();
        let in_doubt = self.doubts.own();
        for tag in self.store.tags() {
            self.give_up_of(now, tag, which, &mut late);
        }
        if self.doubts.own() > in_doubt {
            self.attention = true;
            S::doubt_arose(self, now);
        }
        self.look_whether_stuck(now);
        self.fail_all(now, late, Kind::TimedOut);
        self.note_attention();
    }

    /// Gives up the bios of one request that match; adds the bios that their submitters get to `late`.
    fn give_up_of(&mut self, now: Time, tag: u32, which: &dyn Fn(&Bio) -> bool, late: &mut Vec<Bio>) {
        let Queue { store, doubts, families, .. } = self;
        let (before, mut in_doubt, mut all) = (late.len(), false, true);
        store.visit(tag, |bio| {
            if is_waited_for(bio) && which(bio) {
                late.extend(doubts.give_up(families, tag, bio, &mut in_doubt));
            }
            all &= bio.flags().contains(Flags::ORPHAN);
        });
        if in_doubt {
            store.marks(tag).add(Marks::IN_DOUBT);
        }
        if all && late.len() > before {
            self.quarantine(now, tag);
        }
    }

    /// Nothing waits for a request any more. It keeps its place until the driver returns it.
    pub(super) fn quarantine(&mut self, now: Time, tag: u32) {
        self.store.marks(tag).add(Marks::QUARANTINED);
        self.quarantined += 1;
        self.doubts.quarantine(tag);
        self.attention = true;
        S::quarantined(self, now, tag);
    }

    /// The driver has returned a request with these marks; called before anything else is done with it.
    pub(super) fn take_back(&mut self, now: Time, tag: u32, marks: Marks) {
        if marks == Marks::NONE {
            return;
        }
        self.doubts.returned(tag);
        if marks.contains(Marks::QUARANTINED) {
            self.quarantined -= 1;
            self.look_whether_stuck(now);
        }
        if marks.contains(Marks::IN_DOUBT) {
            self.doubts.end(tag);
            self.release_held(now);
        }
    }

    /// Admits the bios that no longer overlap a range in doubt, in the order of their submission.
    pub(super) fn release_held(&mut self, now: Time) {
        for _ in 0..self.doubts.held.len() {
            let Some(bio) = self.doubts.held.pop_front() else { return };
            match self.doubts.concern(&bio) {
                true => self.doubts.held.push_back(bio),
                false => self.admit(now, bio),
            }
        }
    }

    /// A bio of a request that may not start is held if it overlaps a range in doubt, else it starts next, alone.
    pub(super) fn set_aside(&mut self, mut bio: Bio) {
        if self.doubts.concern(&bio) {
            return self.doubts.held.push_back(bio);
        }
        bio.add_flags(Flags::ALONE);
        self.retries.push_back(bio);
    }
}
