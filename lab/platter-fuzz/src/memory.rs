//! Counts the allocations of a thread, to find parsers that use much more memory than their input.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The allocations of a piece of work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Most bytes at once.
    pub peak: usize,
    /// Calls of the allocator.
    pub calls: u64,
}

thread_local! {
    /// Bytes that the current work holds. It may free memory that was allocated before, so this may be
    /// negative.
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
    static CALLS: Cell<u64> = const { Cell::new(0) };
    /// Bytes beyond which allocation fails, which ends the process; 0: no work is under way.
    static LIMIT: Cell<isize> = const { Cell::new(0) };
}

/// The system's allocator, counting.
pub struct Counting;

/// Whether an allocation may be made, which is then counted.
fn count(bytes: usize) -> bool {
    CALLS.set(CALLS.get() + 1);
    let held = HELD.get().wrapping_add_unsigned(bytes);
    if LIMIT.get() > 0 && held > LIMIT.get() {
        return false;
    }
    HELD.set(held);
    PEAK.set(PEAK.get().max(held));
    true
}

fn uncount(bytes: usize) {
    HELD.set(HELD.get().wrapping_sub_unsigned(bytes));
}

// SAFETY: every call is passed to the system's allocator with the same arguments. The counters are
// thread-local cells without destructors, which can be used at any time of the thread's life and do not
// allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `alloc`.
        if count(layout.size()) { unsafe { System.alloc(layout) } } else { std::ptr::null_mut() }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        if count(layout.size()) { unsafe { System.alloc_zeroed(layout) } } else { std::ptr::null_mut() }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !count(size) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps the contract of `realloc`.
        let new = unsafe { System.realloc(ptr, layout, size) };
        uncount(if new.is_null() { size } else { layout.size() });
        new
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        uncount(layout.size());
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `work` and returns its allocations on this thread. If it would hold more than `limit` bytes at once
/// the process ends, as when the system has no memory.
pub fn measured<R>(limit: usize, work: impl FnOnce() -> R) -> (R, Usage) {
    HELD.set(0);
    PEAK.set(0);
    CALLS.set(0);
    LIMIT.set(isize::try_from(limit).unwrap_or(isize::MAX));
    let result = work();
    LIMIT.set(0);
    (result, Usage { peak: PEAK.get().unsigned_abs(), calls: CALLS.get() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peak_and_calls_are_counted() {
        let ((), usage) = measured(1 << 30, || {
            for _ in 0..3 {
                drop(std::hint::black_box(vec![0u8; 1 << 20]));
            }
            let mut grows = std::hint::black_box(Vec::with_capacity(10));
            grows.resize(1 << 16, 0u8);
        });
        assert_eq!(usage, Usage { peak: 1 << 20, calls: 5 });
    }
}
