//! Code of the program never runs while a lock of the library is held.
//!
//! Buffers are dropped, wakers woken and watchers told in the middle of the work on queues, often below a lock. Code of
//! the program that ran there could call the library and wait for that same lock. So each lock counts itself for its
//! thread ([`Held`]), and whatever runs code of the program goes through [`later`]: with no lock held it happens at
//! once, else when the thread has released its last one.
//!
//! The count is per thread, which this crate cannot have by itself (it is `no_std`): [`install`] gives it the functions
//! of a crate that can. Without them nothing is counted and everything happens at once, which is right for programs
//! that have no locks.

use crate::owner::Owner;
use alloc::boxed::Box;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicPtr, Ordering};
use core::task::Waker;

/// Something that runs code of the program.
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
    /// Does it. The caller holds no lock of the library.
    pub fn run(self) {
        match self {
            Deferred::Drop(owner) => owner.drop_now(),
            Deferred::Wake(waker) => waker.wake(),
            Deferred::Forget(waker) => drop(waker),
            Deferred::Call(call) => call(),
        }
    }
}

/// How a crate with threads counts the locks that a thread holds.
pub struct Hooks {
    /// This thread is about to take a lock.
    pub enter: fn(),
    /// This thread has released a lock; with the last one, what was deferred happens.
    pub leave: fn(),
    /// Whether this thread holds a lock.
    pub is_held: fn() -> bool,
    /// Keeps something until this thread has released its last lock.
    pub defer: fn(Deferred),
    /// Does something now. A panic ends there, so that it does not unwind through a queue.
    pub run: fn(Deferred),
}

static HOOKS: AtomicPtr<Hooks> = AtomicPtr::new(core::ptr::null_mut());

/// Gives the crate a way to count locks per thread. Once it is set, it stays; later calls are ignored.
pub fn install(hooks: &'static Hooks) {
    let hooks = core::ptr::from_ref(hooks).cast_mut();
    // An error means that hooks are set already.
    let _ = HOOKS.compare_exchange(core::ptr::null_mut(), hooks, Ordering::Release, Ordering::Relaxed);
}

#[inline]
fn hooks() -> Option<&'static Hooks> {
    let hooks = HOOKS.load(Ordering::Acquire);
    // SAFETY: null, or a `&'static Hooks` that `install` stored; nobody writes through it.
    unsafe { hooks.as_ref() }
}

/// Whether this thread holds a lock of the library, so that code of the program must wait.
#[inline]
pub fn is_held() -> bool {
    hooks().is_some_and(|hooks| (hooks.is_held)())
}

/// Does something that runs code of the program: now if this thread holds no lock of the library, else when it has
/// released its last one. A panic is reported and goes no further, where the hooks can see to that.
pub fn later(what: Deferred) {
    match hooks() {
        Some(hooks) if (hooks.is_held)() => (hooks.defer)(what),
        Some(hooks) => (hooks.run)(what),
        None => what.run(),
    }
}

/// Counts as one lock for as long as it lives.
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

/// A lock's guard that counts: what is deferred happens after it was released.
pub struct Held<G> {
    // Dropped in this order: the lock is released before it stops counting.
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

    /// Exchanges the guard for what `wait` makes of it: a wait on a condition variable.
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
