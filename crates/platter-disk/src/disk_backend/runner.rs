//! One runner at a time: a thread with work for a shared state tries its lock; the thread that holds the lock
//! also does the work of those that did not get it.

use crate::sync::{AtomicBool, Mutex, MutexGuard, Ordering, fence};
use std::sync::TryLockError;

pub(crate) struct Runner<T> {
    state: Mutex<T>,
    kicked: AtomicBool,
}

impl<T> Runner<T> {
    pub(crate) fn new(state: T) -> Runner<T> {
        Runner { state: Mutex::new(state), kicked: AtomicBool::new(false) }
    }

    /// Ensures that work runs after this call began, by this thread or by the one that holds the lock. Returns whether
    /// this thread ran it.
    ///
    /// `step` is called with the state to do the work. If it returns `true`, the lock is released, and `step` is called
    /// without the state, for what need not be done under the lock.
    pub(crate) fn run(&self, step: impl FnMut(Option<&mut T>) -> bool) -> bool {
        self.kicked.store(true, Ordering::SeqCst);
        self.run_kicked(step)
    }

    /// Has the thread that holds the lock, which is this one, work once more.
    pub(crate) fn again(&self) {
        self.kicked.store(true, Ordering::SeqCst);
    }

    /// Does the work of threads that did not get the lock.
    fn run_kicked(&self, mut step: impl FnMut(Option<&mut T>) -> bool) -> bool {
        let mut ran = false;
        while self.kicked.load(Ordering::SeqCst) {
            let Some(mut state) = self.try_lock() else { return ran };
            let mut has_rest = false;
            while !has_rest && self.kicked.swap(false, Ordering::SeqCst) {
                has_rest = step(Some(&mut state));
                ran = true;
            }
            drop(state);
            // A thread that found the lock taken has set the flag before; without this fence the release of
            // the lock would not be ordered before the check of the flag that follows.
            fence(Ordering::SeqCst);
            if has_rest {
                step(None);
            }
        }
        ran
    }

    /// Waits for the lock, for work that cannot be left to another thread; then does the work of threads that
    /// did not get it in the meantime.
    #[track_caller]
    pub(crate) fn with<R>(&self, visit: impl FnOnce(&mut T) -> R, work: impl FnMut(&mut T)) -> R {
        let result = visit(&mut crate::sync::lock(&self.state));
        fence(Ordering::SeqCst);
        let mut work = work;
        self.run_kicked(|state| {
            state.into_iter().for_each(&mut work);
            false
        });
        result
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}
