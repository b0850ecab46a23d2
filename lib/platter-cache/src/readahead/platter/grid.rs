//! An index of slots by the range of pages that each has.

/// No link.
const NONE: u16 = u16::MAX;

/// Base-2 logarithm of the smallest cell in pages: ranges of this size need no division into smaller ones.
const FINEST: u32 = 6;

/// Ranges of pages in a grid of several levels. A range is in the one or two cells that it touches at the first level whose
/// cells are as large as it. A search looks at the cells of its pages on each level that has a range, so it takes constant
/// time as long as few ranges are near each other. Nothing is allocated after the start.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    /// Chains of links by the hash of level and cell.
    heads: Box<[u16]>,
    /// Two links for each slot: for its first cell, and for its last if that is another.
    next: Box<[u16]>,
    /// First and last page of each slot.
    ranges: Box<[Option<(u64, u64)>]>,
    /// Number of slots of each level.
    counts: [u16; 64],
    /// The levels that have slots, by bit.
    levels: u64,
}

/// The first level at which a range touches at most two cells.
fn level_of((first, last): (u64, u64)) -> u32 {
    (u64::BITS - (last - first).leading_zeros()).clamp(FINEST, u64::BITS - 1)
}

impl Grid {
    /// For slots `0..slots`, at most 32,767, none of which has a range.
    pub(super) fn new(slots: usize) -> Grid {
        Grid {
            heads: vec![NONE; (4 * slots).next_power_of_two()].into(),
            next: vec![NONE; 2 * slots].into(),
            ranges: vec![None; slots].into(),
            counts: [0; 64],
            levels: 0,
        }
    }

    fn head(&self, level: u32, cell: u64) -> usize {
        let key = cell.wrapping_mul(64).wrapping_add(u64::from(level));
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & (self.heads.len() - 1)
    }

    /// The links of a slot with a range, and the chains that they are in.
    fn links(&self, slot: usize, range: (u64, u64)) -> impl Iterator<Item = (usize, usize)> + use<> {
        let level = level_of(range);
        let (low, high) = (range.0 >> level, range.1 >> level);
        let first = (2 * slot, self.head(level, low));
        let last = (low != high).then(|| (2 * slot + 1, self.head(level, high)));
        std::iter::once(first).chain(last)
    }

    /// Gives a slot a range, from its first to its last page, in place of the one that it had.
    pub(super) fn set(&mut self, slot: usize, first: u64, last: u64) {
        let range = (first, last.max(first));
        if self.ranges[slot] == Some(range) {
            return;
        }
        self.unset(slot);
        self.ranges[slot] = Some(range);
        let level = level_of(range) as usize;
        self.counts[level] += 1;
        self.levels |= 1 << level;
        for (link, head) in self.links(slot, range) {
            self.next[link] = std::mem::replace(&mut self.heads[head], link as u16);
        }
    }

    fn unset(&mut self, slot: usize) {
        let Some(range) = self.ranges[slot].take() else { return };
        let level = level_of(range) as usize;
        self.counts[level] -= 1;
        if self.counts[level] == 0 {
            self.levels &= !(1 << level);
        }
        for (link, head) in self.links(slot, range) {
            let after = self.next[link];
            let mut at = self.heads[head];
            if usize::from(at) == link {
                self.heads[head] = after;
                continue;
            }
            // The link is in this chain.
            while usize::from(self.next[usize::from(at)]) != link {
                at = self.next[usize::from(at)];
            }
            self.next[usize::from(at)] = after;
        }
    }

    /// Takes the ranges of all slots.
    pub(super) fn clear(&mut self) {
        self.heads.fill(NONE);
        self.ranges.fill(None);
        (self.counts, self.levels) = ([0; 64], 0);
    }

    /// The lowest slot whose range has one of these pages and for which `is_it`.
    pub(super) fn find(
        &self,
        (first, last): (u64, u64),
        mut is_it: impl FnMut(usize) -> bool,
    ) -> Option<usize> {
        let mut found: Option<usize> = None;
        let mut look = |slot: usize| {
            let has = self.ranges[slot].is_some_and(|(low, high)| low <= last && first <= high);
            if has && found.is_none_or(|found| slot < found) && is_it(slot) {
                found = Some(slot);
            }
        };
        let mut levels = self.levels;
        while levels != 0 {
            let level = levels.trailing_zeros();
            levels &= levels - 1;
            let (low, high) = (first >> level, last >> level);
            if high - low >= self.ranges.len() as u64 {
                (0..self.ranges.len()).for_each(look);
                return found;
            }
            for cell in low..=high {
                let mut at = self.heads[self.head(level, cell)];
                while at != NONE {
                    look(usize::from(at / 2));
                    at = self.next[usize::from(at)];
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_found_is_what_a_search_finds(
            slots in 1..40usize,
            steps in prop::collection::vec((0..40usize, 0..2000u64, 0..14u32, 0..200u64, any::<u64>()), 1..300),
        ) {
            let mut grid = Grid::new(slots);
            let mut plain: Vec<Option<(u64, u64)>> = vec![None; slots];
            for (number, (slot, first, size, back, chosen)) in steps.into_iter().enumerate() {
                let (slot, last) = (slot % slots, first + (chosen >> (64 - size.max(1))));
                grid.set(slot, first, last);
                plain[slot] = Some((first, last));
                if number % 50 == 49 {
                    grid.clear();
                    plain.fill(None);
                }
                // Some slots are not what is looked for.
                let is_it = |slot: usize| chosen >> (slot % 64) & 1 == 0;
                let page = chosen % 2500;
                let from = page.saturating_sub(back);
                let searched = (0..slots).find(|&slot| {
                    plain[slot].is_some_and(|(low, high)| low <= page && from <= high) && is_it(slot)
                });
                prop_assert_eq!(grid.find((from, page), is_it), searched);
                prop_assert_eq!(grid.levels.count_ones() == 0, plain.iter().all(Option::is_none));
            }
        }
    }

    #[test]
    fn ranges_of_every_size_are_found_at_their_ends() {
        let mut grid = Grid::new(64);
        for size in 0..64u32 {
            let last = (1u64 << size) - 1 + (1 << size >> 1);
            grid.set(size as usize, 1 << size >> 1, last);
            let only = |slot| slot == size as usize;
            assert_eq!(grid.find((last, last), only), Some(size as usize));
            assert_eq!(grid.find((last + 1, u64::MAX), only), None);
            assert_eq!(grid.find((0, u64::MAX), only), Some(size as usize));
        }
    }
}
