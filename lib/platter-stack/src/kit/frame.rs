//! A stateful layer as devices: the state that its lanes share, and a device for each of its ports.

use super::board::Board;
use super::core::{Below, LATE};
use super::engine::{BROKEN, Engine};
use super::host::{EngineLock, Host, PATIENCE};
use super::layer::Layer;
use crate::LayerError;
use crate::sync::{Mutex, lock, lock_unbroken};
use platter_block::backend::{Backend, LaneUse};
use platter_block::bio::Bio;
use platter_block::fault::{Error, Fault, Status};
use platter_block::lane::{Bell, Holder};
use platter_block::time::{Span, Time};
use std::future::Future;
use std::sync::{Arc, OnceLock};

/// How long a layer that is being opened waits for that: as long as the slowest disk needs to recover from an error.
const OPENING_PATIENCE: Span = Span::from_secs(600);

/// What all ports and lanes of a layer share.
pub struct Frame<L: Layer> {
    engine: Mutex<Engine<L>>,
    pub(super) layer: Arc<L>,
    pub(super) devices: Vec<Arc<dyn Backend>>,
    simulated: bool,
    board: Board,
    ports: usize,
    /// What the layer's panic said, after one.
    panic: Arc<OnceLock<String>>,
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
        let panic = Arc::default();
        Ok(Arc::new(Frame {
            engine: Mutex::new(Engine::new(lanes, Arc::clone(&layer), below, Arc::clone(&panic))),
            layer,
            simulated: devices.iter().any(|device| device.clock().is_some()),
            devices,
            board: Board::default(),
            ports,
            panic,
        }))
    }

    /// The layer.
    pub fn layer(&self) -> &Arc<L> {
        &self.layer
    }

    /// Starts a task of the layer itself, such as background work. The next lane that is run runs it, or the thread
    /// that [keeps](platter_block::capability::Worker) the device.
    pub fn spawn(&self, task: impl Future<Output = Status> + Send + 'static) {
        if let Ok(mut engine) = self.engine() {
            engine.spawn(Box::pin(task));
            self.publish(self.now(), &mut engine);
        }
    }

    /// Rings for threads that run tasks which code outside of tasks has woken, by [`Event::happen`](super::Event::happen)
    /// or [`Pace::pause`](super::Pace::pause). Not to be called by a task.
    pub fn announce(&self) {
        if let Ok(mut engine) = self.engine() {
            self.publish(self.now(), &mut engine);
        }
    }

    /// Runs a function of the layer to its end, on this thread, before there are other lanes.
    ///
    /// # Errors
    /// That of the function; `Kind::TimedOut` if none of its I/O succeeds for 10 minutes; `Kind::Broken` after a panic of the
    /// layer.
    pub fn block_on(&self, task: impl Future<Output = Status> + Send + 'static) -> Status {
        self.run_to_end(OPENING_PATIENCE, task)
    }

    fn run_to_end(&self, patience: Span, task: impl Future<Output = Status> + Send + 'static) -> Status {
        let result = Arc::new(Mutex::new(None));
        let place = Arc::clone(&result);
        let mut engine = self.engine()?;
        engine.spawn_awaited(Box::pin(async move {
            let status = task.await;
            *lock(&place) = Some(status);
            status
        }));
        let is_over = self.run_until(&mut engine, patience, |engine, now| {
            engine.run_tasks(now);
            engine.is_broken() || lock(&result).is_some()
        });
        self.publish(self.now(), &mut engine);
        let status = lock(&result).or(engine.is_broken().then_some(Err(BROKEN)));
        status.filter(|_| is_over).unwrap_or(Err(LATE))
    }

    /// What the layer's panic said, after one.
    pub(super) fn panic(&self) -> Option<&str> {
        self.panic.get().map(String::as_str)
    }

    /// Takes the bios of a lane that have completed, although the state is broken.
    pub(super) fn take_done(&self, lane: u32, out: &mut Vec<Bio>) {
        lock(&self.engine).take_done(lane, out);
    }

    /// A device below has panicked with the lock held: ends the layer.
    #[cold]
    fn break_off(&self) -> Fault {
        let mut engine = EngineLock::new(lock(&self.engine));
        if !engine.is_broken() {
            engine.break_off("a panic of a device below");
        }
        self.board.clear();
        BROKEN
    }

    /// Registers a bell to ring when there is work to do.
    pub(super) fn keep(&self, keeper: Arc<dyn Bell>) {
        self.board.keep(&self.devices, keeper);
    }

    fn settle(&self) {
        for port in 0..self.ports {
            let below = self.engine().map(|engine| engine.below.clone());
            let Ok(below) = below else { return };
            // The devices below report what they could not write; no caller is left to report it to.
            let _ = self.run_to_end(PATIENCE, Arc::clone(&self.layer).flush(below, port));
        }
        let _ = self.run_to_end(PATIENCE, Arc::clone(&self.layer).close());
    }
}

impl<L: Layer> Host for Frame<L> {
    type Engine = Engine<L>;

    fn engine(&self) -> Result<EngineLock<'_, Engine<L>>, Fault> {
        lock_unbroken(&self.engine).map(EngineLock::new).ok_or_else(|| self.break_off())
    }

    fn board(&self) -> &Board {
        &self.board
    }

    fn is_simulated(&self) -> bool {
        self.simulated
    }

    fn now(&self) -> Time {
        self.devices.first().map_or(Time(0), |device| device.now())
    }
}

impl<L: Layer> Holder for Frame<L> {
    fn run(&self, now: Time) {
        self.take_turn(now);
    }
}

impl<L: Layer> Drop for Frame<L> {
    fn drop(&mut self) {
        self.settle();
    }
}
