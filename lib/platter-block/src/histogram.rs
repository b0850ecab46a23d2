//! What a histogram of latencies tells when it is read.

use crate::cell::Cell;
pub use crate::counters::Histogram;
use crate::counters::{BUCKETS, SUB, SUB_BITS};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Smallest value of a bucket.
pub(crate) fn floor_of(bucket: usize) -> u64 {
    let row = (bucket >> SUB_BITS) as u32;
    let step = (bucket as u64) & (SUB - 1);
    if row == 0 { step } else { (SUB + step) << (row - 1) }
}

impl Default for Histogram {
    fn default() -> Histogram {
        let buckets = Box::new(core::array::from_fn(|_| Cell::default()));
        Histogram { buckets, sum: Cell::default(), low: Cell::default(), high: Cell::default() }
    }
}

impl Histogram {
    /// Smallest value and count of each bucket that is not empty.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.buckets.iter().enumerate().map(|(i, c)| (floor_of(i), c.get())).filter(|&(_, n)| n > 0)
    }

    /// Forgets the smallest and the largest value, so that those of later values can be seen. A value that is recorded at the
    /// same time may count as an earlier one.
    pub(crate) fn restart_extremes(&self) {
        self.low.set(0);
        self.high.set(0);
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(Cell::get).sum()
    }
}

/// The sum of histograms.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sum {
    /// The count of each bucket; empty at first.
    pub(crate) counts: Vec<u64>,
    pub(crate) total: u64,
    /// As in a histogram.
    low: u64,
    high: u64,
}

impl Sum {
    pub(crate) fn add(&mut self, histogram: &Histogram) {
        self.counts.resize(BUCKETS, 0);
        self.counts.iter_mut().zip(histogram.buckets.iter()).for_each(|(sum, cell)| *sum += cell.get());
        self.total = self.total.wrapping_add(histogram.sum.get());
        self.low = self.low.max(histogram.low.get());
        self.high = self.high.max(histogram.high.get());
    }

    pub(crate) fn merge(&mut self, other: &Sum) {
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        self.counts.iter_mut().zip(&other.counts).for_each(|(sum, count)| *sum += count);
        self.total = self.total.wrapping_add(other.total);
        self.low = self.low.max(other.low);
        self.high = self.high.max(other.high);
    }

    pub(crate) fn restart_extremes(&mut self) {
        (self.low, self.high) = (0, 0);
    }

    /// The smallest and the largest value since the extremes were restarted; `None` if there was none.
    pub(crate) fn extremes(&self) -> Option<(u64, u64)> {
        (self.low > 0).then_some((!self.low, self.high))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::bucket_of;

    #[test]
    fn buckets_are_ordered_and_tight() {
        for shift in 0..40 {
            for value in [1u64 << shift, (1 << shift) + 1, (1 << shift) * 3 / 2] {
                let bucket = bucket_of(value);
                assert!(floor_of(bucket) <= value, "{value}");
                if bucket + 1 < BUCKETS {
                    assert!(floor_of(bucket + 1) > value, "{value}");
                    assert!(value - floor_of(bucket) <= value / SUB, "{value}");
                }
            }
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn counts_add_up() {
        let h = Histogram::default();
        for v in 0..1000 {
            h.record(v);
        }
        assert_eq!(h.count(), 1000);
        assert_eq!(h.buckets().map(|(_, n)| n).sum::<u64>(), 1000);
    }

    #[test]
    fn sum_and_extremes_are_exact() {
        let (a, b, none) = (Histogram::default(), Histogram::default(), Histogram::default());
        a.record(19_950_001);
        a.record_many(1_000_003, 3);
        b.record(20_000_001);
        let of = |all: &[&Histogram]| {
            let mut sum = Sum::default();
            all.iter().for_each(|one| sum.add(one));
            sum
        };
        assert_eq!((of(&[&none]).total, of(&[&none]).extremes()), (0, None));
        assert_eq!((of(&[&a]).total, of(&[&a]).extremes()), (22_950_010, Some((1_000_003, 19_950_001))));
        let mut all = of(&[&a, &none]);
        all.merge(&of(&[&b]));
        assert_eq!((all.total, all.extremes()), (42_950_011, Some((1_000_003, 20_000_001))));
        a.restart_extremes();
        a.record(5);
        assert_eq!((of(&[&a]).total, of(&[&a]).extremes()), (22_950_015, Some((5, 5))));
        none.record(0);
        assert_eq!(of(&[&none]).extremes(), Some((0, 0)));
    }
}
