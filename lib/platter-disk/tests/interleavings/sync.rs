//! Replaces the library's `sync`.

use loom::sync::atomic as model;

pub(crate) use loom::cell::UnsafeCell;
pub(crate) use loom::sync::atomic::fence;
pub(crate) use loom::sync::{Mutex, MutexGuard};
pub(crate) use std::sync::atomic::Ordering;
use std::time::Duration;

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A condition variable like the library's. No time passes in the checker.
pub(crate) struct Condvar(loom::sync::Condvar);

impl Condvar {
    pub(crate) fn new() -> Condvar {
        Condvar(loom::sync::Condvar::new())
    }

    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(crate) fn wait_for<'a, T>(&self, guard: MutexGuard<'a, T>, _: Duration) -> MutexGuard<'a, T> {
        self.wait(guard)
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// The checker implements sequential consistency only for fences. A fence after each such write and none at
/// reads is what x86 does, and the minimum on other machines.
fn write<T>(order: Ordering, write: impl FnOnce() -> T) -> T {
    let result = write();
    if order == Ordering::SeqCst {
        fence(Ordering::SeqCst);
    }
    result
}

pub(crate) struct AtomicBool(model::AtomicBool);

impl AtomicBool {
    pub(crate) fn new(value: bool) -> AtomicBool {
        AtomicBool(model::AtomicBool::new(value))
    }

    pub(crate) fn load(&self, order: Ordering) -> bool {
        self.0.load(order)
    }

    /// Implemented as a swap: the checker leaves the order between a store and concurrent swaps open, beyond
    /// what coherent memory does.
    pub(crate) fn store(&self, value: bool, order: Ordering) {
        let release = if order == Ordering::SeqCst { Ordering::Release } else { order };
        write(order, || self.0.swap(value, release));
    }

    pub(crate) fn swap(&self, value: bool, order: Ordering) -> bool {
        write(order, || self.0.swap(value, order))
    }
}

macro_rules! number {
    ($name:ident, $of:ty) => {
        pub(crate) struct $name(model::$name);

        #[allow(dead_code, reason = "each piece uses some of them")]
        impl $name {
            pub(crate) fn new(value: $of) -> $name {
                $name(model::$name::new(value))
            }

            pub(crate) fn load(&self, order: Ordering) -> $of {
                self.0.load(order)
            }

            pub(crate) fn store(&self, value: $of, order: Ordering) {
                write(order, || self.0.store(value, order));
            }

            pub(crate) fn swap(&self, value: $of, order: Ordering) -> $of {
                write(order, || self.0.swap(value, order))
            }

            pub(crate) fn fetch_add(&self, value: $of, order: Ordering) -> $of {
                write(order, || self.0.fetch_add(value, order))
            }

            pub(crate) fn fetch_sub(&self, value: $of, order: Ordering) -> $of {
                write(order, || self.0.fetch_sub(value, order))
            }

            pub(crate) fn fetch_or(&self, value: $of, order: Ordering) -> $of {
                write(order, || self.0.fetch_or(value, order))
            }

            pub(crate) fn fetch_and(&self, value: $of, order: Ordering) -> $of {
                write(order, || self.0.fetch_and(value, order))
            }

            pub(crate) fn compare_exchange(
                &self,
                current: $of,
                new: $of,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$of, $of> {
                write(success, || self.0.compare_exchange(current, new, success, failure))
            }

            pub(crate) fn compare_exchange_weak(
                &self,
                current: $of,
                new: $of,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$of, $of> {
                write(success, || self.0.compare_exchange_weak(current, new, success, failure))
            }
        }
    };
}

number!(AtomicI32, i32);
number!(AtomicU32, u32);
number!(AtomicU64, u64);
