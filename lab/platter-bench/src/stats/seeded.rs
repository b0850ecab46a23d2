//! Seeded streams of random numbers that are the same on every machine and in every release.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

/// A reproducible stream of random numbers.
///
/// The generator is xoshiro256++ (Blackman and Vigna, "Scrambled Linear Pseudorandom Number
/// Generators", 2021), its state filled by SplitMix64 from one 64-bit seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seeded {
    generator: Xoshiro256PlusPlus,
}

impl Seeded {
    /// A stream from `seed`.
    pub fn new(seed: u64) -> Self {
        Self { generator: Xoshiro256PlusPlus::seed_from_u64(seed) }
    }

    /// The stream number `stream` of `seed`.
    ///
    /// Streams of one seed are unrelated to each other, so that, for instance, changing the share of
    /// reads does not change which offsets are visited.
    pub fn stream(seed: u64, stream: u64) -> Self {
        Self::new(mix64(seed ^ mix64(stream.wrapping_add(0x9e37_79b9_7f4a_7c15))))
    }

    /// The next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.generator.next_u64()
    }

    /// A number in `0..bound`, or 0 when `bound` is 0.
    ///
    /// The upper half of a 64 × 64-bit product (multiply-shift). No draw is rejected, so each number is off
    /// its exact probability by at most 2⁻⁶⁴.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

/// The SplitMix64 finaliser (variant 13 of Stafford): a bijection that spreads every input bit over the
/// whole word.
#[inline]
pub(crate) fn mix64(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// xoshiro256++ and SplitMix64 written out again from the paper, to pin the stream.
    fn reference(seed: u64, count: usize) -> Vec<u64> {
        let mut z = seed;
        let mut s = [0u64; 4].map(|_: u64| {
            z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
            mix64(z)
        });
        let mut out = Vec::new();
        for _ in 0..count {
            out.push(s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]));
            let t = s[1] << 17;
            s[2] ^= s[0];
            s[3] ^= s[1];
            s[1] ^= s[2];
            s[0] ^= s[3];
            s[2] ^= t;
            s[3] = s[3].rotate_left(45);
        }
        out
    }

    #[test]
    fn stream_is_xoshiro256_plus_plus_seeded_by_splitmix64() {
        for seed in [0, 1, 42, u64::MAX] {
            let mut stream = Seeded::new(seed);
            let got: Vec<u64> = (0..100).map(|_| stream.next_u64()).collect();
            assert_eq!(got, reference(seed, 100));
        }
    }

    #[test]
    fn below_stays_in_range_and_reaches_every_value() {
        let mut stream = Seeded::new(7);
        let mut seen = [0u32; 10];
        for _ in 0..10_000 {
            seen[stream.below(10) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| (850..1150).contains(&n)), "{seen:?}");
        assert_eq!(stream.below(0), 0);
        assert_eq!(stream.below(1), 0);
        assert!((0..100).any(|_| stream.below(u64::MAX) > u64::MAX / 2));
    }

    #[test]
    fn streams_of_one_seed_differ_and_repeat() {
        let draw = |seed, stream| Seeded::stream(seed, stream).next_u64();
        let mut all: Vec<u64> = (0..100).map(|n| draw(1, n)).chain((0..100).map(|n| draw(2, n))).collect();
        assert_eq!(draw(1, 5), all[5]);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 200);
    }
}
