//! Lock scopes as data: which queues share a lock.

use crate::clock;
use crate::sync::{Mutex, MutexGuard};
use platter_block::counters::Counters;
use platter_block::time::Time;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, TryLockError, Weak};

/// Which queues share a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LockScope {
    /// Each queue has its own lock, and only if submitters share the queue.
    #[default]
    Queue,
    /// All queues of an adapter with this name share one (the SCSI layer of 2.5.17).
    Adapter(String),
    /// All queues of the process share one (2.4's `io_request_lock`).
    All,
}

pub(super) struct ScopeLock(Mutex<()>);

/// Locks of the adapters in use; the empty name is the lock of all queues.
static LOCKS: LazyLock<std::sync::Mutex<BTreeMap<String, Weak<ScopeLock>>>> = LazyLock::new(Default::default);

/// The lock of a scope besides the queue's own.
pub(super) fn resolve(scope: &LockScope) -> Option<Arc<ScopeLock>> {
    let name = match scope {
        LockScope::Queue => return None,
        LockScope::Adapter(name) => format!("adapter {name}"),
        LockScope::All => String::new(),
    };
    let mut locks = LOCKS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    locks.retain(|_, lock| lock.strong_count() > 0);
    if let Some(lock) = locks.get(&name).and_then(Weak::upgrade) {
        return Some(lock);
    }
    let lock = Arc::new(ScopeLock(Mutex::new(())));
    locks.insert(name, Arc::downgrade(&lock));
    Some(lock)
}

/// The lock while it is held; counts the time at its release.
pub(super) struct Held<'a> {
    _guard: MutexGuard<'a, ()>,
    counters: &'a Counters,
    since: Option<Time>,
}

impl ScopeLock {
    /// Takes the lock, and counts that and the time spent waiting for it (the clock is read only if the lock
    /// is not free); with `stamps` also how long it is held.
    pub(super) fn hold<'a>(&'a self, counters: &'a Counters, stamps: bool) -> Held<'a> {
        let guard = match self.0.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                let asked = clock::now();
                let guard = crate::sync::lock(&self.0);
                counters.lock_contended.add(1);
                counters.lock_wait_ns.add(clock::now().since(asked).0);
                guard
            }
        };
        counters.lock_acquisitions.add(1);
        Held { _guard: guard, counters, since: stamps.then(clock::now) }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(since) = self.since {
            self.counters.lock_hold_ns.add(clock::now().since(since).0);
        }
    }
}
