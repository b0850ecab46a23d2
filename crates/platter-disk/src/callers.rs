//! The lanes of a device's synchronous callers.
//!
//! A call takes a lane from the pool and returns it at its end (`sync_io/lane.rs`). A lane with a request that a call
//! gave up is set aside until the disk returns that request, and is then closed (`aside.rs`) by a call that needs a
//! lane, or now and then when a call ends.

use crate::aside::Aside;
use crate::clock::Clock;
use crate::device::Inner;
use crate::lane_pool::{LanePool, NoLane};
use crate::sync::{Mutex, lock};
use crate::sync_io::SyncLane;
use platter_block::backend::{Backend, LaneUse};
use platter_block::fault::Error;
use platter_block::lane::{Bell, Lane};
use platter_block::time::{Span, Time};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Shortest time that a lane stays idle before it is closed; checked when a call ends.
const IDLE: Span = Span::from_secs(1);

/// Limit of lanes for devices that have none: the default number of requests of a queue.
const MOST: u32 = 128;

/// How long a call waits for a lane before it runs those set aside again, if no thread does.
const PAUSE: Span = Span::from_millis(10);

/// The lanes of synchronous callers.
pub(crate) struct Callers {
    /// Boxed, because each call moves a lane out and in.
    pub(crate) pool: LanePool<Box<SyncLane>>,
    most: u32,
    /// When the pool is trimmed next, in the device's time.
    pub(crate) trim_at: AtomicU64,
    /// Lanes that wait for the disk.
    pub(crate) aside: Arc<Aside>,
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

impl Clock {
    /// Time left until a deadline. `None`: there is no deadline, or no thread can sleep until then because the time
    /// is simulated.
    pub(crate) fn left(&self, until: Option<Time>) -> Option<Duration> {
        let until = until.filter(|_| self.simulated().is_none());
        until.map(|until| Duration::from_nanos(until.since(self.now()).0))
    }
}

impl Callers {
    pub(crate) fn new(backend: &dyn Backend) -> Arc<Callers> {
        let most = backend.max_lanes().unwrap_or(MOST).max(1);
        let callers = Arc::new_cyclic(|itself: &Weak<Callers>| Callers {
            pool: LanePool::new(most as usize),
            most,
            trim_at: AtomicU64::new(0),
            aside: Arc::new(Aside::new(Weak::clone(itself) as Weak<dyn Bell>)),
        });
        let mut all = lock(&ALL);
        if all.len() == all.capacity() {
            all.retain(|callers| callers.strong_count() > 0);
        }
        all.push(Arc::downgrade(&callers));
        callers
    }

    /// Most lanes at once.
    pub(crate) fn most(&self) -> u32 {
        self.most
    }

    /// Closes the lanes that have nothing left to wait for. Returns whether there were any.
    pub(crate) fn tend(&self) -> bool {
        let over = self.aside.take_idle(|count| self.pool.closing(count));
        for lane in &over {
            lane.close();
            self.pool.closed();
        }
        !over.is_empty()
    }

    /// Opens a lane for a call.
    #[cold]
    pub(crate) fn open(&self, inner: &Inner) -> Result<Box<SyncLane>, Error> {
        // A call with a deadline may end before its request, so its lane must work for any thread.
        let lane_use = if inner.timeout.is_some() { LaneUse::Shared } else { LaneUse::Synchronous };
        let lane = open_lane(inner.backend.as_ref(), lane_use)?;
        Ok(Box::new(SyncLane::new(lane, inner.clock.clone(), Arc::clone(&self.aside))))
    }

    /// Whether calls that wait for a lane run those set aside: no thread does, and it is not simulated time, which
    /// passes only for calls that have a lane; these run them.
    fn must_run(&self, clock: &Clock) -> bool {
        self.aside.is_ours() && clock.simulated().is_none()
    }

    /// Time that a call may wait for a lane; none if it has to run those set aside first.
    pub(crate) fn left(&self, clock: &Clock, until: Option<Time>) -> Option<Duration> {
        if self.must_run(clock) { Some(Duration::ZERO) } else { clock.left(until) }
    }

    /// A call got no lane. Closes those set aside that are over, and tries again as long as that may help.
    #[cold]
    pub(crate) fn take_again(
        &self,
        inner: &Inner,
        until: Option<Time>,
        mut no: NoLane<Error>,
    ) -> Result<Box<SyncLane>, NoLane<Error>> {
        let clock = &inner.clock;
        loop {
            let has_helped = self.tend();
            let is_over = match no {
                NoLane::Failed(_) => true,
                NoLane::Late => clock.left(until) == Some(Duration::ZERO),
                // Another call may be closing one.
                NoLane::AllAside => false,
            };
            if is_over && !has_helped {
                return Err(no);
            }
            let pause = self.must_run(clock).then(|| clock.now() + PAUSE);
            let wake = Time::earliest(until, pause);
            no = match self.pool.take(|| self.open(inner), || clock.left(wake)) {
                Ok(lane) => return Ok(lane),
                Err(NoLane::AllAside) if !has_helped => return Err(NoLane::AllAside),
                Err(no) => no,
            };
        }
    }

    /// Runs the lanes that wait for the disk, if no thread does.
    pub(crate) fn help(&self) {
        self.aside.help();
    }

    /// Sets a lane aside: it is run until the disk has returned its requests.
    #[cold]
    pub(crate) fn set_aside(&self, lane: SyncLane) {
        self.pool.set_aside();
        self.aside.add(lane.lane, lane.clock);
    }

    #[cold]
    pub(crate) fn trim(&self, now: Time) {
        self.trim_at.store((now + IDLE).0, Ordering::Relaxed);
        // Dropped without a lock held.
        drop(self.pool.trim());
        self.tend();
    }

    /// The device is being closed: waits for the requests of its lanes.
    pub(crate) fn close(&self) {
        drop(self.pool.empty());
        self.aside.close();
    }
}

impl Bell for Callers {
    /// A lane set aside may be over.
    fn ring(&self) {
        self.pool.over();
    }
}

#[cfg(test)]
mod tests;
