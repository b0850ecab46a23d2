//! Which parts of a read have arrived. Chunks may come in any order, but must not overlap and must cover everything: a
//! server must not be able to make a read succeed whose memory keeps earlier contents.

/// Most gaps of a read; a server that sends smaller pieces in no order does not keep the connection.
const MOST: usize = 1024;

/// Ranges in order that neither overlap nor touch.
#[derive(Debug, Default)]
pub(super) struct Ranges(Vec<(u32, u32)>);

impl Ranges {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds a range. `false`: it overlaps an earlier one, or there are too many.
    pub(super) fn add(&mut self, begin: u32, end: u32) -> bool {
        let at = self.0.partition_point(|range| range.0 < begin);
        let joins = at > 0 && self.0[at - 1].1 >= begin;
        if joins && self.0[at - 1].1 > begin || self.0.get(at).is_some_and(|next| next.0 < end) {
            return false;
        }
        let touches = self.0.get(at).is_some_and(|next| next.0 == end);
        match (joins, touches) {
            (true, true) => self.0[at - 1].1 = self.0.remove(at).1,
            (true, false) => self.0[at - 1].1 = end,
            (false, true) => self.0[at].0 = begin,
            (false, false) if self.0.len() == MOST => return false,
            (false, false) => self.0.insert(at, (begin, end)),
        }
        true
    }

    /// Whether everything up to `len` is covered.
    pub(super) fn cover(&self, len: u64) -> bool {
        matches!(self.0[..], [(0, end)] if u64::from(end) == len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_join_in_any_order_and_never_overlap() {
        let mut ranges = Ranges::default();
        for (begin, end, fits) in [
            (10, 20, true),
            (30, 40, true),
            (0, 5, true),
            (4, 6, false),
            (19, 21, false),
            (9, 11, false),
            (0, 50, false),
            (12, 15, false),
            (5, 10, true),
            (20, 30, true),
        ] {
            assert_eq!(ranges.add(begin, end), fits, "{begin}..{end}");
        }
        assert!(ranges.cover(40) && !ranges.cover(41) && !ranges.cover(39));
        assert!(ranges.add(41, 42) && !ranges.cover(42));
        ranges.clear();
        assert!(!ranges.cover(1));
    }

    #[test]
    fn gaps_are_bounded() {
        let mut ranges = Ranges::default();
        assert!((0..MOST as u32).all(|n| ranges.add(2 * n, 2 * n + 1)));
        assert!(!ranges.add(10_000, 10_001));
        assert!(ranges.add(1, 2), "one that joins is no new gap");
    }
}
