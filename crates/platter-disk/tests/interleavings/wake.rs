//! Replaces the library's `wake`: a bell that threads of the model can sleep on.

use loom::sync::{Condvar, Mutex};

pub(crate) struct Event {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Event {
    pub(crate) fn new() -> Event {
        Event { rung: Mutex::new(false), changed: Condvar::new() }
    }

    pub(crate) fn ring(&self) {
        *self.rung.lock().unwrap() = true;
        self.changed.notify_one();
    }

    pub(crate) fn clear(&self) {
        *self.rung.lock().unwrap() = false;
    }

    /// Sleeps until the bell has been rung. The checker fails a model in which no thread rings.
    pub(crate) fn sleep(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.changed.wait(rung).unwrap();
        }
    }
}
