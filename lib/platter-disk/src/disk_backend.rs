//! A device with its own request queues: one disk, as a [`Backend`].
//!
//! Without an elevator each lane has its own queue and driver and shares nothing with other lanes but the gate, which
//! it checks once per batch. With an elevator all lanes share one queue with one driver; the thread that gets its
//! lock runs it for all lanes. Barriers always go through the shared queue, so that they exist once per device, and so do
//! flushes, except those that a sleeping caller carries out on its own thread (`flushes.rs`).

use crate::clock::Clock;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Mutex, Ordering, lock};
use platter_block::allocation;
use platter_block::backend::{Backend, DiskRange, Fact, Identity, LaneUse, SinkMaker};
use platter_block::bio::{Bio, Context, Op};
use platter_block::capability::{Traced, Tunable};
use platter_block::counters::{Counters, Snapshot};
use platter_block::disk::{BlockingFlush, Disk};
use platter_block::driver::{Driver, Geometry};
use platter_block::elevator::Elevator;
use platter_block::event::Watcher;
use platter_block::fault::{Error, Fault, Kind, Stage};
use platter_block::lane::Lane;
use platter_block::limits::{LimitSource, Limits};
use platter_block::params::{Param, ParamError, Unit};
use platter_block::queue::{
    DirectLane, DirectQueue, Examiner, Ordered, Prebuilt, Reopen, SchedLane, SchedQueue, Settings,
};
use platter_block::segment::{Region, RegionId};
use platter_block::statistics::Statistics;
use platter_block::time::{Span, Time, VirtualClock};
use platter_block::trace::Sink;
use std::ffi::c_int;
use std::sync::{Arc, Weak};

mod closing;
mod control;
mod depth;
mod extent;
pub(crate) mod flushes;
mod freeze;
pub(crate) mod gate;
mod lane;
mod lanes;
mod listen;
pub(crate) mod mailbox;
#[allow(unsafe_code)]
mod opening;
mod ordered;
mod others;
pub(crate) mod parker;
pub(crate) mod poller;
pub(crate) mod runner;
mod scope;
mod silence;
mod sleepers;
pub(crate) mod tokens;
pub(crate) mod unplugs;
pub(crate) mod woken;

use closing::Leftover;
use control::{Control, MOST_ROUNDS};
use extent::Extent;
use flushes::Flushes;
use gate::{Busy, Gate};
use lane::DiskLane;
use lanes::{LaneCell, Lanes};
use mailbox::Mailbox;
use others::Others;
use poller::Poller;
use runner::Runner;
pub use scope::LockScope;
use scope::ScopeLock;
pub use silence::OnReturn;
use silence::Silence;
use tokens::Tokens;
use unplugs::Unplugs;

/// Settings of a device over one disk.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DiskSettings {
    /// Settings of the queue.
    pub queue: Settings,
    /// Collect bios per submitter and hand them over as a batch (Linux 2.6.39 and later). Off: each bio goes to the
    /// queue on its own, as in 2.4.
    pub caller_plug: bool,
    /// Which queues share a lock.
    pub lock: LockScope,
    /// Copy misaligned transfers through aligned buffers. Off: such bios fail.
    pub bounce: bool,
    /// Most lanes of synchronous callers at once; `None`: as many as the queue has requests. Each has its own driver
    /// channel while the device has no elevator.
    pub lanes: Option<u32>,
    /// Prepare requests before the lock of the queue that lanes share is taken, if the disk
    /// [allows it](platter_block::driver::Features::prebuild). Off: all is done under the lock.
    pub prebuild: bool,
    /// Measure how long locks are held. (The time spent waiting for them is always measured.)
    pub lock_stamps: bool,
    /// Where the choice of the elevator came from, as the device's facts show it; `None`: from the program that opens it.
    pub elevator_from: Option<&'static str>,
    /// What to do when a disk that did not answer does so again.
    pub on_return: OnReturn,
}

platter_block::setters! {
    DiskSettings {
        queue, with_queue: Settings;
        caller_plug, with_caller_plug: bool;
        lock, with_lock: LockScope;
        bounce, with_bounce: bool;
        lanes, with_lanes: Option<u32>;
        prebuild, with_prebuild: bool;
        lock_stamps, with_lock_stamps: bool;
        elevator_from, with_elevator_from: Option<&'static str>;
        on_return, with_on_return: OnReturn;
    }
}

