//! Random numbers from a seed, with a preference for values at which parsers break.

/// A generator (SplitMix64).
pub struct Rng(u64);

/// A step of SplitMix64's state.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

fn mixed(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Rng {
    /// The numbers of one run on one target. No two runs share a sequence.
    pub fn of(seed: u64, target: &str, run: u64) -> Rng {
        let name = target.bytes().fold(seed, |sum, byte| mixed(sum ^ u64::from(byte)));
        Rng(mixed(name ^ mixed(run)))
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mixed(self.0)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.any()) * u128::from(end)) >> 64) as u64
    }

    /// A place in something of `len` elements, which is not empty.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// A number from `least` to `most`.
    pub fn range(&mut self, least: u64, most: u64) -> u64 {
        least + self.below((most - least).saturating_add(1))
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of `all`, which is not empty.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.index(all.len())]
    }

    /// A number of at most `bits` bits: often small, at a power of two or at the end of the range.
    pub fn extreme(&mut self, bits: u32) -> u64 {
        let most = u64::MAX >> (64 - bits);
        let number = match self.below(8) {
            0 => self.below(3),
            1 => most.saturating_sub(self.below(3)),
            2 => (most >> 1).wrapping_add(self.below(3)).wrapping_sub(1),
            3 | 4 => (1u64 << self.below(bits.into())).wrapping_add(self.below(3)).wrapping_sub(1),
            5 => self.below(300),
            6 => self.below(1 << 20),
            _ => self.any(),
        };
        number & most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_differ_and_repeat() {
        let first = |seed, target, run| Rng::of(seed, target, run).any();
        assert_eq!(first(1, "a", 2), first(1, "a", 2));
        assert!(first(1, "a", 2) != first(1, "a", 3) && first(1, "a", 2) != first(1, "b", 2));
    }

    #[test]
    fn numbers_stay_in_their_range() {
        let mut rng = Rng::of(1, "", 0);
        for bits in [1, 8, 16, 32, 63, 64] {
            let seen: Vec<u64> = (0..1000).map(|_| rng.extreme(bits)).collect();
            assert!(seen.iter().all(|&n| n <= u64::MAX >> (64 - bits)));
            assert!(seen.contains(&0) && seen.contains(&(u64::MAX >> (64 - bits))));
        }
        assert!((0..100).all(|_| (3..=5).contains(&rng.range(3, 5))));
        assert_eq!(rng.range(0, 0), 0);
    }
}
