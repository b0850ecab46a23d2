//! The readahead of a handle: its policy, what its calls are about to have read, and what became of what was read.

use crate::readahead::{Fate, Readahead, ReadaheadType, Settings};
use crate::sync::{AtomicU64, Mutex, lock};
use std::ops::{DerefMut, Range};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The readahead of a handle, which all shards of a cache share. No other lock is taken under its own. A policy that follows
/// every page, or takes one call at a time, is called under the lock of a shard; the others are not.
pub(super) type Policy = Arc<HandleReadahead>;

/// How a policy is to be called.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manners {
    pub(super) every_page: bool,
    pub(super) exclusive: bool,
    /// Of the end of each call, too.
    pub(super) ends: bool,
}

impl Manners {
    pub(super) fn of(policy: &Policy) -> Manners {
        let policy = &policy.lock().policy;
        Manners { every_page: policy.every_page(), exclusive: policy.exclusive(), ends: policy.ends() }
    }

    /// Whether the policy is called without the lock of a shard.
    pub(super) fn are_free(self) -> bool {
        !self.every_page && !self.exclusive
    }
}

/// How the policies of a cache are made.
#[derive(Clone)]
pub(super) struct Policies {
    pub(super) row: &'static ReadaheadType,
    pub(super) settings: Settings,
}

impl Policies {
    /// The readahead of a new handle.
    pub(super) fn make(&self) -> Policy {
        Arc::new(HandleReadahead::new((self.row.make)(&self.settings)))
    }
}

/// The readahead of a handle.
pub(super) struct HandleReadahead {
    state: Mutex<PolicyState>,
    read: AtomicU64,
    used: AtomicU64,
    unused: AtomicU64,
}

impl HandleReadahead {
    pub(super) fn new(policy: Box<dyn Readahead>) -> HandleReadahead {
        let state = Mutex::new(PolicyState { policy, planned: Vec::new() });
        let zero = || AtomicU64::new(0);
        HandleReadahead { state, read: zero(), used: zero(), unused: zero() }
    }

    pub(super) fn lock(&self) -> impl DerefMut<Target = PolicyState> {
        lock(&self.state)
    }

    /// Counts pages that are read ahead.
    pub(super) fn count_read(&self, pages: u32) {
        self.read.fetch_add(pages.into(), Ordering::Relaxed);
    }

    /// Counts a page that was read ahead and is used.
    pub(super) fn count_used(&self) {
        self.used.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a page that was read ahead and is evicted.
    pub(super) fn count_unused(&self) {
        self.unused.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn fate(&self) -> Fate {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Fate { read: get(&self.read), used: get(&self.used), unused: get(&self.unused) }
    }
}

/// A policy, and what its calls have planned.
pub(super) struct PolicyState {
    pub(super) policy: Box<dyn Readahead>,
    pub(super) planned: Vec<Planned>,
}

/// Pages that a call is about to have read.
pub(super) struct Planned {
    pub(super) range: Range<u64>,
    /// Not only pages of the call itself.
    pub(super) is_ahead: bool,
}