impl Default for DiskSettings {
    fn default() -> DiskSettings {
        DiskSettings {
            queue: Settings::default(),
            caller_plug: true,
            lock: LockScope::Queue,
            bounce: true,
            lanes: None,
            prebuild: true,
            lock_stamps: false,
            elevator_from: None,
            on_return: OnReturn::default(),
        }
    }
}

struct Shared {
    itself: Weak<Shared>,
    name: Arc<str>,
    /// The geometry when the device was opened; the present size is in `extent`.
    geometry: Geometry,
    extent: Extent,
    settings: DiskSettings,
    clock: Clock,
    disk: Arc<dyn Disk>,
    drivers_opened: AtomicU64,
    gate: Gate,
    tokens: Tokens,
    silence: Silence,
    /// What the disk was when the device was opened.
    identity: Option<Identity>,
    /// Lanes of a simulated disk that were dropped while the disk still had requests of theirs.
    leftovers: Mutex<Vec<Leftover>>,
    /// Requests of closed lanes that the disk still has.
    left: AtomicU32,
    /// Names the lanes that the last barrier waited for too long.
    stall: Mutex<String>,
    scope: Option<Arc<ScopeLock>>,
    flushes: Flushes,
    /// Flushes the disk on a thread that sleeps until it is done anyway.
    blocking_flush: Option<BlockingFlush>,
    inbox: Mutex<Vec<(Bio, Prebuilt)>>,
    /// Whether the inbox may hold bios. Set with its lock held, reset before the lock is taken to empty it.
    has_inbox: AtomicBool,
    unplugs: Unplugs,
    /// Whether the driver of the shared queue shows its completions on a descriptor, as far as that is known.
    shows_completions: AtomicBool,
    control: Runner<Control>,
    control_counters: Arc<Counters>,
    /// Requests of the shared queue that its driver has, as of the queue's last run.
    control_in_flight: AtomicU32,
    lanes: Lanes,
    poller: Poller,
    regions: Mutex<Vec<Region>>,
    sinks: Mutex<Option<SinkMaker>>,
    /// How often these have changed.
    sink_changes: AtomicU64,
}

/// A device with its own request queues. Cheap to clone.
#[derive(Clone)]
pub struct DiskBackend(Arc<Shared>);

impl DiskBackend {
    /// Queues over a disk. With an elevator the shared channel is opened now.
    ///
    /// The queue's depth is at most what the disk takes at once, so that requests beyond that wait with the elevator.
    ///
    /// # Errors
    /// The disk cannot open a channel.
    pub fn new(
        disk: impl Disk + 'static,
        settings: DiskSettings,
        elevator: Option<Box<dyn Elevator>>,
    ) -> Result<DiskBackend, Error> {
        DiskBackend::over(Arc::new(disk), settings, elevator)
    }

    /// As [`DiskBackend::new`], over a disk whose type is not known.
    ///
    /// # Errors
    /// The disk cannot open a channel, or has only one and no elevator is given.
    pub fn over(
        disk: Arc<dyn Disk>,
        mut settings: DiskSettings,
        elevator: Option<Box<dyn Elevator>>,
    ) -> Result<DiskBackend, Error> {
        crate::deferred::install();
        let geometry = disk.geometry();
        ordered::check(&*disk, settings.queue.ordered)?;
        if let Some(depth) = disk.depth() {
            settings.queue.depth = settings.queue.depth.min(depth);
        }
        if elevator.is_none()
            && let Some(channels) = disk.max_channels()
        {
            if channels < 2 {
                return Err(too_few_channels(&*disk, channels));
            }
            // One is for flushes and barriers.
            let lanes = channels - 1;
            settings.lanes = Some(settings.lanes.map_or(lanes, |given| given.min(lanes)));
        }
        // With fewer requests the full `depth` could not be reached.
        settings.queue.nr_requests = settings.queue.nr_requests.max(settings.queue.depth);
        let shared_mode = elevator.is_some();
        settings.prebuild &= geometry.features.prebuild;
        // Ordered tags may flush beside each other.
        let blocking_flush = disk
            .blocking_flush()
            .filter(|_| geometry.features.write_cache && !geometry.features.ordered_tags);
        let counters = Arc::new(Counters::default());
        let queue = SchedQueue::new(geometry, settings.queue, elevator, Arc::clone(&counters));
        let shared = Arc::new_cyclic(|itself| Shared {
            itself: Weak::clone(itself),
            name: disk.name(),
            geometry,
            extent: Extent::new(geometry.size),
            clock: disk.clock().map_or(Clock::Host, Clock::Virtual),
            drivers_opened: AtomicU64::new(0),
            gate: Gate::new(shared_mode),
            tokens: Tokens::new(settings.queue.depth),
            silence: Silence::default(),
            identity: disk.identity(),
            disk,
            leftovers: Mutex::new(Vec::new()),
            left: AtomicU32::new(0),
            stall: Mutex::new(String::new()),
            scope: scope::resolve(&settings.lock),
            flushes: Flushes::new(),
            blocking_flush,
            inbox: Mutex::new(Vec::new()),
            has_inbox: AtomicBool::new(false),
            unplugs: Unplugs::new(),
            shows_completions: AtomicBool::new(false),
            control: Runner::new(Control::new(queue), MOST_ROUNDS),
            control_counters: counters,
            control_in_flight: AtomicU32::new(0),
            lanes: Lanes::new(),
            poller: Poller::new(),
            regions: Mutex::new(Vec::new()),
            sinks: Mutex::new(None),
            sink_changes: AtomicU64::new(0),
            settings,
        });
        let others = Others::new(&shared, None);
        shared.with_control(|control| control.queue().set_watch(Some(others)));
        if shared_mode {
            shared.with_control(|control| control.open(&shared))?;
        }
        Ok(DiskBackend(shared))
    }

