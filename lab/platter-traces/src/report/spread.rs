//! Numbers summed up: least, mean, largest, and percentiles from buckets whose width is at most 1/64 of their value, with
//! exact values below 128.

/// Buckets.
const BUCKETS: usize = 128 + 57 * 64;

/// Numbers summed up.
#[derive(Clone, Debug)]
pub(super) struct Counter {
    buckets: Vec<u64>,
    n: u64,
    sum: u128,
    min: u64,
    max: u64,
}

/// The sum of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// How many.
    pub n: u64,
    /// The least.
    pub min: u64,
    /// The mean.
    pub mean: f64,
    /// The largest.
    pub max: u64,
    /// Half are not above it.
    pub p50: u64,
    /// 99 % are not above it.
    pub p99: u64,
}

impl Default for Counter {
    fn default() -> Counter {
        Counter { buckets: Vec::new(), n: 0, sum: 0, min: u64::MAX, max: 0 }
    }
}

fn bucket(value: u64) -> usize {
    if value < 128 {
        return value as usize;
    }
    let power = value.ilog2() - 6;
    power as usize * 64 + (value >> power) as usize
}

/// The largest value of a bucket.
fn top(bucket: usize) -> u64 {
    if bucket < 128 {
        return bucket as u64;
    }
    let power = bucket / 64 - 1;
    let first = (bucket - power * 64) as u64;
    (first << power) + ((1u64 << power) - 1)
}

impl Counter {
    pub(super) fn add(&mut self, value: u64) {
        if self.buckets.is_empty() {
            self.buckets.resize(BUCKETS, 0);
        }
        self.buckets[bucket(value)] += 1;
        self.n += 1;
        self.sum += u128::from(value);
        (self.min, self.max) = (self.min.min(value), self.max.max(value));
    }

    fn percentile(&self, percent: u64) -> u64 {
        let rank = (u128::from(self.n) * u128::from(percent)).div_ceil(100).max(1);
        let mut seen = 0u128;
        for (at, count) in self.buckets.iter().enumerate() {
            seen += u128::from(*count);
            if seen >= rank {
                return top(at).clamp(self.min, self.max);
            }
        }
        self.max
    }

    /// `None` without numbers.
    pub(super) fn spread(&self) -> Option<Spread> {
        (self.n > 0).then(|| Spread {
            n: self.n,
            min: self.min,
            mean: self.sum as f64 / self.n as f64,
            max: self.max,
            p50: self.percentile(50),
            p99: self.percentile(99),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_all_numbers_in_order() {
        let mut before = 0;
        for at in 0..BUCKETS {
            assert_eq!(bucket(top(at)), at);
            assert!(at == 0 || top(at) > before && bucket(before + 1) == at);
            before = top(at);
        }
        assert_eq!(top(BUCKETS - 1), u64::MAX);
    }

    #[test]
    fn percentiles_are_near() {
        let mut counter = Counter::default();
        (1..=1000u64).for_each(|n| counter.add(n * 1000));
        let spread = counter.spread().unwrap();
        assert_eq!((spread.n, spread.min, spread.max, spread.mean), (1000, 1000, 1_000_000, 500_500.0));
        assert!((500_000..=508_000).contains(&spread.p50) && (990_000..=1_000_000).contains(&spread.p99));
        assert!(Counter::default().spread().is_none());
    }
}
