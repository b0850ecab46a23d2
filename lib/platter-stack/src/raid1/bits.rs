//! Sets of chunks.

/// A set of numbers below a bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bits {
    words: Vec<u64>,
    len: u64,
    count: u64,
}

impl Bits {
    /// The empty set of numbers below `len`.
    pub(super) fn new(len: u64) -> Bits {
        Bits { words: vec![0; len.div_ceil(64) as usize], len, count: 0 }
    }

    /// Bits from bytes, the lowest first; what is missing is 0.
    pub(super) fn of_bytes(len: u64, bytes: &[u8]) -> Bits {
        let mut bits = Bits::new(len);
        let is_set = |at: &u64| bytes.get((at / 8) as usize).is_some_and(|byte| byte >> (at % 8) & 1 != 0);
        (0..len).filter(is_set).for_each(|at| _ = bits.insert(at));
        bits
    }

    /// The same as bytes.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.truncate(self.len.div_ceil(8) as usize);
        bytes
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    #[inline]
    pub(super) fn has(&self, at: u64) -> bool {
        self.words.get((at / 64) as usize).is_some_and(|word| word >> (at % 64) & 1 != 0)
    }

    /// Adds a number. Returns whether the set changes by that.
    pub(super) fn insert(&mut self, at: u64) -> bool {
        let changes = at < self.len && !self.has(at);
        if changes {
            self.words[(at / 64) as usize] |= 1 << (at % 64);
            self.count += 1;
        }
        changes
    }

    /// Removes a number. Returns whether the set changes by that.
    pub(super) fn remove(&mut self, at: u64) -> bool {
        let changes = self.has(at);
        if changes {
            self.words[(at / 64) as usize] &= !(1 << (at % 64));
            self.count -= 1;
        }
        changes
    }

    /// Adds all numbers from `first` on.
    pub(super) fn fill_from(&mut self, first: u64) {
        (first..self.len).for_each(|at| _ = self.insert(at));
    }

    /// The first number from `at` on.
    pub(super) fn next(&self, at: u64) -> Option<u64> {
        let mut word = at / 64;
        let mut left = self.words.get(word as usize)? & u64::MAX << (at % 64);
        while left == 0 {
            word += 1;
            left = *self.words.get(word as usize)?;
        }
        Some(word * 64 + u64::from(left.trailing_zeros()))
    }

    /// All numbers, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            let found = self.next(at)?;
            at = found + 1;
            Some(found)
        })
    }

    pub(super) fn add_all(&mut self, other: &Bits) {
        other.iter().for_each(|at| _ = self.insert(at));
    }

    /// Keeps only what the other set has, too.
    pub(super) fn keep_all(&mut self, other: &Bits) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word &= other;
        }
        self.count = self.words.iter().map(|word| u64::from(word.count_ones())).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_the_same_as_bytes() {
        let mut bits = Bits::new(130);
        assert!([0, 63, 64, 129].into_iter().all(|at| bits.insert(at)));
        assert!(!bits.insert(64) && !bits.insert(130) && bits.count() == 4);
        assert_eq!(bits.iter().collect::<Vec<_>>(), [0, 63, 64, 129]);
        assert_eq!((bits.next(1), bits.next(65), Bits::new(130).next(0)), (Some(63), Some(129), None));
        let bytes = bits.to_bytes();
        assert_eq!((bytes.len(), Bits::of_bytes(130, &bytes)), (17, bits.clone()));
        assert!(bits.remove(63) && !bits.remove(63));
        let mut other = Bits::new(130);
        other.fill_from(64);
        assert_eq!(other.count(), 66);
        bits.keep_all(&other);
        assert_eq!((bits.iter().collect::<Vec<_>>(), bits.count()), (vec![64, 129], 2));
        bits.add_all(&Bits::of_bytes(130, &[1]));
        assert!(bits.has(0) && bits.count() == 3 && !bits.is_empty());
    }
}
