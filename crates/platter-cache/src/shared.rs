//! The state that the lanes and handles of a cache share.

use super::engine::Engine;
use super::frames::Frames;
use super::task::{Spare, Task};
use super::tuning::Tuning;
use crate::sync::{Mutex, MutexGuard, lock, lock_unbroken};
use platter_block::backend::Backend;
use platter_block::bio::Bio;
use platter_block::driver::Geometry;
use platter_block::fault::{Fault, Kind, Stage};
use platter_block::lane::Bell;
use platter_block::time::{Span, Time};
use platter_stack::barrier_gate::BarrierGate;
use platter_stack::kit::lanes::LaneEntry;
use platter_stack::reports::Reports;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// The value of a time that is not set.
pub(super) const NEVER: u64 = u64::MAX;

/// How long a cache that is dropped waits for a device that completes nothing.
const PATIENCE: Span = Span::from_secs(30);

/// The state that the lanes and handles of a cache share.
pub(super) struct Shared {
    pub(super) engine: Mutex<Engine>,
    /// Taken before the engine.
    pub(super) tuning: Mutex<Tuning>,
    pub(super) frames: Arc<Frames>,
    pub(super) gate: Arc<BarrierGate>,
    pub(super) below: Arc<dyn Backend>,
    pub(super) reports: Reports,
    pub(super) geometry: Geometry,
    pub(super) simulated: bool,
    pub(super) through: bool,
    /// Reads of cached pages are answered without the engine.
    pub(super) answers: bool,
    /// When the engine has work of its own to do, or [`NEVER`].
    pub(super) due: AtomicU64,
    /// Bios are in flight on the shared lane.
    pub(super) out: AtomicBool,
    /// A sleeping lane listens to the shared lane; otherwise every lane that is run runs the engine too.
    pub(super) is_heard: AtomicBool,
    /// Bells to ring when there is work to do. They belong to their owners.
    pub(super) wakers: Mutex<Vec<Weak<dyn Bell>>>,
    /// The time for which they were last rung, or [`NEVER`].
    pub(super) told: AtomicU64,
    /// A panic may have left the engine inconsistent.
    pub(super) broken: AtomicBool,
}

impl Shared {
    /// Locks the engine, for a short time.
    ///
    /// # Errors
    /// [`Kind::Broken`] after a panic.
    pub(super) fn engine(&self) -> Result<MutexGuard<'_, Engine>, Fault> {
        if let Some(engine) = lock_unbroken(&self.engine) {
            return Ok(engine);
        }
        if !self.broken.swap(true, Ordering::SeqCst) {
            // Cached pages can no longer be trusted.
            self.frames.shut();
        }
        Err(Fault::new(Kind::Broken, Stage::Layer))
    }

    /// Whether the caller should run the engine.
    pub(super) fn is_due(&self, now: Time) -> bool {
        let unheard = self.out.load(Ordering::SeqCst) && !self.is_heard.load(Ordering::SeqCst);
        unheard || self.due.load(Ordering::SeqCst) <= now.0
    }

    /// When the engine should be run even if nothing completes.
    pub(super) fn wakeup(&self) -> Option<Time> {
        let at = self.due.load(Ordering::SeqCst);
        (at != NEVER).then_some(Time(at))
    }

    /// Whether bios are in flight on the shared lane.
    pub(super) fn is_out(&self) -> bool {
        self.out.load(Ordering::SeqCst)
    }

    /// Whether pages are dirty or I/O is in flight.
    pub(super) fn has_work(&self) -> bool {
        self.out.load(Ordering::SeqCst) || self.due.load(Ordering::SeqCst) != NEVER
    }

    /// To be called before the engine is unlocked if anything has changed: wakes lanes whose tasks can
    /// continue.
    pub(super) fn leave(&self, now: Time, engine: &mut Engine) {
        engine.leave(now);
        self.publish(now, engine);
    }

    /// Publishes the remaining work for threads that do not hold the engine.
    pub(super) fn publish(&self, now: Time, engine: &Engine) {
        let at = engine.wakeup(now).map_or(NEVER, |at| at.0);
        self.out.store(engine.is_out(), Ordering::SeqCst);
        self.is_heard.store(engine.lanes.is_heard(), Ordering::SeqCst);
        self.due.store(at, Ordering::SeqCst);
        if at != NEVER {
            engine.lanes.hasten(Time(at));
        }
        // Reads that no task waits for are collected by the next lane that is run. Dirty pages, and jobs done
        // in pieces, need a thread that comes back at a certain time.
        let told = self.told.load(Ordering::SeqCst);
        let at = if engine.jobs.is_empty() { at } else { now.0 };
        if engine.pages.dirty.count == 0 && engine.jobs.is_empty() {
            self.told.store(NEVER, Ordering::SeqCst);
        } else if at < told {
            self.told.store(at, Ordering::SeqCst);
            lock(&self.wakers).iter().filter_map(Weak::upgrade).for_each(|waker| waker.ring());
        } else if told <= now.0 {
            // In this case a thread has checked and knows the next time.
            self.told.store(at, Ordering::SeqCst);
        }
    }

    /// Writes back all dirty pages once and flushes the device, for a cache that is dropped. Gives up when
    /// nothing completes for [`PATIENCE`].
    fn flush_at_end(&self) {
        let mut bio = Bio::flush();
        bio.set_token(0);
        let Ok(mut engine) = self.engine() else { return };
        engine.jobs.stop_reading();
        if engine.pages.dirty.count == 0 && engine.shared_out == 0 && engine.jobs.is_empty() {
            return;
        }
        let number = engine.lanes.join(&LaneEntry::new(None));
        let mut task = Task::new(bio, number, false, Spare::default());
        let mut since = self.below.now();
        loop {
            let now = self.below.now();
            engine.enter();
            engine.run(now);
            engine.run_jobs();
            if task.is_ready(&engine) && engine.step(now, &mut task, false) {
                break;
            }
            engine.submit_shared(now);
            engine.lane.unplug(now);
            engine.run(now);
            if engine.progress {
                since = now;
            } else if now.since(since) >= PATIENCE {
                engine.finish(&mut task);
                break;
            }
            engine.wait(now, Some(PATIENCE));
        }
        engine.lanes.leave(number);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.flush_at_end();
    }
}
