//! A stateful layer as devices: the state that its lanes share, and a device for each of its ports.

use super::core::Below;
use super::engine::Engine;
use super::lane::StatefulLane;
use super::layer::Layer;
use crate::LayerError;
use crate::gate::Gate;
use crate::reports::Reports;
use crate::sync::{Mutex, MutexGuard, lock, lock_unbroken};
use platter_block::backend::{Backend, Fact, LaneUse};
use platter_block::bio::{Bio, Op};
use platter_block::capability::Worker;
use platter_block::driver::Geometry;
use platter_block::event::Watcher;
use platter_block::fault::{Error, Fault, Kind, Stage, Status};
use platter_block::lane::{Bell, Lane};
use platter_block::limits::{LimitSource, Limits};
use platter_block::time::{Span, Time};
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// The value of a time that is not set.
const NEVER: u64 = u64::MAX;

/// How long a layer that is dropped waits for devices that complete nothing.
pub(super) const PATIENCE: Span = Span::from_secs(30);

/// What all ports and lanes of a layer share.
pub struct Frame<L: Layer> {
    engine: Mutex<Engine<L>>,
    layer: Arc<L>,
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

    /// Starts a task of the layer itself, such as background work. Whoever uses the device next runs it, or the thread
    /// that [keeps](Worker) the device.
    pub fn spawn(&self, task: impl Future<Output = Status> + Send + 'static) {
        if let Ok(mut engine) = self.engine() {
            engine.spawn(Box::pin(task));
            self.publish(self.now(), &engine);
        }
    }

    /// Runs a function of the layer to its end, on this thread, before there are other lanes.
    ///
    /// # Errors
    /// That of the function; [`Kind::Stuck`] if nothing completes for 30 s.
    pub fn block_on(&self, task: impl Future<Output = Status> + Send + 'static) -> Status {
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
            } else if now.since(since) >= PATIENCE {
                return Err(Fault::new(Kind::Stuck, Stage::Layer));
            }
            engine.wait(now, Some(PATIENCE));
        }
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
            // The devices below report what they could not write; there is nobody left to tell.
            let _ = self.block_on(Arc::clone(&self.layer).flush(below, port));
        }
    }
}

impl<L: Layer> Drop for Frame<L> {
    fn drop(&mut self) {
        self.settle();
    }
}

/// A device of a stateful layer. A layer has one for each of its ports, for example one for each view of a snapshot.
pub struct Stateful<L: Layer> {
    frame: Arc<Frame<L>>,
    port: usize,
    name: Arc<str>,
    geometry: Geometry,
    gate: Arc<Gate>,
    reports: Reports,
}

impl<L: Layer> Stateful<L> {
    /// The device of a port, numbered from 0. It keeps its size.
    pub fn new(frame: &Arc<Frame<L>>, port: usize, name: Arc<str>, geometry: Geometry) -> Stateful<L> {
        let (gate, reports) = (Arc::default(), Reports::on(&frame.devices));
        Stateful { frame: Arc::clone(frame), port, name, geometry, gate, reports }
    }
}

impl<L: Layer> LimitSource for Stateful<L> {
    fn limits_at(&self, _pos: u64) -> (Limits, u64) {
        (self.geometry.limits, u64::MAX)
    }
}

impl<L: Layer> Backend for Stateful<L> {
    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn open_lane(&self, lane_use: LaneUse) -> Result<Box<dyn Lane>, Error> {
        let Some(first) = self.frame.devices.first() else { return Err(self.broken()) };
        let own = first.open_lane(lane_use)?;
        let lane = StatefulLane::new(&self.frame, own, self.port, (self.geometry, &self.gate), lane_use);
        lane.map(|lane| Box::new(lane) as Box<dyn Lane>).map_err(|_| self.broken())
    }

    fn locate(&self, pos: u64) -> Option<(usize, u64)> {
        (pos < self.geometry.size).then(|| self.frame.layer.locate(self.port, pos))?
    }

    fn below(&self) -> Vec<Arc<dyn Backend>> {
        self.frame.devices.clone()
    }

    fn watch(&self, watcher: Weak<dyn Watcher>) {
        self.reports.watch(watcher);
    }

    fn explain(&self, fault: Fault) -> Option<String> {
        // The layer gives up its own barriers at the same faults as the disks below.
        let stalled = fault.kind == Kind::LaneStalled && fault.stage == Stage::Layer;
        let own = self.gate.blame().filter(|_| stalled);
        let own = own.or_else(|| self.frame.layer.explain(self.port, fault).filter(|_| !stalled));
        own.or_else(|| self.below().iter().find_map(|below| below.explain(fault)))
    }

    fn facts(&self) -> Vec<Fact> {
        let mut facts = self.frame.layer.facts(self.port);
        facts.extend(self.frame.devices.iter().flat_map(|device| {
            let name = [("member", device.name().to_string())];
            name.into_iter().chain(device.facts())
        }));
        facts
    }

    fn worker(&self) -> Option<&dyn Worker> {
        Some(self)
    }
}

impl<L: Layer> Stateful<L> {
    fn broken(&self) -> Error {
        let fault = Fault::new(Kind::Broken, Stage::Layer);
        Error { fault, op: Op::Read, device: self.name(), offset: 0, len: 0, detail: String::new() }
    }
}

impl<L: Layer> Worker for Stateful<L> {
    fn keep(&self, keeper: Arc<dyn Bell>) {
        self.frame.devices.iter().for_each(|below| below.keep(Arc::clone(&keeper)));
        let mut wakers = lock(&self.frame.wakers);
        if self.frame.told.load(Ordering::SeqCst) != NEVER {
            // The owner of the bell that was told may be gone.
            keeper.ring();
        }
        wakers.retain(|waker| waker.strong_count() > 0);
        wakers.push(Arc::downgrade(&keeper));
    }
}

/// Whether a bio has the range and the memory that a device of this geometry accepts.
pub(super) fn check(bio: &Bio, geometry: &Geometry) -> Result<(), Fault> {
    if bio.op() == Op::Flush {
        return Ok(());
    }
    let refuse = |kind| Err(Fault::new(kind, Stage::Layer));
    let at_layer = |fault: Fault| Fault { stage: Stage::Layer, ..fault };
    geometry.limits.check_range(bio.pos(), bio.len(), geometry.size).map_err(at_layer)?;
    let bytes = || bio.segments().map(|segment| u64::from(segment.len())).sum::<u64>();
    if bio.op().has_data() && bytes() != bio.len() {
        return refuse(Kind::BadSegments);
    }
    if bio.op().changes() && geometry.features.read_only {
        return refuse(Kind::ReadOnly);
    }
    // The bio may be carried out in parts.
    if bio.flags().contains(platter_block::bio::Flags::ATOMIC) {
        return refuse(Kind::Unsupported);
    }
    Ok(())
}
