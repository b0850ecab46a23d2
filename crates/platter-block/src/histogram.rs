//! A log-linear histogram with single-writer cells, for latencies in nanoseconds.

use crate::cell::Cell;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Linear steps per power of two: values are resolved to one part in sixteen.
const SUB_BITS: u32 = 4;
const SUB: u64 = 1 << SUB_BITS;
/// Values up to 2^40 ns (18 minutes) are resolved; larger ones share the last bucket.
const TOP_BITS: u32 = 40;
const BUCKETS: usize = ((TOP_BITS - SUB_BITS + 1) as usize) << SUB_BITS;

/// Histogram of u64 values, 592 buckets.
#[derive(Debug)]
pub struct Histogram(Box<[Cell; BUCKETS]>);

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram(Box::new(core::array::from_fn(|_| Cell::default())))
    }
}

fn bucket_of(value: u64) -> usize {
    if value < SUB {
        return value as usize;
    }
    let exponent = u64::BITS - 1 - value.leading_zeros();
    let step = (value >> (exponent - SUB_BITS)) - SUB;
    ((((exponent - SUB_BITS + 1) as usize) << SUB_BITS) + step as usize).min(BUCKETS - 1)
}

/// Smallest value of a bucket.
pub(crate) fn floor_of(bucket: usize) -> u64 {
    let row = (bucket >> SUB_BITS) as u32;
    let step = (bucket as u64) & (SUB - 1);
    if row == 0 { step } else { (SUB + step) << (row - 1) }
}

impl Histogram {
    /// Counts a value. Only one thread at a time may record.
    #[inline]
    pub fn record(&self, value: u64) {
        self.0[bucket_of(value)].add(1);
    }

    /// Counts a value that occurred `count` times. Only one thread at a time may record.
    #[inline]
    pub fn record_many(&self, value: u64, count: u64) {
        self.0[bucket_of(value)].add(count);
    }

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
