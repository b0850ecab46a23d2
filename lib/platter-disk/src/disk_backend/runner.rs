//! One runner at a time: a thread with work for a shared state tries its lock; the thread that holds the lock
//! also does the work of those that did not get it. It does so for a limited number of rounds, because others might keep it
//! at work for ever. Then it leaves what remains to a thread that it calls.
//!
//! Example: thread A holds the lock and dispatches. Thread B puts a bio into the inbox, sets `kicked`, finds the lock taken and goes away, to sleep or to
//! do something else. A ends its round, finds `kicked`, and does another round, in which it takes B's bio. Had A released the lock just before B set the
//! flag, B would have got the lock; had B set it just before, A would have seen it: one of the two does the work.

use crate::sync::{AtomicBool, Mutex, MutexGuard, Ordering, fence};
use std::sync::TryLockError;

pub(crate) struct Runner<T> {
    state: Mutex<T>,
    kicked: AtomicBool,
    /// Most rounds that a thread works in a row.
    rounds: u32,
}

impl<T> Runner<T> {
    /// A state for which a thread works at most `rounds` rounds in a row, but at least one.
    pub(crate) fn new(state: T, rounds: u32) -> Runner<T> {
        Runner { state: Mutex::new(state), kicked: AtomicBool::new(false), rounds: rounds.max(1) }
    }

    /// Ensures that work runs after this call began, by this thread, by the one that holds the lock, or by one that is
    /// called with `leave`. Returns whether this thread ran it.
    ///
    /// `step` is called with the state to do the work. If it returns `true`, the lock is released, and `step` is called
    /// without the state, for what need not be done under the lock.
    ///
    /// `leave` is called, without the lock, if there is more work than the rounds of this thread are enough for. It has to
    /// bring about another call of `run` or [`with`](Runner::with).
    pub(crate) fn run(&self, step: impl FnMut(Option<&mut T>) -> bool, leave: impl FnOnce()) -> bool {
        self.kicked.store(true, Ordering::SeqCst);
        self.run_kicked(step, leave, self.rounds)
    }

    /// The same at once, if the lock is free. So work that only this thread can see need not be put where the thread that
    /// holds the lock would find it. `false`: nothing was called, and [`run`](Runner::run) follows when the work is there.
    #[inline]
    pub(crate) fn run_at_once(
        &self,
        mut step: impl FnMut(Option<&mut T>) -> bool,
        leave: impl FnOnce(),
    ) -> bool {
        let Some(mut state) = self.try_lock() else { return false };
        // This round is for those, too, that have set the flag before.
        if self.kicked.load(Ordering::Relaxed) {
            self.kicked.swap(false, Ordering::SeqCst);
        }
        let has_rest = step(Some(&mut state));
        drop(state);
        // As in `run_kicked`.
        fence(Ordering::SeqCst);
        if has_rest {
            step(None);
        }
        if self.kicked.load(Ordering::SeqCst) {
            self.run_kicked(step, leave, self.rounds - 1);
        }
        true
    }

    /// Has the thread that holds the lock, which is this one, work once more.
    pub(crate) fn again(&self) {
        self.kicked.store(true, Ordering::SeqCst);
    }

    /// Does the work of threads that did not get the lock.
    fn run_kicked(
        &self,
        mut step: impl FnMut(Option<&mut T>) -> bool,
        leave: impl FnOnce(),
        rounds: u32,
    ) -> bool {
        let mut left = rounds;
        while self.kicked.load(Ordering::SeqCst) {
            if left == 0 {
                leave();
                break;
            }
            let Some(mut state) = self.try_lock() else { break };
            let mut has_rest = false;
            while !has_rest && left > 0 && self.kicked.swap(false, Ordering::SeqCst) {
                has_rest = step(Some(&mut state));
                left -= 1;
            }
            drop(state);
            // A thread that found the lock taken has set the flag before; without this fence the release of
            // the lock would not be ordered before the check of the flag that follows.
            fence(Ordering::SeqCst);
            if has_rest {
                step(None);
            }
        }
        left < rounds
    }

    /// Waits for the lock, for work that cannot be left to another thread; then does the work of threads that
    /// did not get it in the meantime. `leave` is as for [`run`](Runner::run).
    #[track_caller]
    pub(crate) fn with<R>(
        &self,
        visit: impl FnOnce(&mut T) -> R,
        work: impl FnMut(&mut T),
        leave: impl FnOnce(),
    ) -> R {
        let result = visit(&mut crate::sync::lock(&self.state));
        fence(Ordering::SeqCst);
        let mut work = work;
        let step = |state: Option<&mut T>| {
            state.into_iter().for_each(&mut work);
            false
        };
        self.run_kicked(step, leave, self.rounds);
        result
    }

    #[inline]
    fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}
