//! Replaces the library's `sync`.

use loom::sync::atomic as model;

pub(crate) use crate::mailbox::Mailbox;
pub(crate) use loom::sync::atomic::fence;
pub(crate) use loom::sync::{Mutex, MutexGuard};
pub(crate) use std::sync::atomic::Ordering;

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

pub(crate) fn lock_unbroken<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    mutex.lock().ok()
}

pub(crate) fn try_lock_unbroken<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    mutex.try_lock().ok()
}

/// The checker models sequential consistency of fences only. A fence after each such write and none at reads
/// is what x86 does, and the minimum on other machines.
fn write(order: Ordering, write: impl FnOnce() -> u64) -> u64 {
    let result = write();
    if order == Ordering::SeqCst {
        fence(Ordering::SeqCst);
    }
    result
}

pub(crate) struct AtomicU64(model::AtomicU64);

impl AtomicU64 {
    pub(crate) fn new(value: u64) -> AtomicU64 {
        AtomicU64(model::AtomicU64::new(value))
    }

    pub(crate) fn load(&self, order: Ordering) -> u64 {
        self.0.load(order)
    }

    /// Implemented as a swap: the checker allows more orders between a store and concurrent swaps than
    /// coherent memory does.
    pub(crate) fn store(&self, value: u64, order: Ordering) {
        let release = if order == Ordering::SeqCst { Ordering::Release } else { order };
        write(order, || self.0.swap(value, release));
    }

    pub(crate) fn swap(&self, value: u64, order: Ordering) -> u64 {
        write(order, || self.0.swap(value, order))
    }

    pub(crate) fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
        write(order, || self.0.fetch_add(value, order))
    }
}
