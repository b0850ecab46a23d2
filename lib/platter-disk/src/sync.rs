//! Locks and atomics, in one place so that a model checker can replace them.

use crate::deferred::Section;
use crate::lock_meter::{self, Hold, Taken};
use std::ops::{Deref, DerefMut};
use std::panic::Location;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{PoisonError, TryLockError};
use std::time::Duration;

mod metered;

use metered::taken_again;

/// A lock that counts as held by its thread, so that no code of the program runs while it is held.
#[derive(Default)]
pub(crate) struct Mutex<T>(std::sync::Mutex<T>);

/// A held [`Mutex`]. Actions that were deferred run after its release.
pub(crate) struct MutexGuard<'a, T> {
    // Fields drop in this order: the lock is released before it stops counting.
    hold: Hold,
    guard: std::sync::MutexGuard<'a, T>,
    _section: Section,
}

#[cfg(test)]
thread_local! {
    /// How often this thread has taken a lock, for tests.
    pub(crate) static TAKEN: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// This thread takes a lock.
#[inline]
fn count() {
    #[cfg(test)]
    TAKEN.set(TAKEN.get() + 1);
}

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Mutex<T> {
        Mutex(std::sync::Mutex::new(value))
    }

    /// Takes the lock if it is free.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn try_lock(&self) -> Result<MutexGuard<'_, T>, TryLockError<MutexGuard<'_, T>>> {
        let section = Section::enter();
        count();
        let tried = self.0.try_lock();
        if lock_meter::is_on() {
            let taken = if let Err(TryLockError::WouldBlock) = tried { Taken::Not } else { Taken::AtOnce };
            lock_meter::taken::<T>(Location::caller(), &taken);
        }
        match tried {
            Ok(guard) => Ok(MutexGuard { hold: Hold::begin(), guard, _section: section }),
            Err(TryLockError::Poisoned(poisoned)) => {
                let guard = poisoned.into_inner();
                let guard = MutexGuard { hold: Hold::begin(), guard, _section: section };
                Err(TryLockError::Poisoned(PoisonError::new(guard)))
            }
            Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
        }
    }
}

/// Takes the lock even if a thread panicked while it held it: the queues' own state is consistent between
/// calls.
#[inline]
#[track_caller]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    let section = Section::enter();
    count();
    let guard = match lock_meter::is_on() {
        true => mutex.lock_metered(Location::caller()),
        false => mutex.0.lock().unwrap_or_else(PoisonError::into_inner),
    };
    MutexGuard { hold: Hold::begin(), guard, _section: section }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// Waits for a change that another thread makes under a [`Mutex`].
#[derive(Default)]
pub(crate) struct Condvar(std::sync::Condvar);

impl Condvar {
    pub(crate) const fn new() -> Condvar {
        Condvar(std::sync::Condvar::new())
    }

    /// Releases the lock and waits for a notification; may wake without one.
    #[track_caller]
    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let MutexGuard { hold, guard, _section } = guard;
        drop(hold);
        let guard = self.0.wait(guard).unwrap_or_else(PoisonError::into_inner);
        MutexGuard { hold: taken_again::<T>(Location::caller()), guard, _section }
    }

    /// The same, for at most `time`.
    #[track_caller]
    pub(crate) fn wait_for<'a, T>(&self, guard: MutexGuard<'a, T>, time: Duration) -> MutexGuard<'a, T> {
        let MutexGuard { hold, guard, _section } = guard;
        drop(hold);
        let (guard, _) = self.0.wait_timeout(guard, time).unwrap_or_else(PoisonError::into_inner);
        MutexGuard { hold: taken_again::<T>(Location::caller()), guard, _section }
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// A cell whose owner ensures that no two threads access it at the same time.
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> UnsafeCell<T> {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    /// Calls `access` with a pointer to the value.
    #[inline]
    pub(crate) fn with_mut<R>(&self, access: impl FnOnce(*mut T) -> R) -> R {
        access(self.0.get())
    }
}
