//! A log-linear histogram of latencies, cheap enough to be fed by every I/O.

/// Each power of two is cut into `2^MANTISSA_BITS` buckets of equal width.
const MANTISSA_BITS: u32 = 6;
const SUB_BUCKETS: usize = 1 << MANTISSA_BITS;
/// Values below `2 * SUB_BUCKETS` have a bucket each; the 57 powers of two above have `SUB_BUCKETS` each.
const BUCKETS: usize = (64 - MANTISSA_BITS as usize + 1) * SUB_BUCKETS;

/// Counts of latencies in nanoseconds, from 0 to `u64::MAX`, in buckets no wider than 1/64 of their value.
///
/// The layout is the log-linear one of fio and of HdrHistogram with 6 bits of mantissa: values below 128 ns are
/// exact, any other is known to 1.6 % (0.8 % around the middle of its bucket, which is what
/// [`percentile`](Self::percentile) gives). A histogram takes 30 KiB, allocated once by
/// [`new`](Self::new); recording allocates nothing.
///
/// ```
/// use platter_bench::stats::LatencyHistogram;
/// let mut lat = LatencyHistogram::new();
/// for ns in 1..=1000 {
///     lat.record(ns);
/// }
/// assert_eq!((lat.count(), lat.min(), lat.max()), (1000, Some(1), Some(1000)));
/// let p99 = lat.percentile(99.0).unwrap();
/// assert!(p99.abs_diff(990) <= 990 / 64);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatencyHistogram {
    buckets: Box<[u64; BUCKETS]>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

/// One bucket that holds something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// The smallest value that falls into it, in ns.
    pub low: u64,
    /// The largest value that falls into it, in ns.
    pub high: u64,
    /// How many did.
    pub count: u64,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl LatencyHistogram {
    /// An empty histogram.
    pub fn new() -> Self {
        Self { buckets: Box::new([0; BUCKETS]), count: 0, sum: 0, min: u64::MAX, max: 0 }
    }

    /// Counts one latency of `ns` nanoseconds.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.record_times(ns, 1);
    }

    /// Counts `times` latencies of `ns` nanoseconds at the cost of one, for a batch that started and
    /// completed together. `times` must not be 0.
    #[inline]
    pub fn record_times(&mut self, ns: u64, times: u64) {
        self.buckets[index(ns)] += times;
        self.count += times;
        self.sum += u128::from(ns) * u128::from(times);
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
    }

    /// Adds everything that `other` has counted, as if it had been recorded here.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(other.buckets.iter()) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Clears all counts (at the end of the ramp time).
    pub fn clear(&mut self) {
        self.buckets.fill(0);
        (self.count, self.sum, self.min, self.max) = (0, 0, u64::MAX, 0);
    }

    /// How many latencies were recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The smallest latency, exact, in ns.
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// The largest latency, exact, in ns.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// The mean, exact up to floating point, in ns.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The `p`-th percentile in ns, for `p` in 0..=100 (clamped; counted in millionths of a percent).
    ///
    /// By nearest rank: the smallest recorded latency such that at least `p` percent of all are not above it,
    /// given as the middle of its bucket but never outside of `min..=max`.
    pub fn percentile(&self, p: f64) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        // In integers, so that 99.9 % of 1000 is rank 999 and not, by a rounding error, rank 1000.
        let millionths = (p.clamp(0.0, 100.0) * 1e6).round() as u128;
        let rank = (u128::from(self.count) * millionths).div_ceil(100_000_000) as u64;
        if rank >= self.count {
            return Some(self.max);
        }
        if rank <= 1 {
            return Some(self.min);
        }
        let mut seen = 0;
        let bucket = self.buckets().find(|bucket| {
            seen += bucket.count;
            seen >= rank
        });
        let middle = bucket.map_or(self.max, |b| b.low + (b.high - b.low) / 2);
        Some(middle.clamp(self.min, self.max))
    }

    /// The buckets that hold something, in ascending order.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> + '_ {
        let held = self.buckets.iter().enumerate().filter(|&(_, &count)| count > 0);
        held.map(|(i, &count)| Bucket { low: low(i), high: high(i), count })
    }
}

