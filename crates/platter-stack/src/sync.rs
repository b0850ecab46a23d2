//! Locks and atomics in one place, so that a model checker can replace them.

use platter_block::deferred::Held;
pub use std::sync::Mutex;
pub use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{PoisonError, TryLockError};

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

/// Locks, unless another thread holds the lock; also after a panic, as [`lock`] does.
pub fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    Held::try_new(|| match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    })
}
