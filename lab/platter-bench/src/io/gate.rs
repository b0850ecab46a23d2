//! All jobs start together, or none does.

use std::sync::{Condvar, Mutex, PoisonError};

/// Holds jobs back until all are ready.
#[derive(Default)]
pub(crate) struct StartGate {
    decision: Mutex<Option<bool>>,
    decided: Condvar,
}

impl StartGate {
    /// Lets all jobs start, or sends them home.
    pub(crate) fn open(&self, start: bool) {
        *self.decision.lock().unwrap_or_else(PoisonError::into_inner) = Some(start);
        self.decided.notify_all();
    }

    /// Blocks until the gate opens; whether to start.
    pub(crate) fn wait(&self) -> bool {
        let mut decision = self.decision.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match *decision {
                Some(start) => return start,
                None => decision = self.decided.wait(decision).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}
