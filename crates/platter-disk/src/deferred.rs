//! Counts the locks that each thread holds, and runs code of the program when it has released the last one.
//!
//! See [`platter_block::deferred`] for why. This is the part that needs threads.

use platter_block::deferred::{self, Deferred, Hooks};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, Once, PoisonError};

/// In the count of a thread: something is deferred, or is being done.
const WAITING: u32 = 1 << 31;
const RUNNING: u32 = 1 << 30;
const LOCKS: u32 = RUNNING - 1;

thread_local! {
    /// Locks that this thread holds, and the marks above.
    static COUNT: Cell<u32> = const { Cell::new(0) };
    static LIST: RefCell<Vec<Deferred>> = const { RefCell::new(Vec::new()) };
}

/// What threads deferred whose list is gone because they are ending.
static LATE: Mutex<Vec<Deferred>> = Mutex::new(Vec::new());

static HOOKS: Hooks = Hooks { enter, leave, is_held, defer, run };

/// Makes the core count locks. Called where a device is made, before anything can be deferred.
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
    // Not while something deferred runs: the loop that runs it takes what is added.
    if left == WAITING {
        run_all();
    }
}

/// Whether this thread holds a lock.
#[inline]
fn is_held() -> bool {
    COUNT.get() & LOCKS != 0
}

/// A stretch of work during which code of the program waits, as with a lock held.
///
/// A synchronous call is one as a whole: a destructor that ran in the middle of it could wait for what the call itself
/// holds, a place before a barrier or the depth of a `limit`. The price is that what a call drops for others stays
/// until it returns.
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

/// Has the fields of a value dropped as if a lock was held. For values with a lane: as long as only a part of the lane is
/// gone, what it holds of the device (depth, admission) is not given back, and a destructor of the program could wait
/// for just that.
///
/// Goes behind the lane in the list of fields, since fields are dropped in that order; the value's `drop` calls
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

/// Does something that was, or need not be, deferred. A panic of the program's code is reported by the panic hook and
/// ends here: it must not unwind through the work of the library.
fn run(what: Deferred) {
    let _ = catch_unwind(AssertUnwindSafe(|| what.run()));
}

/// Does what was deferred, all of it, whatever panics.
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
    // The longer list is kept, so that deferring does not allocate once it has grown.
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

    /// Defers a call, if a lock is held.
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

    /// What runs may take locks and defer more; all of it is done before the first lock's release returns.
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
            // Made first, so that its list goes last or first, whichever the system chooses.
            LAST.set(Some(AtEnd(Arc::clone(&mutex), own)));
            let _guard = lock(&mutex);
            later(|| ());
        });
        thread.join().expect("no panic");
        assert_eq!(count.load(Ordering::SeqCst), 1);
    }
}
