//! Detects synchronous calls that wait for an event that never comes.

use platter_block::time::{Time, Watch};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Why a call is considered to hang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stalled {
    /// It read the clock repeatedly, and time did not advance.
    Stands(Time),
    /// Time has passed the limit, or the call read the clock far too often.
    Late(Time),
}

impl fmt::Display for Stalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stalled::Stands(at) => write!(f, "nothing happens any more at {} ms", at.0 / 1_000_000),
            Stalled::Late(at) => write!(f, "it still waits at {} ms", at.0 / 1_000_000),
        }
    }
}

/// A call that is watched.
pub(super) struct Call {
    pub(super) looks: u32,
    pub(super) until: Time,
    pub(super) began: Time,
    pub(super) at: Time,
    pub(super) looked: u32,
    pub(super) total: u64,
    pub(super) act: Arc<dyn Fn(Stalled) + Send + Sync>,
}

/// Counts the readings of a clock.
#[derive(Default)]
pub(super) struct CallWatch {
    call: Mutex<Option<Call>>,
    active: AtomicBool,
}

impl fmt::Debug for CallWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CallWatch({:?})", self.active)
    }
}

impl Call {
    /// Most looks until now in all. A share of them is for each millisecond that has passed: a call may rightly wait for a
    /// stuck command for a minute while a cache beside it wakes each millisecond. One that looks again and again while time
    /// creeps exceeds this all the same.
    fn most(&self, now: Time) -> u64 {
        let passed = now.since(self.began).as_millis();
        u64::from(self.looks)
            .saturating_mul(200)
            .saturating_add(passed.saturating_mul(u64::from(self.looks) / 25))
    }
}

impl CallWatch {
    pub(super) fn set(&self, call: Option<Call>) {
        self.active.store(call.is_some(), Ordering::Relaxed);
        *self.call.lock().unwrap_or_else(PoisonError::into_inner) = call;
    }

    #[cold]
    fn count(&self, now: Time) {
        let mut guard = self.call.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(call) = guard.as_mut() else { return };
        if call.at != now {
            (call.at, call.looked) = (now, 0);
        }
        call.looked += 1;
        call.total += 1;
        let stalled = match now > call.until || call.total > call.most(now) {
            true => Stalled::Late(now),
            false if call.looked > call.looks => Stalled::Stands(now),
            false => return,
        };
        let act = Arc::clone(&call.act);
        (call.looked, call.total) = (0, 0);
        drop(guard);
        act(stalled);
    }
}

impl Watch for CallWatch {
    #[inline]
    fn looked(&self, now: Time) {
        if self.active.load(Ordering::Relaxed) {
            self.count(now);
        }
    }
}
