//! A counter that many threads increment, mostly in a cell of their own.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Number of cells. More threads than this share cells.
const CELLS: usize = 16;

/// A cache line and the adjacent one, which processors prefetch together.
#[repr(align(128))]
#[derive(Default)]
struct Cell128(AtomicU64);

/// The counter.
#[derive(Default)]
pub(super) struct Tally([Cell128; CELLS]);

static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static OWN: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The cell of the current thread.
#[inline]
fn own() -> usize {
    OWN.with(|own| {
        if own.get() == usize::MAX {
            own.set(NEXT.fetch_add(1, Ordering::Relaxed) % CELLS);
        }
        own.get()
    })
}

impl Tally {
    #[inline]
    pub(super) fn add(&self, count: u64) {
        self.0[own()].0.fetch_add(count, Ordering::Relaxed);
    }

    /// The sum of all cells.
    pub(super) fn sum(&self) -> u64 {
        self.0.iter().map(|cell| cell.0.load(Ordering::Relaxed)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_lose_no_count() {
        let tally = Tally::default();
        std::thread::scope(|scope| {
            for _ in 0..2 * CELLS {
                scope.spawn(|| (0..1000).for_each(|_| tally.add(1)));
            }
        });
        assert_eq!(tally.sum(), 2 * CELLS as u64 * 1000);
    }
}