    /// The limits that hold everywhere on the device.
    pub fn limits(&self) -> &Limits {
        &self.0.geometry.limits
    }
}

/// Without an elevator a device needs a channel for each lane, and one for flushes and barriers.
fn too_few_channels(disk: &dyn Disk, channels: u32) -> Error {
    let fault = Fault::new(Kind::Unsupported, Stage::Queue);
    let detail = match channels {
        0 | 1 => "the disk has one channel, which threads can share only with an elevator, such as noop"
            .to_string(),
        _ => format!(
            "the disk has only {channels} channels, too few for its lanes; open it without an elevator"
        ),
    };
    Error { fault, op: Op::Read, device: disk.name(), offset: 0, len: 0, detail }
}

impl Shared {
    /// The own queue of a lane, which begins with a depth of 1.
    fn make_queue(&self, counters: &Arc<Counters>) -> DirectQueue {
        let settings = Settings { depth: 1, ..self.settings.queue };
        let mut queue = DirectQueue::new(self.geometry, settings, Arc::clone(counters));
        let (size, largest) = self.extent.sizes();
        queue.set_size(size, largest);
        queue
    }

    /// What a lane that knows this size of the device needs to examine its bios.
    fn examiner(&self, size: u64) -> Examiner {
        Examiner::new(self.geometry.with_size(size), self.settings.prebuild)
    }

    /// Opens a channel and registers the memory regions with it.
    fn open_driver(&self, lane_use: LaneUse) -> Result<Box<dyn Driver>, Error> {
        let mut driver = opening::driver(&*self.disk, lane_use)?;
        for region in lock(&self.regions).iter() {
            driver.register(region);
        }
        self.drivers_opened.fetch_add(1, Ordering::SeqCst);
        Ok(driver)
    }

    /// The function that opens a channel to replace a dead one, for the lane of a cell or for the shared queue.
    fn reopener(&self, lane_use: LaneUse, cell: Option<Arc<LaneCell>>) -> Reopen<Box<dyn Driver>> {
        let shared = Weak::clone(&self.itself);
        Box::new(move || {
            let shared = shared.upgrade()?;
            let driver = shared.open_driver(lane_use).ok()?;
            cell.iter().for_each(|cell| cell.set_driver(&driver));
            // Sleeping threads still listen to the dead channel.
            shared.lanes.ring_all();
            Some(driver)
        })
    }

    fn new_sink(&self) -> Option<Box<dyn Sink>> {
        lock(&self.sinks).as_ref().map(|make| make())
    }
}

impl LimitSource for DiskBackend {
    fn limits_at(&self, _pos: u64) -> (Limits, u64) {
        (self.0.geometry.limits, u64::MAX)
    }
}

impl Backend for DiskBackend {
    fn name(&self) -> Arc<str> {
        Arc::clone(&self.0.name)
    }

    fn geometry(&self) -> Geometry {
        self.0.geometry.with_size(self.0.extent.size())
    }

