//! Replaces the library's `sync`: a futex of a model checker. No time passes in the checker.

use loom::sync::atomic as model;
use loom::sync::atomic::fence;
use loom::sync::{Condvar, Mutex};
use platter_block::time::Time;
pub(crate) use std::sync::atomic::Ordering;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "the checker has neither time nor signals")]
pub(crate) enum Woken {
    Perhaps,
    TimedOut,
    Interrupted,
}

/// The checker implements sequential consistency only for fences, so there is one on each side of an access.
pub(crate) struct AtomicU32(model::AtomicU32);

impl AtomicU32 {
    pub(crate) fn new(value: u32) -> AtomicU32 {
        AtomicU32(model::AtomicU32::new(value))
    }

    pub(crate) fn load(&self, order: Ordering) -> u32 {
        fence(Ordering::SeqCst);
        self.0.load(order)
    }

    pub(crate) fn fetch_add(&self, value: u32, order: Ordering) -> u32 {
        let before = self.0.fetch_add(value, order);
        fence(Ordering::SeqCst);
        before
    }

    pub(crate) fn fetch_sub(&self, value: u32, order: Ordering) -> u32 {
        let before = self.0.fetch_sub(value, order);
        fence(Ordering::SeqCst);
        before
    }
}

/// The kernel compares the number and goes to sleep under a lock that a wake-up takes too.
pub(crate) struct Futex {
    number: AtomicU32,
    sleepers: Mutex<u32>,
    woken: Condvar,
}

impl Futex {
    pub(crate) fn new(value: u32) -> Futex {
        Futex { number: AtomicU32::new(value), sleepers: Mutex::new(0), woken: Condvar::new() }
    }

    pub(crate) fn load(&self) -> u32 {
        self.number.load(Ordering::SeqCst)
    }

    pub(crate) fn add(&self) {
        self.number.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn wait(&self, seen: u32, _: Option<Time>) -> Woken {
        let mut wakes = self.sleepers.lock().unwrap();
        if self.load() == seen {
            let before = *wakes;
            while *wakes == before {
                wakes = self.woken.wait(wakes).unwrap();
            }
        }
        Woken::Perhaps
    }

    pub(crate) fn wake_all(&self) {
        *self.sleepers.lock().unwrap() += 1;
        self.woken.notify_all();
    }
}
