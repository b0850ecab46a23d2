//! Which offset comes next: sequential, random, or random with each block once per pass.

use crate::stats::Seeded;

/// The blocks that a workload touches: `blocks` blocks of `bs` bytes from byte `offset` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    offset: u64,
    bs: u64,
    blocks: u64,
}

impl Region {
    /// The whole blocks of `bs` bytes in `offset..offset + size`; an incomplete block at the end is not used,
    /// as with fio. `None` if there is no whole block, or if the end is beyond `u64::MAX`.
    pub fn new(offset: u64, size: u64, bs: u64) -> Option<Self> {
        let blocks = size.checked_div(bs)?;
        offset.checked_add(size)?;
        (blocks > 0).then_some(Self { offset, bs, blocks })
    }

    /// Number of blocks, at least 1.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Bytes per block.
    pub fn bs(&self) -> u64 {
        self.bs
    }

    /// Byte offset of block `index`, which must be below [`blocks`](Self::blocks).
    #[inline]
    pub fn at(&self, index: u64) -> u64 {
        self.offset + index * self.bs
    }
}

/// A generator of offsets, chosen at run time. Each `next_offset` is a block's byte offset in the region.
#[derive(Debug, Clone)]
pub enum Offsets {
    /// One block after the other.
    Sequential(Sequential),
    /// Any block at any time.
    Random(RandomOffsets),
    /// In random order, each block once per pass.
    RandomMap(RandomMap),
}

impl Offsets {
    /// The next offset, in bytes.
    #[inline]
    pub fn next_offset(&mut self) -> u64 {
        match self {
            Self::Sequential(generator) => generator.next_offset(),
            Self::Random(generator) => generator.next_offset(),
            Self::RandomMap(generator) => generator.next_offset(),
        }
    }
}

/// Block after block, from the first again after the last.
#[derive(Debug, Clone)]
pub struct Sequential {
    region: Region,
    next: u64,
}

impl Sequential {
    /// Starts at the first block.
    pub fn new(region: Region) -> Self {
        Self { region, next: 0 }
    }

    /// The next offset, in bytes.
    #[inline]
    pub fn next_offset(&mut self) -> u64 {
        let index = self.next;
        self.next = if index + 1 == self.region.blocks { 0 } else { index + 1 };
        self.region.at(index)
    }
}

/// Each block with the same probability each time, so that some repeat before others occur at all (fio's
/// `norandommap=1`). The cheapest random order: one number from xoshiro256++ and two multiplications.
#[derive(Debug, Clone)]
pub struct RandomOffsets {
    region: Region,
    rng: Seeded,
}

impl RandomOffsets {
    /// Draws from `rng`.
    pub fn new(region: Region, rng: Seeded) -> Self {
        Self { region, rng }
    }

    /// The next offset, in bytes.
    #[inline]
    pub fn next_offset(&mut self) -> u64 {
        let index = self.rng.below(self.region.blocks);
        self.region.at(index)
    }
}

/// Random order in which every block comes exactly once per pass (fio's `norandommap=0`), each pass in another
/// order. Needs no map of the blocks visited.
///
/// A counter runs through `0..2^k`, the least power of two that holds the blocks, and is scrambled by a keyed
/// bijection of k-bit numbers; images beyond the last block are passed over, fewer than half of all. The
/// bijection is made of the steps of integer hash finalisers, each of which can be undone: adding a key,
/// multiplying by an odd number modulo 2^k, xoring with the upper half. Three rounds of them are enough for many bits; the
/// fewer bits, the less each step mixes, and the offsets of a pass are correlated at some distances.
#[derive(Debug, Clone)]
pub struct RandomMap {
    region: Region,
    rng: Seeded,
    /// 2^k - 1.
    mask: u64,
    /// Half of k, rounded up.
    shift: u32,
    counter: u64,
    keys: Keys,
    /// Of the second three rounds, where there are any.
    more: Option<Keys>,
}

/// Keys of three rounds.
#[derive(Debug, Clone, Default)]
struct Keys {
    add: [u64; 3],
    multiply: [u64; 3],
}

impl Keys {
    fn draw(rng: &mut Seeded) -> Keys {
        let add = core::array::from_fn(|_| rng.next_u64());
        Keys { add, multiply: core::array::from_fn(|_| rng.next_u64() | 1) }
    }

    #[inline]
    fn scramble(&self, x: u64, mask: u64, shift: u32) -> u64 {
        // A loop over the rounds is not unrolled, and takes 64 instructions more.
        let round = |x: u64, at: usize| {
            let x = x.wrapping_add(self.add[at]).wrapping_mul(self.multiply[at]) & mask;
            x ^ x >> shift
        };
        round(round(round(x, 0), 1), 2)
    }
}

