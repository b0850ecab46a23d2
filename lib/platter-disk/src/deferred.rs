//! Counts the locks that each thread holds, and runs code of the program after the thread has released the last one.
//!
//! See [`platter_block::deferred`] for why. This is the part that needs threads.

use platter_block::deferred::{self, Deferred, Hooks};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, Once, PoisonError};

/// Mark in the count of a thread: actions are deferred or being run.
const WAITING: u32 = 1 << 31;
const RUNNING: u32 = 1 << 30;
const LOCKS: u32 = RUNNING - 1;

thread_local! {
    /// Number of locks that this thread holds, and the marks above.
    static COUNT: Cell<u32> = const { Cell::new(0) };
    static LIST: RefCell<Vec<Deferred>> = const { RefCell::new(Vec::new()) };
}

/// Actions deferred by threads whose own list is gone because they are ending.
static LATE: Mutex<Vec<Deferred>> = Mutex::new(Vec::new());

static HOOKS: Hooks = Hooks { enter, leave, is_held, defer, run };

/// Makes the core count locks. Called when a device is made, before anything can be deferred.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| deferred::install(&HOOKS));
}

/// This thread is about to take a lock.
#[inline]
fn enter() {
    COUNT.set(COUNT.get() + 1);
}

/// This thread has released a lock.
#[inline]
fn leave() {
    let count = COUNT.get();
    // A lock of a layer that was taken before `install` was not counted.
    let left = if count & LOCKS == 0 { count } else { count - 1 };
    COUNT.set(left);
    // Not while a deferred action runs: the loop that runs it also takes the actions that are added.
    if left == WAITING {
        run_all();
    }
}

/// Whether this thread holds a lock.
#[inline]
fn is_held() -> bool {
    COUNT.get() & LOCKS != 0
}

/// A section of work during which code of the program is deferred, as with a lock held.
///
/// A whole synchronous call is one section: a destructor that ran in the middle of it could wait for something that
/// the call itself holds, such as a place before a barrier or the depth of a `limit`. The downside: buffers that a
/// call drops on behalf of others are kept until it returns.
pub(crate) struct Section(());

impl Section {
    #[inline]
    pub(crate) fn enter() -> Section {
        enter();
        Section(())
    }
}

impl Drop for Section {
    #[inline]
    fn drop(&mut self) {
        leave();
    }
}

/// Makes the fields of a value drop as if a lock was held. For values with a lane: while the lane is partly dropped,
/// it still holds resources of the device (depth, admission), and a destructor of the program could wait for them.
///
/// Place it behind the lane in the list of fields, since fields are dropped in that order; the value's `drop` calls
/// [`begin`](Closing::begin).
#[derive(Default)]
pub(crate) struct Closing(Option<Section>);

impl Closing {
    pub(crate) fn begin(&mut self) {
        self.0 = Some(Section::enter());
    }
}

fn defer(what: Deferred) {
    COUNT.set(COUNT.get() | WAITING);
    let mut what = Some(what);
    let _ = LIST.try_with(|list| list.borrow_mut().extend(what.take()));
    if let Some(what) = what {
        LATE.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }
}

/// Runs an action. A panic of the program's code is reported by the panic hook and caught here: it must not unwind
/// through the library.
fn run(what: Deferred) {
    let _ = catch_unwind(AssertUnwindSafe(|| what.run()));
}

/// Runs all deferred actions, even if some panic.
#[cold]
fn run_all() {
    COUNT.set(RUNNING);
    let mut batch = Vec::new();
    loop {
        let taken = LIST.try_with(|list| std::mem::swap(&mut *list.borrow_mut(), &mut batch)).is_ok();
        if !taken {
            batch.append(&mut LATE.lock().unwrap_or_else(PoisonError::into_inner));
        }
        if batch.is_empty() {
            break;
        }
        batch.drain(..).for_each(run);
    }
    // The longer list is kept, so that deferring does not allocate once the list has grown.
    let _ = LIST.try_with(|list| {
        let mut list = list.borrow_mut();
        if list.capacity() < batch.capacity() {
            *list = batch;
        }
    });
    COUNT.set(0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::lock;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Defers a call if a lock is held.
    fn later(call: impl FnOnce() + Send + 'static) {
        install();
        deferred::later(Deferred::Call(Box::new(call)));
    }

    #[test]
    fn a_panic_keeps_nothing_else_from_being_done() {
        let (outer, inner) = (crate::sync::Mutex::new(()), crate::sync::Mutex::new(()));
        let done = Arc::new(AtomicU32::new(0));
        let guard = lock(&outer);
        {
            let _inner = lock(&inner);
            later(|| panic!("on purpose"));
            let done = Arc::clone(&done);
            later(move || {
                assert!(!is_held());
                done.fetch_add(1, Ordering::SeqCst);
            });
        }
        assert!(is_held());
        assert_eq!(done.load(Ordering::SeqCst), 0);
        drop(guard);
        assert_eq!(done.load(Ordering::SeqCst), 1);
        assert!(!is_held());
    }

    /// Deferred actions may take locks and defer more; all of it is done before the first lock's release returns.
    #[test]
    fn what_is_deferred_may_defer_more() {
        let locks = Arc::new([crate::sync::Mutex::new(()), crate::sync::Mutex::new(())]);
        let done = Arc::new(AtomicU32::new(0));
        let guard = lock(&locks[0]);
        let (again, count) = (Arc::clone(&locks), Arc::clone(&done));
        later(move || {
            let _guard = lock(&again[0]);
            let last = Arc::clone(&count);
            later(move || {
                assert_eq!(last.swap(2, Ordering::SeqCst), 1);
            });
            count.store(1, Ordering::SeqCst);
        });
        drop(guard);
        assert_eq!(done.load(Ordering::SeqCst), 2);
    }

    /// In the destructors of a thread's own variables the list may be gone already.
    #[test]
    fn a_thread_that_ends_still_does_it() {
        struct AtEnd(Arc<crate::sync::Mutex<()>>, Arc<AtomicU32>);
        impl Drop for AtEnd {
            fn drop(&mut self) {
                let _guard = lock(&self.0);
                let count = Arc::clone(&self.1);
                later(move || {
                    count.fetch_add(1, Ordering::SeqCst);
                });
            }
        }
        thread_local! {
            static LAST: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
        }
        let (mutex, count) = (Arc::new(crate::sync::Mutex::new(())), Arc::new(AtomicU32::new(0)));
        let own = Arc::clone(&count);
        let thread = std::thread::spawn(move || {
            // Created first, so that its list is destroyed last or first, depending on the system.
            LAST.set(Some(AtEnd(Arc::clone(&mutex), own)));
            let _guard = lock(&mutex);
            later(|| ());
        });
        thread.join().expect("no panic");
        assert_eq!(count.load(Ordering::SeqCst), 1);
    }
}
