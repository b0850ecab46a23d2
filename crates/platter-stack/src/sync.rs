//! Locks and atomics, in one place so that a model checker can stand in for them.

use platter_block::deferred::Held;
pub(crate) use std::sync::Mutex;
use std::sync::PoisonError;
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A lock that is held and counted, so that no code of the program (the destructor of a buffer) runs before it is
/// released.
pub(crate) type MutexGuard<'a, T> = Held<std::sync::MutexGuard<'a, T>>;

/// Locks, also after a panic elsewhere: what is behind these locks is consistent between calls.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    Held::new(|| mutex.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Locks, unless a panic elsewhere has left what is behind the lock in the middle of something.
pub(crate) fn lock_unbroken<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    Held::try_new(|| mutex.lock().ok())
}