    fn open_lane(&self, lane_use: LaneUse) -> Result<Box<dyn Lane>, Error> {
        Ok(Box::new(DiskLane::open(&self.0, lane_use)?))
    }

    fn watch(&self, watcher: Weak<dyn Watcher>) {
        self.0.extent.watch(watcher);
    }

    fn refresh(&self) -> Result<(), Error> {
        self.0.silence.accept();
        self.0.extent.look(true, &*self.0.disk, &self.0.gate)
    }

    fn measure(&self) -> Result<(), Error> {
        self.0.extent.look(false, &*self.0.disk, &self.0.gate)
    }

    fn file_descriptors(&self) -> Vec<c_int> {
        self.0.disk.file_descriptor().into_iter().collect()
    }

    fn holds_unflushed(&self) -> bool {
        self.0.disk.holds_unflushed()
    }

    fn may_bounce(&self) -> bool {
        self.0.settings.bounce
    }

    fn timeout(&self, op: Op) -> Option<Span> {
        let queue = &self.0.settings.queue;
        if matches!(op, Op::Read | Op::Write) { queue.timeout } else { queue.slow_timeout }
    }

    fn barrier_timeout(&self) -> Span {
        self.0.settings.queue.barrier_timeout
    }

    fn max_lanes(&self) -> Option<u32> {
        Some(self.0.settings.lanes.unwrap_or(self.0.settings.queue.nr_requests))
    }

    fn counters(&self) -> Snapshot {
        let mut sum = self.0.lanes.counters();
        sum.add(&self.0.control_counters);
        sum
    }

    fn statistics(&self) -> Statistics {
        let mut sum = self.0.lanes.statistics();
        sum.add(&self.0.control_counters);
        sum.gauges.in_flight += u64::from(self.0.left.load(Ordering::Relaxed));
        sum
    }

    fn restart_extremes(&self) {
        self.0.lanes.restart_extremes();
        self.0.control_counters.restart_extremes();
    }

    fn allocation(&self, pos: u64, len: u64) -> Result<allocation::Extent, Error> {
        self.0.disk.allocation(pos, len)
    }

    fn facts(&self) -> Vec<Fact> {
        let mut facts = self.0.disk.facts();
        self.0.with_control(|control| queue_facts(control.queue(), &mut facts));
        let from = self.0.settings.elevator_from;
        facts.extend(from.map(|from| ("elevator from", from.to_string())));
        facts.push(("depth", self.0.settings.queue.depth.to_string()));
        facts.push(("nr_requests", self.0.settings.queue.nr_requests.to_string()));
        facts
    }

    fn clock(&self) -> Option<Arc<VirtualClock>> {
        match &self.0.clock {
            Clock::Host => None,
            Clock::Virtual(clock) => Some(Arc::clone(clock)),
        }
    }

    fn now(&self) -> Time {
        self.0.clock.now()
    }

    fn disk_ranges(&self) -> Vec<DiskRange> {
        let own = || Identity::Process(Arc::as_ptr(&self.0).addr() as u64);
        let disk = self.0.disk.identity().unwrap_or_else(own);
        vec![DiskRange { disk, begin: 0, end: self.0.extent.size() }]
    }

    fn context_exited(&self, context: Context) {
        let now = self.0.clock.now();
        self.0.with_control(|control| {
            if let Some(elevator) = control.queue().elevator_mut() {
                elevator.exited(now, context);
            }
        });
        // The elevator may have waited for just that process.
        self.0.run_control(now, None);
    }

    fn register(&self, region: &Region) {
        lock(&self.0.regions).push(*region);
        self.0.gate.announce_change();
        self.0.with_control(|control| {
            if let Some(lane) = control.lane_mut() {
                lane.register(region);
            }
        });
    }

    fn unregister(&self, region: RegionId) {
        lock(&self.0.regions).retain(|r| r.id != region);
        // Open lanes belong to their owners, which see the change at their next batch.
        self.0.gate.announce_change();
        self.0.with_control(|control| {
            if let Some(lane) = control.lane_mut() {
                lane.unregister(region);
            }
        });
    }

    fn explain(&self, fault: Fault) -> Option<String> {
        match fault.kind {
            Kind::Unsettled => Some(lock(&self.0.stall).clone()),
            Kind::Gone if fault.stage == Stage::Queue && self.0.gate.look().is_failed() => Some(
                "the disk does not answer; it is used again when it has returned its requests".to_string(),
            ),
            _ => self.0.disk.explain(fault),
        }
    }

