//! What a histogram of latencies tells when it is read.

use crate::cell::Cell;
pub use crate::counters::Histogram;
use crate::counters::{BUCKETS, SUB, SUB_BITS};
use alloc::vec::Vec;

/// Smallest value of a bucket.
pub(crate) fn floor_of(bucket: usize) -> u64 {
    let row = (bucket >> SUB_BITS) as u32;
    let step = (bucket as u64) & (SUB - 1);
    if row == 0 { step } else { (SUB + step) << (row - 1) }
}

impl Histogram {
    /// Smallest value and count of each bucket that is not empty.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter().enumerate().map(|(i, c)| (floor_of(i), c.get())).filter(|&(_, n)| n > 0)
    }

    /// Adds the count of each bucket to `sums`, which is empty at first.
    pub(crate) fn add_to(&self, sums: &mut Vec<u64>) {
        sums.resize(BUCKETS, 0);
        sums.iter_mut().zip(self.0.iter()).for_each(|(sum, cell)| *sum += cell.get());
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.0.iter().map(Cell::get).sum()
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
}
