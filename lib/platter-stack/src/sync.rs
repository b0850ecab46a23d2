//! Locks and atomics in one place, so that a model checker can replace them.

use platter_block::deferred::Held;
pub use platter_wait::Mailbox;
pub use std::sync::Mutex;
use std::sync::PoisonError;
pub use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// A guard that is counted while it is held, so that no foreign code (such as the destructor of a buffer)
/// runs before it is released.
pub type MutexGuard<'a, T> = Held<std::sync::MutexGuard<'a, T>>;

/// Locks, even after a panic in another thread: the data behind these locks is consistent between calls.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    Held::new(|| mutex.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Locks, unless a panic in another thread may have left the data behind the lock inconsistent.
pub fn lock_unbroken<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    Held::try_new(|| mutex.lock().ok())
}

/// Locks, unless another thread holds the lock or a panic may have left the data behind it inconsistent.
pub fn try_lock_unbroken<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    Held::try_new(|| mutex.try_lock().ok())
}