    fn flush_failures(&self) -> Vec<Fault> {
        self.0.with_control(|control| control.queue().flush_failure()).into_iter().collect()
    }

    fn acknowledge_flush_failure(&self) {
        self.0.with_control(|control| {
            control.queue().acknowledge_flush_failure();
            self.0.flushes.acknowledge();
        });
    }

    fn tunable(&self) -> Option<&dyn Tunable> {
        Some(self)
    }

    fn traced(&self) -> Option<&dyn Traced> {
        Some(self)
    }
}

impl Tunable for DiskBackend {
    fn switch_elevator(&self, make: &dyn Fn() -> Option<Box<dyn Elevator>>) -> Result<(), Error> {
        let elevator = make();
        let shared_mode = elevator.is_some();
        // The number of lanes is not limited while they share a queue.
        if let Some(channels) = self.0.disk.max_channels()
            && !shared_mode
            && channels <= self.0.settings.lanes.unwrap_or(u32::MAX)
        {
            return Err(too_few_channels(&*self.0.disk, channels));
        }
        self.0.with_control(|control| {
            if shared_mode {
                control.open(&self.0)?;
            }
            control.queue().switch_elevator(self.0.clock.now(), elevator);
            self.0.gate.set_shared(shared_mode);
            Ok(())
        })?;
        // Starts the requests that the old elevator held, whichever thread will reap them.
        self.0.run_control(self.0.clock.now(), None);
        Ok(())
    }

    fn switch_ordered(&self, ordered: Ordered) -> Result<(), Error> {
        ordered::switch(&self.0, ordered)
    }

    fn ordered(&self) -> Ordered {
        self.0.with_control(|control| control.queue().ordered())
    }

    fn elevator_params(&self) -> Vec<(Param, i64)> {
        self.0.with_control(|control| {
            let Some(elevator) = control.queue().elevator_mut() else { return Vec::new() };
            let row = |p: &Param| elevator.get(p.name).map(|value| (*p, value));
            elevator.params().iter().filter_map(row).collect()
        })
    }

    fn set_elevator_param(&self, name: &str, value: i64) -> Result<(), ParamError> {
        self.0.with_control(|control| match control.queue().elevator_mut() {
            Some(elevator) => elevator.set(name, value),
            None => Err(ParamError(format!(
                "{}: no elevator, so no parameter \"{name}\"; open the device with elevator=NAME",
                self.0.name
            ))),
        })?;
        // The elevator may no longer wait for what it waited for.
        self.0.run_control(self.0.clock.now(), None);
        Ok(())
    }
}

impl Traced for DiskBackend {
    fn trace(&self, make: Option<SinkMaker>) {
        *lock(&self.0.sinks) = make;
        // Open lanes belong to their owners, which see the change at their next batch.
        self.0.sink_changes.fetch_add(1, Ordering::SeqCst);
        self.0.gate.announce_change();
        let sink = self.0.new_sink();
        self.0.with_control(|control| control.queue().set_sink(sink));
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let clock = self.clock.clone();
        let lane = self.control.with(|control| control.take_lane(), |_| (), || ());
        lane.into_iter().for_each(|lane| Shared::close_control(&clock, lane));
    }
}

fn fact_of(param: &Param, value: i64) -> String {
    match param.unit {
        Unit::Word => param.show(value),
        unit => format!("{value} {unit}"),
    }
}

fn queue_facts(queue: &mut SchedQueue, facts: &mut Vec<Fact>) {
    facts.push(("elevator", queue.elevator_name().to_string()));
    if let Some(elevator) = queue.elevator_mut() {
        for param in elevator.params() {
            if let Some(value) = elevator.get(param.name) {
                facts.push((param.name, fact_of(param, value)));
            }
        }
    }
    facts.push(("barriers", queue.barrier_mode().to_string()));
    if let Some(fault) = queue.elevator_fault() {
        facts.push(("elevator fault", fault.to_string()));
    }
}

/// The fault of a device whose channel could not be opened.
pub(crate) const NO_CHANNEL: Fault = Fault::new(Kind::Gone, Stage::Driver);

/// The shared queue over any driver.
type SharedLane = SchedLane<Box<dyn Driver>>;

/// The own queue of a lane over any driver.
type OwnLane = DirectLane<Box<dyn Driver>>;