/// Bits from which on three rounds are enough: with fewer a test of some thousand offsets finds correlations.
const MANY_BITS: u32 = 24;

impl RandomMap {
    /// Draws the keys of each pass from `rng`.
    pub fn new(region: Region, rng: Seeded) -> Self {
        let bits = u64::BITS - (region.blocks - 1).leading_zeros();
        let mask = 1u64.checked_shl(bits).map_or(u64::MAX, |power| power - 1);
        let shift = bits.div_ceil(2).max(1);
        let more = (bits < MANY_BITS).then(Keys::default);
        let mut map = Self { region, rng, mask, shift, counter: 0, keys: Keys::default(), more };
        map.draw_keys();
        map
    }

    /// The next offset, in bytes.
    #[inline]
    pub fn next_offset(&mut self) -> u64 {
        loop {
            let index = self.scramble(self.counter);
            if self.counter == self.mask {
                self.counter = 0;
                self.draw_keys();
            } else {
                self.counter += 1;
            }
            if index < self.region.blocks {
                return self.region.at(index);
            }
        }
    }

    #[inline]
    fn scramble(&self, x: u64) -> u64 {
        let x = self.keys.scramble(x, self.mask, self.shift);
        match &self.more {
            Some(keys) => keys.scramble(x, self.mask, self.shift),
            None => x,
        }
    }

    #[cold]
    fn draw_keys(&mut self) {
        self.keys = Keys::draw(&mut self.rng);
        if let Some(more) = &mut self.more {
            *more = Keys::draw(&mut self.rng);
        }
    }
}

/// Decides for each I/O of a mixed workload whether it reads, with fio's `rwmixread`.
#[derive(Debug, Clone)]
pub struct ReadWriteMix {
    percent: u64,
    rng: Seeded,
}

impl ReadWriteMix {
    /// `rwmixread` percent of the I/Os read: 0 none, 100 or more all.
    pub fn new(rwmixread: u32, rng: Seeded) -> Self {
        Self { percent: u64::from(rwmixread), rng }
    }

