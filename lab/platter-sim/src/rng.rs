//! Random numbers from a seed: fast, and reproducible on every machine.

/// A stream of random numbers: SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", OOPSLA 2014).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng(u64);

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finaliser of SplitMix64: spreads every bit over the whole word.
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl Rng {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Rng {
        Rng(mix(seed ^ GOLDEN))
    }

    /// Stream number `stream` of a seed; streams of one seed are independent of each other.
    pub fn stream(seed: u64, stream: u64) -> Rng {
        Rng::new(mix(seed) ^ mix(stream.wrapping_add(1).wrapping_mul(GOLDEN)))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// A number below `bound`; 0 when that is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// True with a chance of `ppm` in a million. A chance of 0 draws no number.
    pub fn chance(&mut self, ppm: u32) -> bool {
        ppm > 0 && self.below(1_000_000) < u64::from(ppm)
    }

    /// One of `of`, which must not be empty.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_in_range_and_chances_are_kept() {
        let mut rng = Rng::new(1);
        let mut seen = [0u32; 10];
        (0..10_000).for_each(|_| seen[rng.below(10) as usize] += 1);
        assert!(seen.iter().all(|&n| (850..1150).contains(&n)), "{seen:?}");
        let hits = (0..10_000).filter(|_| rng.chance(250_000)).count();
        assert!((2300..2700).contains(&hits), "{hits}");
        assert_eq!(rng.below(0), 0);
        assert!(!rng.chance(0) && rng.chance(1_000_000));
    }

    #[test]
    fn streams_of_one_seed_differ_and_repeat() {
        let first = |stream| Rng::stream(7, stream).bits();
        let mut all: Vec<u64> = (0..100).map(first).collect();
        assert_eq!(all[5], first(5));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 100);
    }
}
