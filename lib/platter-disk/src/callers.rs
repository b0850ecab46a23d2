//! The lanes of a device's synchronous callers.
//!
//! A call takes a lane from the pool and returns it at its end (`sync_io/lane.rs`). A call that may end before the device has returned
//! its bio, because it has a deadline, uses a lane of the futures instead (`future/lane/call.rs`).

use crate::device::Inner;
use crate::lane_pool::LanePool;
use crate::sync::{Mutex, lock};
use crate::sync_io::SyncLane;
use platter_block::backend::{Backend, LaneUse};
use platter_block::fault::Error;
use platter_block::lane::Lane;
use platter_block::time::{Span, Time};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Shortest time that a lane stays idle before it is closed; checked when a call ends.
const IDLE: Span = Span::from_secs(1);

/// Most that is kept for calls with a deadline.
const SPARE: usize = 64;

/// Limit of lanes for devices that have none: the default number of requests of a queue.
const MOST: u32 = 128;

/// The lanes of synchronous callers.
pub(crate) struct Callers {
    /// Boxed, because each call moves a lane out and in.
    pub(crate) pool: LanePool<Box<SyncLane>>,
    /// What calls with a deadline used before, without a lane.
    #[allow(clippy::vec_box, reason = "each call moves one out and in, as from the pool")]
    spare: Mutex<Vec<Box<SyncLane>>>,
    /// When the pool is trimmed next, in the device's time.
    pub(crate) trim_at: AtomicU64,
}

/// The callers of all devices of the process: their idle lanes are closed if the system refuses to open something.
static ALL: Mutex<Vec<Weak<Callers>>> = Mutex::new(Vec::new());

/// Closes all idle lanes of the process. Returns whether there were any; the refused resource may then be available.
pub(crate) fn relieve() -> bool {
    let all: Vec<Arc<Callers>> = {
        let mut all = lock(&ALL);
        all.retain(|callers| callers.strong_count() > 0);
        all.iter().filter_map(Weak::upgrade).collect()
    };
    // Dropped after all locks are released.
    let closed: Vec<Vec<Box<SyncLane>>> = all.iter().map(|callers| callers.pool.empty()).collect();
    closed.iter().any(|lanes| !lanes.is_empty())
}

/// Opens a lane. If the system refuses, closes the idle lanes of the process and tries again.
pub(crate) fn open_lane(backend: &dyn Backend, lane_use: LaneUse) -> Result<Box<dyn Lane>, Error> {
    match backend.open_lane(lane_use) {
        Err(_) if relieve() => backend.open_lane(lane_use),
        result => result,
    }
}

impl Callers {
    pub(crate) fn new(backend: &dyn Backend) -> Arc<Callers> {
        let most = backend.max_lanes().unwrap_or(MOST).max(1);
        let (pool, spare) = (LanePool::new(most as usize), Mutex::new(Vec::new()));
        let callers = Arc::new(Callers { pool, spare, trim_at: AtomicU64::new(0) });
        let mut all = lock(&ALL);
        if all.len() == all.capacity() {
            all.retain(|callers| callers.strong_count() > 0);
        }
        all.push(Arc::downgrade(&callers));
        callers
    }

    /// Opens a lane for a call.
    #[cold]
    pub(crate) fn open(&self, inner: &Inner) -> Result<Box<SyncLane>, Error> {
        let lane = open_lane(inner.backend.as_ref(), LaneUse::Synchronous)?;
        Ok(Box::new(SyncLane::new(lane, inner.clock.clone(), Arc::clone(&inner.background))))
    }

    /// What a call with a deadline works with.
    pub(crate) fn take_spare(&self, inner: &Inner) -> Result<Box<SyncLane>, Error> {
        let lane = Arc::clone(inner.background.lane()?);
        let spare = lock(&self.spare).pop();
        let mut caller = spare.unwrap_or_else(|| {
            Box::new(SyncLane::without_lane(inner.clock.clone(), Arc::clone(&inner.background)))
        });
        caller.use_lane(lane);
        Ok(caller)
    }

    /// Keeps it for another call.
    pub(crate) fn keep_spare(&self, caller: Box<SyncLane>) {
        let mut spare = lock(&self.spare);
        if spare.len() < SPARE {
            spare.push(caller);
        }
    }

    #[cold]
    pub(crate) fn trim(&self, now: Time) {
        self.trim_at.store((now + IDLE).0, Ordering::Relaxed);
        // Dropped without a lock held.
        drop(self.pool.trim());
    }

    /// The device is being closed.
    pub(crate) fn close(&self) {
        drop(self.pool.empty());
    }
}

#[cfg(test)]
mod tests;
