//! Recent reads that belong to no stream.

use super::keys::Keys;
use super::pos_of;
use crate::readahead::Access;

/// A read that continued nothing.
#[derive(Clone, Copy, Debug)]
struct Once {
    /// Its first byte.
    pos: u64,
    /// The page after its last.
    end: u64,
    /// Distance to the nearest earlier read, in bytes, if this one began behind it; 0 if there was none.
    step: i64,
    /// It continued one of the last reads itself ([`Seen::follows`]).
    follows: bool,
}

/// How many of the latest reads [`Seen::follows`] compares with. In a region that holds n reads a random one continues one of
/// them by chance with probability 4 / n, and twice in a row with probability 16 / n².
const LAST: usize = 4;

/// An empty slot.
const NOTHING: Once = Once { pos: u64::MAX, end: u64::MAX, step: 0, follows: false };

/// Relation of a read to an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Match {
    /// It continues where the earlier one ended.
    Forward,
    /// It is this many bytes behind (negative: before) the earlier one, and further reads at this distance are
    /// expected.
    Steps(i64),
}

/// The last reads that continued nothing, in a ring, with indexes of what is looked up in it.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    ring: Vec<Once>,
    capacity: usize,
    next: usize,
    by_pos: Keys,
    by_end: Keys,
    /// By the position at which the next read is expected if the step is repeated.
    by_next: Keys,
    /// Positions and slots, in order.
    order: Vec<(u64, usize)>,
}

impl Seen {
    pub(super) fn new(capacity: usize) -> Seen {
        let keys = || Keys::new(capacity);
        Seen {
            ring: Vec::with_capacity(capacity),
            capacity,
            next: 0,
            by_pos: keys(),
            by_end: keys(),
            by_next: keys(),
            order: Vec::with_capacity(capacity),
        }
    }

    /// The relation of a read, whose `page` is missing with `before` cached pages before it, to the reads seen. The
    /// read that it continues is forgotten.
    pub(super) fn find(&mut self, access: &Access, page: u64, before: u32) -> Option<Match> {
        let pos = pos_of(access);
        if let Some(slot) = self.continued(pos, page.saturating_sub(u64::from(before)), page) {
            self.forget(slot);
            return Some(Match::Forward);
        }
        let (slot, step) = self.repeated(pos, access.len)?;
        self.forget(slot);
        Some(Match::Steps(step))
    }

    /// Whether a missing page is the next after one of the last reads; and whether that was one such itself.
    pub(super) fn follows(&self, page: u64) -> Option<bool> {
        let newest =
            if self.ring.len() < self.capacity { self.ring.len() } else { self.next + self.capacity };
        let last = (newest.saturating_sub(LAST)..newest).rev().map(|slot| &self.ring[slot % self.capacity]);
        last.filter(|once| once.end == page).map(|once| once.follows).max()
    }

    /// The first slot of a read that ends at one of some pages and does not begin at `pos`.
    fn continued(&self, pos: u64, first: u64, last: u64) -> Option<usize> {
        let is_it = |slot: usize| {
            let once = &self.ring[slot];
            (first..=last).contains(&once.end) && once.pos != pos
        };
        if last - first >= self.ring.len() as u64 {
            return (0..self.ring.len()).find(|&slot| is_it(slot));
        }
        (first..=last).filter_map(|end| self.by_end.slots(end).filter(|&slot| is_it(slot)).min()).min()
    }

    /// The slot of a read from which one at `pos` is at the distance of a step, with that distance: the last whose step is
    /// repeated, or else the first that begins where this read ends.
    fn repeated(&self, pos: u64, len: u64) -> Option<(usize, i64)> {
        let end = pos.saturating_add(len);
        let is_behind = |slot: usize| len > 0 && self.ring[slot].pos == end;
        let expects = |slot: usize| {
            let once = &self.ring[slot];
            once.step != 0 && once.pos.checked_add_signed(once.step) == Some(pos)
        };
        let again = self.by_next.slots(pos).filter(|&slot| expects(slot) && !is_behind(slot)).max();
        if let Some(slot) = again {
            return Some((slot, self.ring[slot].step));
        }
        let slot = self.by_pos.slots(end).filter(|&slot| is_behind(slot)).min()?;
        Some((slot, -i64::try_from(len).ok()?))
    }

    /// Empties a slot, which is reused when its turn comes.
    fn forget(&mut self, slot: usize) {
        let once = std::mem::replace(&mut self.ring[slot], NOTHING);
        if once.end == NOTHING.end {
            return;
        }
        self.by_pos.remove(slot, once.pos);
        self.by_end.remove(slot, once.end);
        self.by_next.remove(slot, once.pos.wrapping_add_signed(once.step));
        if let Ok(at) = self.order.binary_search(&(once.pos, slot)) {
            self.order.remove(at);
        }
    }

