//! Which dirty pages are written back next.

use super::super::frames::Store;
use super::{FAILED, FILLING, FrameInfo, NONE, PageTable, WRITING, version};
use crate::dirty::Due;
use crate::order::{Fate, Place};
use platter_block::time::Time;

/// Entries set aside that are checked in one search.
const ASIDE_LOOKS: usize = 64;

impl PageTable {
    /// Moves the entries of the oldest dirty pages that can be written back to `out`, as far as they are `due`. Returns whether there may be more behind `looks` entries, of which some have left
    /// their order, and how many entries of pages that cannot be written were checked.
    pub(in super::super) fn choose(
        &mut self,
        now: Time,
        looks: usize,
        out: &mut Vec<Place>,
        due: Due,
    ) -> (bool, usize) {
        let (by_age, passed) = self.choose_oldest(now, looks, out, due);
        let again = self.choose_aside(now, out, due);
        (by_age || again, passed)
    }

    fn choose_oldest(&mut self, now: Time, looks: usize, out: &mut Vec<Place>, due: Due) -> (bool, usize) {
        let oldest = self.dirty.oldest_epoch();
        let (store, infos, reserved) = (&self.store, &self.infos, &self.reserved);
        let (mut later, mut aside) = (std::mem::take(&mut self.later), std::mem::take(&mut self.aside));
        let mut left = 0;
        let has_more = self.dirty.order.take(looks, out, |place| {
            let (page, _, since) = place;
            let Some(info) = live(store, infos, place) else {
                left += 1;
                return Fate::Dropped;
            };
            // Those behind a page of a later epoch are of later epochs, too.
            if due.since.is_none_or(|at| since > at) || info.epoch != oldest {
                return Fate::Stays;
            }
            if info.is(FAILED) || reserved.is_closed(page) {
                left += 1;
                aside.push(place);
                return Fate::Dropped;
            }
            if waits(info) {
                later.push(place);
                return Fate::Dropped;
            }
            Fate::Taken
        });
        let passed = later.len() + left;
        later.drain(..).rev().for_each(|place| self.dirty.order.put_back(place));
        self.later = later;
        self.set_aside(aside, now);
        (has_more && left > 0, passed)
    }

    fn choose_aside(&mut self, now: Time, out: &mut Vec<Place>, due: Due) -> bool {
        let (store, infos, reserved) = (&self.store, &self.infos, &self.reserved);
        let (mut aside, mut stale) = (std::mem::take(&mut self.aside), 0);
        let has_more = self.dirty.aside.take(ASIDE_LOOKS, out, |place| {
            let (page, _, since) = place;
            let Some(info) = live(store, infos, place) else {
                stale += 1;
                return Fate::Dropped;
            };
            if due.aside.is_none_or(|at| since > at) {
                return Fate::Stays;
            }
            if waits(info) || reserved.is_closed(page) {
                aside.push(place);
                return Fate::Dropped;
            }
            Fate::Taken
        });
        self.set_aside(aside, now);
        has_more && stale > 0
    }

    fn set_aside(&mut self, mut places: Vec<Place>, now: Time) {
        places.drain(..).for_each(|(page, seq, _)| self.dirty.set_aside(page, seq, now));
        self.aside = places;
    }

    /// Puts a dirty version aside that takes over what could not be written of the older one, so that it is tried again as soon as
    /// others that have failed. Returns its sequence number. It has two entries until it is written.
    pub(super) fn bring_back(&mut self, newer: u32, now: Time) -> u32 {
        let (page, seq) = (self.store.page(newer), self.info(newer).seq);
        self.dirty.set_aside(page, seq, now);
        seq
    }

    /// Whether a dirty page may be written back now.
    pub(in super::super) fn may_write(&self, frame: u32) -> bool {
        let info = self.info(frame);
        info.dirty != 0
            && !info.is(WRITING)
            && !waits(info)
            && info.epoch == self.dirty.oldest_epoch()
            && !self.reserved.is_closed(self.store.page(frame))
    }
}

/// The state of the version that an entry stands for; `None` if the entry is stale, as it is while the version is being written.
fn live<'i>(store: &Store, infos: &'i [FrameInfo], (page, seq, _): Place) -> Option<&'i FrameInfo> {
    let frame = version(store, infos, page, seq)?;
    Some(&infos[frame as usize]).filter(|info| !info.is(WRITING))
}

/// Whether a dirty page can only be written when an I/O in flight has ended.
fn waits(info: &FrameInfo) -> bool {
    info.older != NONE || info.is(FILLING)
}
