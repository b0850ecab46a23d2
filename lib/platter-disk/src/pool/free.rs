//! Free slots of a pool: a stack of numbers that any thread can push to and pop from without a lock.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// End of the list.
const NONE: u32 = u32::MAX;

/// Treiber's stack (1986) over indices. The last number freed is popped first, while its buffer is still in
/// the cache. The upper half of the head counts the changes, so that a head which was popped and pushed again
/// (ABA) differs from the old one; a thread would have to sleep through 2^32 changes to mistake it.
pub(super) struct FreeList {
    head: AtomicU64,
    /// For each number, the one below it.
    next: Box<[AtomicU32]>,
}

impl FreeList {
    /// A list in which all of `0..count` are free.
    pub(super) fn new(count: u32) -> FreeList {
        let next = (0..count).map(|i| AtomicU32::new(if i + 1 < count { i + 1 } else { NONE })).collect();
        FreeList { head: AtomicU64::new(u64::from(if count == 0 { NONE } else { 0 })), next }
    }

    /// Pops a number.
    #[inline]
    pub(super) fn pop(&self) -> Option<u32> {
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let first = head as u32;
            // The value may be stale if another thread was faster; the count in the head then makes the
            // exchange fail.
            let below = self.next.get(first as usize)?.load(Ordering::Relaxed);
            let new = changed(head) | u64::from(below);
            match self.head.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(first),
                Err(now) => head = now,
            }
        }
    }

    /// Pushes back a number that was popped.
    #[inline]
    pub(super) fn push(&self, number: u32) {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            self.next[number as usize].store(head as u32, Ordering::Relaxed);
            let new = changed(head) | u64::from(number);
            match self.head.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }
}

/// The change count of the next head.
fn changed(head: u64) -> u64 {
    ((head >> 32).wrapping_add(1)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn all_come_out_once_and_the_last_freed_first() {
        let list = FreeList::new(3);
        let mut out: Vec<u32> = std::iter::from_fn(|| list.pop()).collect();
        list.push(out[1]);
        list.push(out[0]);
        assert_eq!((list.pop(), list.pop(), list.pop()), (Some(out[0]), Some(out[1]), None));
        out.sort_unstable();
        assert_eq!(out, [0, 1, 2]);
        assert_eq!(FreeList::new(0).pop(), None);
    }

    #[test]
    fn threads_never_hold_the_same_number() {
        const THREADS: usize = 4;
        let list = FreeList::new(3);
        let held: Vec<AtomicBool> = (0..3).map(|_| AtomicBool::new(false)).collect();
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let Some(number) = list.pop() else { continue };
                        assert!(!held[number as usize].swap(true, Ordering::Relaxed));
                        held[number as usize].store(false, Ordering::Relaxed);
                        list.push(number);
                    }
                });
            }
        });
        assert_eq!(std::iter::from_fn(|| list.pop()).count(), 3);
    }
}