/// The bucket of `ns`. Let g be how far `ns` must be shifted right to be below 128: the bucket is the shifted
/// value (64..128 once g > 0), plus 64 for each step of g.
#[inline]
fn index(ns: u64) -> usize {
    let group = (ns | (2 * SUB_BUCKETS as u64 - 1)).ilog2() - MANTISSA_BITS;
    ((group as usize) << MANTISSA_BITS) + (ns >> group) as usize
}

/// The smallest value of bucket `i`.
fn low(i: usize) -> u64 {
    let group = (i >> MANTISSA_BITS).saturating_sub(1);
    ((i - (group << MANTISSA_BITS)) as u64) << group
}

/// The largest value of bucket `i`.
fn high(i: usize) -> u64 {
    let group = (i >> MANTISSA_BITS).saturating_sub(1);
    low(i) + ((1 << group) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> LatencyHistogram {
        let mut h = LatencyHistogram::new();
        values.iter().for_each(|&v| h.record(v));
        h
    }

    #[test]
    fn buckets_tile_the_whole_range() {
        assert_eq!(low(0), 0);
        for i in 0..BUCKETS {
            assert_eq!((index(low(i)), index(high(i))), (i, i));
            if i + 1 < BUCKETS {
                assert_eq!(high(i) + 1, low(i + 1));
            }
            assert!((high(i) - low(i)) as f64 <= low(i) as f64 / 64.0);
        }
        assert_eq!(high(BUCKETS - 1), u64::MAX);
    }

    #[test]
    fn empty_has_no_values() {
        let h = LatencyHistogram::new();
        assert_eq!((h.count(), h.min(), h.max(), h.mean(), h.percentile(50.0)), (0, None, None, None, None));
        assert_eq!(h.buckets().count(), 0);
    }

    #[test]
    fn percentile_ranks_do_not_suffer_from_rounding() {
        // Below 128 every value is exact. 99.9 % of 1000 is rank 999.
        let mut values = vec![10; 998];
        values.extend([20, 30]);
        let h = of(&values);
        assert_eq!(h.percentile(99.8), Some(10));
        assert_eq!(h.percentile(99.9), Some(20));
        assert_eq!(h.percentile(99.91), Some(30));
        assert_eq!((h.percentile(0.0), h.percentile(100.0)), (Some(10), Some(30)));
    }

    #[test]
    fn extremes_do_not_overflow() {
        let h = of(&[0, u64::MAX, u64::MAX]);
        assert_eq!((h.min(), h.max()), (Some(0), Some(u64::MAX)));
        assert_eq!(h.mean(), Some(2.0 * u64::MAX as f64 / 3.0));
        assert!(h.percentile(60.0).unwrap() > u64::MAX - (u64::MAX >> 6));
    }

    #[test]
    fn equal_latencies_count_at_once() {
        let mut at_once = of(&[7]);
        at_once.record_times(5000, 3);
        assert_eq!(at_once, of(&[5000, 7, 5000, 5000]));
    }

    #[test]
    fn clear_forgets() {
        let mut h = of(&[1, 5000, 1 << 40]);
        h.clear();
        assert_eq!(h, LatencyHistogram::new());
    }

    proptest! {
        #[test]
        fn percentiles_are_within_one_sixty_fourth(
            values in prop::collection::vec((0u32..64, any::<u64>()).prop_map(|(s, v)| v >> s), 1..300),
            p in 0u32..=1000,
        ) {
            let h = of(&values);
            let mut sorted = values.clone();
            sorted.sort_unstable();
            let rank = (values.len() * p as usize).div_ceil(1000).max(1);
            let exact = sorted[rank - 1];
            let got = h.percentile(f64::from(p) / 10.0).unwrap();
            prop_assert!(got.abs_diff(exact) <= exact / 64, "{got} for {exact}");
        }

        #[test]
        fn merging_is_recording_both(
            a in prop::collection::vec(any::<u64>(), 0..100),
            b in prop::collection::vec(0u64..100_000, 0..100),
        ) {
            let mut merged = of(&a);
            merged.merge(&of(&b));
            let both: Vec<u64> = a.iter().chain(&b).copied().collect();
            prop_assert_eq!(&merged, &of(&both));
            prop_assert_eq!(merged.buckets().map(|b| b.count).sum::<u64>(), both.len() as u64);
        }
    }
}
