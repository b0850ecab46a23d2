//! Taking locks while they are measured.

use super::Mutex;
use crate::clock;
use crate::lock_meter::{self, Hold, Taken};
use std::panic::Location;
use std::sync::{PoisonError, TryLockError};

impl<T> Mutex<T> {
    /// Takes the lock and measures that.
    #[cold]
    pub(super) fn lock_metered(&self, place: &'static Location<'static>) -> std::sync::MutexGuard<'_, T> {
        let (guard, taken) = match self.0.try_lock() {
            Ok(guard) => (guard, Taken::AtOnce),
            Err(TryLockError::Poisoned(poisoned)) => (poisoned.into_inner(), Taken::AtOnce),
            Err(TryLockError::WouldBlock) => {
                let asked = clock::now();
                (self.0.lock().unwrap_or_else(PoisonError::into_inner), Taken::Since(asked))
            }
        };
        lock_meter::taken::<T>(place, &taken);
        guard
    }
}

/// A condition variable has taken the lock again. Whether it had to wait for the lock cannot be seen.
pub(super) fn taken_again<T>(place: &'static Location<'static>) -> Hold {
    if lock_meter::is_on() {
        lock_meter::taken::<T>(place, &Taken::AtOnce);
    }
    Hold::begin()
}
