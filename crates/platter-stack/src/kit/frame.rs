//! A stateful layer as devices: the state that its lanes share, and a device for each of its ports.

use super::core::Below;
use super::engine::Engine;
use super::layer::Layer;
use crate::LayerError;
use crate::sync::{Mutex, MutexGuard, lock, lock_unbroken};
use platter_block::backend::{Backend, LaneUse};
use platter_block::fault::{Error, Fault, Kind, Stage, Status};
use platter_block::lane::Bell;
use platter_block::time::{Span, Time};
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// The value of a time that is not set.
const NEVER: u64 = u64::MAX;

/// How long a layer that is dropped waits for devices that complete nothing.
pub(super) const PATIENCE: Span = Span::from_secs(30);

/// How long a layer that is being opened waits for that: as long as the slowest disk needs to recover from an error.
const OPENING_PATIENCE: Span = Span::from_secs(600);

/// What all ports and lanes of a layer share.
pub struct Frame<L: Layer> {
    engine: Mutex<Engine<L>>,
    pub(super) layer: Arc<L>,
    pub(super) devices: Vec<Arc<dyn Backend>>,
    pub(super) simulated: bool,
    /// When the engine has work to do, or [`NEVER`].
    due: AtomicU64,
    /// I/Os are in flight on the layer's own lanes.
    out: AtomicBool,
    /// Anything of the layer has not ended.
    works: AtomicBool,
    /// A sleeping lane listens to the layer's own lanes; otherwise every lane that is run runs the engine too.
    is_heard: AtomicBool,
    /// Bells to ring when there is work to do. They belong to their owners.
    wakers: Mutex<Vec<Weak<dyn Bell>>>,
    /// The time for which they were last rung, or [`NEVER`].
    told: AtomicU64,
    ports: usize,
}

impl<L: Layer> Frame<L> {
    /// A layer over devices, which has `ports` devices of its own. It opens a lane of its own to each device below.
    ///
    /// # Errors
    /// A lane cannot be opened.
    pub fn new(
        devices: Vec<Arc<dyn Backend>>,
        ports: usize,
        below: Below,
        layer: Arc<L>,
    ) -> Result<Arc<Frame<L>>, LayerError> {
        let lanes = devices.iter().map(|device| device.open_lane(LaneUse::Shared));
        let lanes = lanes.collect::<Result<Vec<_>, Error>>().map_err(LayerError::Device)?;
        below.core().now = devices.first().map_or(Time(0), |device| device.now());
        Ok(Arc::new(Frame {
            engine: Mutex::new(Engine::new(lanes, Arc::clone(&layer), below)),
            layer,
            simulated: devices.iter().any(|device| device.clock().is_some()),
            devices,
            due: AtomicU64::new(NEVER),
            out: AtomicBool::new(false),
            works: AtomicBool::new(false),
            is_heard: AtomicBool::new(false),
            wakers: Mutex::default(),
            told: AtomicU64::new(NEVER),
            ports,
        }))
    }

    /// The layer.
    pub fn layer(&self) -> &Arc<L> {
        &self.layer
    }

    /// Locks the engine, for a short time.
    ///
    /// # Errors
    /// [`Kind::Broken`] after a panic.
    pub(super) fn engine(&self) -> Result<MutexGuard<'_, Engine<L>>, Fault> {
        lock_unbroken(&self.engine).ok_or(Fault::new(Kind::Broken, Stage::Layer))
    }

    /// Starts a task of the layer itself, such as background work. The next lane that is run runs it, or the thread
    /// that [keeps](platter_block::capability::Worker) the device.
    pub fn spawn(&self, task: impl Future<Output = Status> + Send + 'static) {
        if let Ok(mut engine) = self.engine() {
            engine.spawn(Box::pin(task));
            self.publish(self.now(), &engine);
        }
    }

    /// Runs a function of the layer to its end, on this thread, before there are other lanes.
    ///
    /// # Errors
    /// That of the function; [`Kind::Stuck`] if nothing completes for 10 minutes.
    pub fn block_on(&self, task: impl Future<Output = Status> + Send + 'static) -> Status {
        self.run_to_end(OPENING_PATIENCE, task)
    }

    fn run_to_end(&self, patience: Span, task: impl Future<Output = Status> + Send + 'static) -> Status {
        let result = Arc::new(Mutex::new(None));
        let place = Arc::clone(&result);
        let mut engine = self.engine()?;
        engine.spawn(Box::pin(async move {
            let status = task.await;
            *lock(&place) = Some(status);
            status
        }));
        let mut since = self.now();
        loop {
            let now = self.now();
            engine.progress = false;
            engine.run(now);
            if let Some(status) = *lock(&result) {
                self.publish(now, &engine);
                return status;
            }
            engine.devices.iter_mut().for_each(|device| device.lane.unplug(now));
            engine.run(now);
            if engine.progress {
                since = now;
            } else if now.since(since) >= patience {
                return Err(Fault::new(Kind::Stuck, Stage::Layer));
            }
            engine.wait(now, Some(patience));
        }
    }

    /// Registers a bell to ring when there is work to do.
    pub(super) fn keep(&self, keeper: Arc<dyn Bell>) {
        self.devices.iter().for_each(|below| below.keep(Arc::clone(&keeper)));
        let mut wakers = lock(&self.wakers);
        if self.told.load(Ordering::SeqCst) != NEVER {
            // The owner of the bell that was told may be gone.
            keeper.ring();
        }
        wakers.retain(|waker| waker.strong_count() > 0);
        wakers.push(Arc::downgrade(&keeper));
    }

    pub(super) fn now(&self) -> Time {
        self.devices.first().map_or(Time(0), |device| device.now())
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

    pub(super) fn is_out(&self) -> bool {
        self.out.load(Ordering::SeqCst)
    }

    pub(super) fn has_work(&self) -> bool {
        self.works.load(Ordering::SeqCst)
    }

    /// Publishes the remaining work for threads that do not hold the engine. To be called before it is unlocked.
    pub(super) fn publish(&self, now: Time, engine: &Engine<L>) {
        let at = engine.wakeup(now).map_or(NEVER, |at| at.0);
        self.out.store(engine.is_out(), Ordering::SeqCst);
        self.works.store(engine.has_work(), Ordering::SeqCst);
        self.is_heard.store(engine.lanes.is_heard(), Ordering::SeqCst);
        self.due.store(at, Ordering::SeqCst);
        if at != NEVER {
            engine.lanes.hasten(Time(at));
        }
        // Lanes run what bios wait for. Work of the layer itself needs a thread that comes back at a certain time.
        let told = self.told.load(Ordering::SeqCst);
        let at = if engine.own_tasks > 0 { at.min(now.0) } else { NEVER };
        if at == NEVER {
            self.told.store(NEVER, Ordering::SeqCst);
        } else if at < told {
            self.told.store(at, Ordering::SeqCst);
            lock(&self.wakers).iter().filter_map(Weak::upgrade).for_each(|waker| waker.ring());
        }
    }

    fn settle(&self) {
        for port in 0..self.ports {
            let below = self.engine().map(|engine| engine.below.clone());
            let Ok(below) = below else { return };
            // The devices below report what they could not write; no caller is left to report it to.
            let _ = self.run_to_end(PATIENCE, Arc::clone(&self.layer).flush(below, port));
        }
    }
}

impl<L: Layer> Drop for Frame<L> {
    fn drop(&mut self) {
        self.settle();
    }
}
