//! Work that runs without a caller: futures that no task polls, and the device's own work (a cache's write-back).
//!
//! Both need a lane that the service thread runs; it is opened when it is first needed. The device rings for its
//! own work ([`Bell`]), possibly while it holds locks, so ringing only leaves a note for the service thread, which
//! opens the lane and runs it until it is idle.

use crate::callers::open_lane;
use crate::clock::Clock;
use crate::future::AsyncLane;
use crate::service;
use crate::sync::{Mutex, lock};
use platter_block::backend::{Backend, LaneUse};
use platter_block::bio::Op;
use platter_block::fault::{Error, Fault, Kind, Stage};
use platter_block::lane::Bell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// The lane of a device that is run without callers. The device keeps it as its bell, so it must not keep the
/// device alive.
pub(crate) struct Background {
    itself: Weak<Background>,
    backend: Weak<dyn Backend>,
    clock: Clock,
    lane: OnceLock<Arc<AsyncLane>>,
    /// Held while the lane is opened, so that opening it does not keep alive a device that is being closed.
    closed: Mutex<bool>,
    /// There is a note that the service thread has not seen yet.
    rung: AtomicBool,
}

impl Background {
    pub(crate) fn new(backend: &Arc<dyn Backend>, clock: Clock) -> Arc<Background> {
        Arc::new_cyclic(|itself| Background {
            itself: Weak::clone(itself),
            backend: Arc::downgrade(backend),
            clock,
            lane: OnceLock::new(),
            closed: Mutex::new(false),
            rung: AtomicBool::new(false),
        })
    }

    /// The lane, if it is open.
    pub(crate) fn opened(&self) -> Option<&Arc<AsyncLane>> {
        self.lane.get()
    }

    /// The lane; opens it if necessary.
    pub(crate) fn lane(&self) -> Result<Arc<AsyncLane>, Error> {
        if let Some(lane) = self.lane.get() {
            return Ok(Arc::clone(lane));
        }
        let closed = lock(&self.closed);
        if let Some(lane) = self.lane.get() {
            return Ok(Arc::clone(lane));
        }
        let backend = if *closed { None } else { self.backend.upgrade() };
        let Some(backend) = backend else {
            let fault = Fault::new(Kind::Gone, Stage::Handle);
            let detail = "it was closed".to_string();
            return Err(Error {
                fault,
                op: Op::Read,
                device: Arc::from("device"),
                offset: 0,
                len: 0,
                detail,
            });
        };
        let lane = open_lane(backend.as_ref(), LaneUse::Shared)?;
        // Not the last reference: closing the device waits for the lock first.
        drop(backend);
        Ok(Arc::clone(self.lane.get_or_init(|| Arc::new(AsyncLane::new(lane, self.clock.clone())))))
    }

    /// The service thread has seen the note. Returns the lane, unless the thread already runs it or it cannot be
    /// opened.
    pub(crate) fn answer(&self) -> Option<Weak<AsyncLane>> {
        // Before the lane is run, so that a later ring leaves another note.
        self.rung.store(false, Ordering::SeqCst);
        let lane = self.lane().ok()?;
        (!lane.watched.swap(true, Ordering::SeqCst)).then(|| Arc::downgrade(&lane))
    }

    /// The device is being closed: closes the lane.
    pub(crate) fn close(&self) {
        *lock(&self.closed) = true;
        if let Some(lane) = self.lane.get() {
            lane.close();
        }
    }
}

impl Bell for Background {
    fn ring(&self) {
        if !self.rung.swap(true, Ordering::SeqCst) && !service::note(&self.itself) {
            // The thread cannot be started now; a later ring tries again.
            self.rung.store(false, Ordering::SeqCst);
        }
    }
}