    /// Whether the next I/O reads.
    #[inline]
    pub fn next_is_read(&mut self) -> bool {
        self.rng.below(100) < self.percent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn region(blocks: u64) -> Region {
        Region::new(1 << 20, blocks * 4096 + 100, 4096).unwrap()
    }

    #[test]
    fn region_holds_whole_blocks_only() {
        let r = Region::new(512, 4096 * 3 - 1, 4096).unwrap();
        assert_eq!((r.blocks(), r.bs(), r.at(1)), (2, 4096, 4608));
        for (offset, size, bs) in [(0, 4095, 4096), (0, 0, 512), (0, 10, 0), (u64::MAX, 512, 512)] {
            assert_eq!(Region::new(offset, size, bs), None);
        }
    }

    #[test]
    fn sequential_wraps() {
        let mut s = Offsets::Sequential(Sequential::new(region(3)));
        let got: Vec<u64> = (0..7).map(|_| s.next_offset() - (1 << 20)).collect();
        assert_eq!(got, [0, 4096, 8192, 0, 4096, 8192, 0]);
    }

    #[test]
    fn random_offsets_are_the_same_everywhere() {
        let mut random = Offsets::Random(RandomOffsets::new(region(1 << 28), Seeded::new(1)));
        let mut map = Offsets::RandomMap(RandomMap::new(region(1000), Seeded::new(1)));
        let blocks =
            |o: &mut Offsets| -> Vec<u64> { (0..5).map(|_| (o.next_offset() - (1 << 20)) / 4096).collect() };
        // The upper 28 bits of xoshiro256++ seeded with 1.
        let mut rng = Seeded::new(1);
        let expected: Vec<u64> = (0..5).map(|_| rng.next_u64() >> 36).collect();
        assert_eq!(blocks(&mut random), expected);
        assert_eq!(blocks(&mut map), PINNED_MAP);
    }

    #[test]
    fn random_is_even() {
        let mut random = RandomOffsets::new(region(16), Seeded::new(5));
        let mut times = [0u32; 16];
        for _ in 0..16_000 {
            times[((random.next_offset() - (1 << 20)) / 4096) as usize] += 1;
        }
        assert!(times.iter().all(|t| (850..1150).contains(t)), "{times:?}");
    }

    /// A random order has no memory: the part of a pass seen so far is spread evenly, half of the steps go up,
    /// and hardly any goes to a neighbour.
    #[test]
    fn random_map_looks_random() {
        for (blocks, seed) in [(1u64 << 16, 1), (50_000, 2), ((1 << 16) + 1, 3), (1 << 20, 4)] {
            let mut map = RandomMap::new(Region::new(0, blocks, 1).unwrap(), Seeded::new(seed));
            let n = 20_000;
            let seen: Vec<u64> = (0..n).map(|_| map.next_offset()).collect();
            let mut parts = [0i64; 16];
            let mut low_bits = [0i64; 16];
            for &v in &seen {
                parts[(v * 16 / blocks) as usize] += 1;
                low_bits[(v % 16) as usize] += 1;
            }
            let expected = n as i64 / 16;
            assert!(parts.iter().all(|p| (p - expected).abs() < expected / 5), "{blocks}: {parts:?}");
            assert!(low_bits.iter().all(|p| (p - expected).abs() < expected / 5), "{blocks}: {low_bits:?}");
            let up = seen.windows(2).filter(|w| w[0] < w[1]).count();
            assert!((n / 2 - n / 50..n / 2 + n / 50).contains(&up), "{blocks}: {up} steps up");
            let near = seen.windows(2).filter(|w| w[0].abs_diff(w[1]) <= 4).count();
            assert!(near < 20, "{blocks}: {near} steps to a neighbour");
            let mut gaps: Vec<u64> = seen.windows(2).map(|w| w[1].wrapping_sub(w[0]) % blocks).collect();
            gaps.sort_unstable();
            gaps.dedup();
            assert!(gaps.len() > n * 4 / 5, "{blocks}: only {} different steps", gaps.len());
        }
    }

    /// Offsets at any distance in a pass are uncorrelated, for every seed. Of n numbers in random order the coefficient has the
    /// standard deviation 1 / sqrt(n); six of them are passed by chance once in 5 * 10^8, and here some 10^6 are looked at.
    #[test]
    fn a_random_map_has_no_correlations() {
        for (blocks, seeds, lags) in [
            (64, 200, 30),
            (250, 200, 120),
            (1000, 100, 200),
            (9000, 20, 200),
            (1 << 14, 40, 100),
            (1 << 17, 3, 60),
        ] {
            for seed in 0..seeds {
                let mut map = RandomMap::new(Region::new(0, blocks, 1).unwrap(), Seeded::new(seed));
                let mean = (blocks - 1) as f64 / 2.0;
                let order: Vec<f64> = (0..blocks).map(|_| map.next_offset() as f64 - mean).collect();
                let square: f64 = order.iter().map(|x| x * x).sum();
                for lag in 1..=lags {
                    let products: f64 = order.iter().zip(&order[lag..]).map(|(a, b)| a * b).sum();
                    let r = products / square;
                    let bound = 6.0 / (blocks as f64).sqrt();
                    assert!(r.abs() < bound, "{blocks} blocks, seed {seed}, lag {lag}: r = {r:.3}");
                }
            }
        }
    }

    #[test]
    fn mix_follows_the_percentage() {
        for percent in [0, 1, 30, 50, 99, 100] {
            let mut mix = ReadWriteMix::new(percent, Seeded::new(11));
            let reads = (0..100_000).filter(|_| mix.next_is_read()).count() as i64;
            let expected = i64::from(percent) * 1000;
            let slack = if percent % 100 == 0 { 0 } else { 600 };
            assert!((reads - expected).abs() <= slack, "{percent} %: {reads}");
        }
    }

    proptest! {
        #[test]
        fn random_map_visits_each_block_once_per_pass(blocks in 1u64..5000, seed: u64) {
            let region = region(blocks);
            let mut map = RandomMap::new(region, Seeded::new(seed));
            let mut orders = Vec::new();
            for _pass in 0..2 {
                let order: Vec<u64> = (0..blocks).map(|_| map.next_offset()).collect();
                let mut sorted = order.clone();
                sorted.sort_unstable();
                let all: Vec<u64> = (0..blocks).map(|i| region.at(i)).collect();
                prop_assert_eq!(sorted, all);
                orders.push(order);
            }
            prop_assert!(blocks < 64 || orders[0] != orders[1]);
        }

        #[test]
        fn random_stays_inside(offset in 0u64..1 << 62, size in 512u64..1 << 62, seed: u64) {
            let bs = 512;
            let region = Region::new(offset, size, bs).unwrap();
            let mut generators = [
                Offsets::Random(RandomOffsets::new(region, Seeded::new(seed))),
                Offsets::RandomMap(RandomMap::new(region, Seeded::new(seed))),
            ];
            for generator in &mut generators {
                for _ in 0..50 {
                    let at = generator.next_offset();
                    prop_assert!(at >= offset && at + bs <= offset + size && (at - offset) % bs == 0);
                }
            }
        }
    }

    /// Computed apart from this code.
    const PINNED_MAP: [u64; 5] = [165, 690, 744, 944, 11];
}
