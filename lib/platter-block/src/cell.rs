//! A counter that one thread writes and others read. Counters and histograms are made of it.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A count with one writer at a time and any number of readers: adding is a load and a store, not an atomic
/// read-modify-write.
#[derive(Debug, Default)]
pub struct Cell(AtomicU64);

impl Cell {
    /// Adds `n`. Only one thread at a time may add.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Sets the count to `n` if it is less. Only one thread at a time may write.
    #[inline]
    pub fn raise(&self, n: u64) {
        if n > self.get() {
            self.set(n);
        }
    }

    /// Sets the count. Only one thread at a time may write.
    #[inline]
    pub fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }

    /// The count.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
