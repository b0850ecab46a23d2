//! Defers code of the program until its thread holds no lock of the library.
//!
//! The library drops buffers, wakes tasks and notifies watchers while it works on queues, often with a lock held.
//! Code of the program that ran at that point could call the library and wait for the same lock. Each lock therefore
//! counts itself for its thread ([`Held`]), and all code of the program is run through [`later`]: at once if the
//! thread holds no lock, otherwise when the thread releases its last one.
//!
//! The count is per thread, which a `no_std` crate cannot implement: [`install`] supplies the functions of a crate
//! that can. Without them nothing is counted and everything runs at once, which is right for programs without locks.

use crate::owner::Owner;
use alloc::boxed::Box;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicPtr, Ordering};
use core::task::Waker;

/// An action that runs code of the program.
pub enum Deferred {
    /// Drop the owner of the memory of a bio.
    Drop(Owner),
    /// Wake a task.
    Wake(Waker),
    /// Drop a waker, which may drop the task that it belongs to.
    Forget(Waker),
    /// Call a function of the program, or of a layer above.
    Call(Box<dyn FnOnce() + Send>),
}

impl Deferred {
    /// Runs the action. The caller must hold no lock of the library.
    pub fn run(self) {
        match self {
            Deferred::Drop(owner) => owner.drop_now(),
            Deferred::Wake(waker) => waker.wake(),
            Deferred::Forget(waker) => drop(waker),
            Deferred::Call(call) => call(),
        }
    }
}

/// Functions of a crate with threads that count the locks held by a thread.
pub struct Hooks {
    /// This thread is about to take a lock.
    pub enter: fn(),
    /// This thread has released a lock; after the last one, deferred actions run.
    pub leave: fn(),
    /// Whether this thread holds a lock.
    pub is_held: fn() -> bool,
    /// Keeps an action until this thread has released its last lock.
    pub defer: fn(Deferred),
    /// Runs an action now. A panic is caught, so that it does not unwind through a queue.
    pub run: fn(Deferred),
}

static HOOKS: AtomicPtr<Hooks> = AtomicPtr::new(core::ptr::null_mut());

/// Installs the functions that count locks per thread. Later calls are ignored.
pub fn install(hooks: &'static Hooks) {
    let hooks = core::ptr::from_ref(hooks).cast_mut();
    // An error means that hooks are already installed.
    let _ = HOOKS.compare_exchange(core::ptr::null_mut(), hooks, Ordering::Release, Ordering::Relaxed);
}

#[inline]
fn hooks() -> Option<&'static Hooks> {
    let hooks = HOOKS.load(Ordering::Acquire);
    // SAFETY: null, or a `&'static Hooks` stored by `install`; nothing writes through it.
    unsafe { hooks.as_ref() }
}

/// Whether this thread holds a lock of the library, so that code of the program must be deferred.
#[inline]
pub fn is_held() -> bool {
    hooks().is_some_and(|hooks| (hooks.is_held)())
}

/// Runs an action that calls code of the program: now if this thread holds no lock of the library, otherwise when it
/// has released its last one. If hooks are installed, a panic is reported and does not propagate.
pub fn later(what: Deferred) {
    match hooks() {
        Some(hooks) if (hooks.is_held)() => (hooks.defer)(what),
        Some(hooks) => (hooks.run)(what),
        None => what.run(),
    }
}

/// Counts as one held lock until it is dropped.
pub struct Depth(());

impl Depth {
    /// Counts one more lock of this thread.
    #[inline]
    pub fn enter() -> Depth {
        if let Some(hooks) = hooks() {
            (hooks.enter)();
        }
        Depth(())
    }
}

impl Drop for Depth {
    #[inline]
    fn drop(&mut self) {
        if let Some(hooks) = hooks() {
            (hooks.leave)();
        }
    }
}

/// A lock guard that counts as held. Deferred actions run after the lock is released.
pub struct Held<G> {
    // Fields drop in this order: the lock is released before it stops counting.
    guard: G,
    depth: Depth,
}

impl<G> Held<G> {
    /// Takes a lock with `lock`.
    #[inline]
    pub fn new(lock: impl FnOnce() -> G) -> Held<G> {
        let depth = Depth::enter();
        Held { guard: lock(), depth }
    }

    /// Tries to take a lock with `lock`.
    #[inline]
    pub fn try_new(lock: impl FnOnce() -> Option<G>) -> Option<Held<G>> {
        let depth = Depth::enter();
        lock().map(|guard| Held { guard, depth })
    }

    /// Passes the guard to `wait` and keeps the one that it returns, as a wait on a condition variable needs.
    #[inline]
    pub fn map<R>(self, wait: impl FnOnce(G) -> (G, R)) -> (Held<G>, R) {
        let Held { guard, depth } = self;
        let (guard, result) = wait(guard);
        (Held { guard, depth }, result)
    }
}

impl<G: Deref> Deref for Held<G> {
    type Target = G::Target;

    #[inline]
    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for Held<G> {
    #[inline]
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::sync::Arc;
    use core::cell::{Cell, RefCell};
    use std::sync::Mutex;
    use std::thread_local;
    use std::vec::Vec;

    thread_local! {
        static DEPTH: Cell<u32> = const { Cell::new(0) };
        static WAITING: RefCell<Vec<Deferred>> = const { RefCell::new(Vec::new()) };
    }

    static COUNTING: Hooks = Hooks {
        enter: || DEPTH.set(DEPTH.get() + 1),
        leave: || {
            DEPTH.set(DEPTH.get() - 1);
            if DEPTH.get() == 0 {
                WAITING.take().into_iter().for_each(Deferred::run);
            }
        },
        is_held: || DEPTH.get() > 0,
        defer: |what| WAITING.with_borrow_mut(|list| list.push(what)),
        run: Deferred::run,
    };

    #[test]
    fn an_owner_goes_when_the_last_lock_is_released() {
        install(&COUNTING);
        let (value, outer, inner) = (Arc::new(()), Mutex::new(()), Mutex::new(()));
        let first = Held::new(|| outer.lock().unwrap());
        let second = Held::new(|| inner.lock().unwrap());
        assert!(is_held());
        drop(Owner::new(Arc::clone(&value)));
        drop(second);
        assert_eq!(Arc::strong_count(&value), 2, "one lock is still held");
        drop(first);
        assert_eq!(Arc::strong_count(&value), 1);
        assert!(!is_held());
        drop(Owner::new(Arc::clone(&value)));
        assert_eq!(Arc::strong_count(&value), 1, "without a lock it goes at once");
    }

    #[test]
    fn what_the_library_owns_itself_goes_at_once() {
        install(&COUNTING);
        let (value, lock) = (Arc::new(()), Mutex::new(()));
        let held = Held::new(|| lock.lock().unwrap());
        drop(Owner::internal(Arc::clone(&value)));
        assert_eq!(Arc::strong_count(&value), 1);
        drop(held);
    }

    #[test]
    fn a_lock_that_is_not_had_does_not_count() {
        install(&COUNTING);
        let lock = Mutex::new(());
        let held = lock.lock().unwrap();
        let tried = Held::try_new(|| lock.try_lock().ok());
        assert!(tried.is_none() && !is_held());
        drop(held);
    }
}
