//! Records when a thread has the locks of layers, for models of more processors than a machine has.
//!
//! Only between [`record`] and [`take`], on the thread that calls them. At other times a lock costs one test of a flag more.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// A time for which a thread had a lock.
#[derive(Clone, Copy, Debug)]
pub struct LockTime {
    /// Tells locks apart: the address of what it protects.
    pub lock: usize,
    /// When the thread had got it.
    pub from: Instant,
    /// When it released it.
    pub until: Instant,
}

/// Threads that record.
static RECORDERS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static TIMES: RefCell<Option<Vec<LockTime>>> = const { RefCell::new(None) };
}

/// Records the locks of this thread from now on.
pub fn record() {
    TIMES.with_borrow_mut(|times| {
        if times.replace(Vec::new()).is_none() {
            RECORDERS.fetch_add(1, Ordering::Relaxed);
        }
    });
}

/// What was recorded on this thread, in the order of releases. Nothing more is recorded.
pub fn take() -> Vec<LockTime> {
    TIMES.with_borrow_mut(|times| {
        let taken = times.take();
        if taken.is_some() {
            RECORDERS.fetch_sub(1, Ordering::Relaxed);
        }
        taken.unwrap_or_default()
    })
}

/// A lock has been taken: since when, if that is recorded.
#[inline]
pub(super) fn begin() -> Option<Instant> {
    (RECORDERS.load(Ordering::Relaxed) > 0).then(Instant::now)
}

/// A lock is about to be released.
#[cold]
pub(super) fn end(lock: usize, from: Instant) {
    TIMES.with_borrow_mut(|times| {
        times.iter_mut().for_each(|times| times.push(LockTime { lock, from, until: Instant::now() }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_threads_that_record_do() {
        let begun = Instant::now();
        end(1, begun);
        assert!(take().is_empty());
        record();
        assert!(begin().is_some());
        end(2, begun);
        std::thread::spawn(move || {
            end(3, begun);
            assert!(take().is_empty());
        })
        .join()
        .unwrap();
        record();
        end(4, begun);
        let locks: Vec<usize> = take().iter().map(|time| time.lock).collect();
        assert_eq!(locks, [4], "a second call begins again");
        end(5, begun);
        assert!(take().is_empty());
    }
}