    /// Remembers a read in the slot of the oldest.
    pub(super) fn remember(&mut self, access: &Access, follows: bool) {
        let pos = pos_of(access);
        let once = Once { pos, end: access.end(), step: self.step_to(pos), follows };
        let slot = if self.ring.len() < self.capacity {
            self.ring.push(NOTHING);
            self.ring.len() - 1
        } else {
            let slot = self.next;
            self.next = (slot + 1) % self.capacity;
            self.forget(slot);
            slot
        };
        self.ring[slot] = once;
        self.by_pos.insert(slot, pos);
        self.by_end.insert(slot, once.end);
        self.by_next.insert(slot, pos.wrapping_add_signed(once.step));
        let at = self.order.partition_point(|&entry| entry < (pos, slot));
        self.order.insert(at, (pos, slot));
    }

    /// The distance to `pos` from the nearest read that begins elsewhere; 0 if there is none.
    fn step_to(&self, pos: u64) -> i64 {
        let before = self.order.partition_point(|&(other, _)| other < pos);
        let after = self.order[before..].iter().find(|&&(other, _)| other > pos);
        let lower = before.checked_sub(1).map(|at| self.order[at].0);
        let lower = lower.map(|low| self.order[self.order.partition_point(|&(other, _)| other < low)]);
        // Of two that are as near, that in the first slot.
        let nearest = lower.iter().chain(after).min_by_key(|(other, slot)| (other.abs_diff(pos), *slot));
        let Some(&(other, _)) = nearest else { return 0 };
        let Ok(distance) = i64::try_from(other.abs_diff(pos)) else { return 0 };
        if pos > other { distance } else { -distance }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readahead::PAGE;
    use proptest::prelude::*;

    /// The same, by looking at all of them.
    struct Plain {
        ring: Vec<Once>,
        capacity: usize,
        next: usize,
    }

    impl Plain {
        fn find(&mut self, access: &Access, page: u64, before: u32) -> Option<Match> {
            let pos = pos_of(access);
            let mut steps = None;
            for (slot, once) in self.ring.iter().enumerate() {
                if (page.saturating_sub(u64::from(before))..=page).contains(&once.end) && once.pos != pos {
                    self.ring[slot] = NOTHING;
                    return Some(Match::Forward);
                }
                if pos.saturating_add(access.len) == once.pos && access.len > 0 {
                    steps = steps.or(Some((slot, -i64::try_from(access.len).unwrap())));
                } else if once.step != 0 && once.pos.checked_add_signed(once.step) == Some(pos) {
                    steps = Some((slot, once.step));
                }
            }
            let (slot, step) = steps?;
            self.ring[slot] = NOTHING;
            Some(Match::Steps(step))
        }

        fn remember(&mut self, access: &Access) {
            let pos = pos_of(access);
            let others = self.ring.iter().filter(|once| once.end != u64::MAX && once.pos != pos);
            let nearest = others.min_by_key(|once| once.pos.abs_diff(pos));
            let step = nearest.map_or(0, |once| pos.cast_signed() - once.pos.cast_signed());
            let once = Once { pos, end: access.end(), step, follows: false };
            if self.ring.len() < self.capacity {
                return self.ring.push(once);
            }
            self.ring[self.next] = once;
            self.next = (self.next + 1) % self.capacity;
        }
    }

    #[test]
    fn the_last_reads_are_those_that_can_be_continued() {
        let mut seen = Seen::new(6);
        for round in 0..20 {
            let first = 100 * round;
            assert_eq!(seen.follows(first), None);
            seen.remember(&Access::new(first * PAGE, PAGE), false);
            assert_eq!(seen.follows(first + 1), Some(false));
            seen.remember(&Access::new((first + 1) * PAGE, PAGE), true);
            assert_eq!(seen.follows(first + 2), Some(true));
            // Three others may come between.
            (0..3).for_each(|other| seen.remember(&Access::new((5000 + 10 * other) * PAGE, PAGE), false));
            assert_eq!(seen.follows(first + 2), Some(true));
            seen.remember(&Access::new(9000 * PAGE, PAGE), false);
            assert_eq!(seen.follows(first + 2), None);
        }
    }

    proptest! {
        #[test]
        fn what_the_indexes_find_is_what_a_search_finds(
            capacity in 1..40usize,
            reads in prop::collection::vec((0..400u64, 0..5u64, 0..6u32, any::<bool>()), 1..400),
        ) {
            let mut seen = Seen::new(capacity);
            let mut plain = Plain { ring: Vec::new(), capacity, next: 0 };
            for (at, len, before, wide) in reads {
                // Pieces of half a page, so that several reads are of one page; and many cached pages before some.
                let access = Access::new(at * 2048, len * 2048);
                let before = if wide { before * 20 } else { before };
                let found = seen.find(&access, access.first, before);
                prop_assert_eq!(found, plain.find(&access, access.first, before));
                if found.is_none() {
                    seen.remember(&access, false);
                    plain.remember(&access);
                }
                let ring = |ring: &[Once]| ring.iter().map(|once| (once.pos, once.end, once.step)).collect::<Vec<_>>();
                prop_assert_eq!(ring(&seen.ring), ring(&plain.ring));
                prop_assert_eq!(seen.order.len(), seen.ring.iter().filter(|once| once.end != u64::MAX).count());
            }
        }
    }
}
