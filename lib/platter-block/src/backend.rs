//! What can be opened: a disk or a stack of layers. A backend opens lanes, through which I/O is submitted.

use crate::allocation::Extent;
use crate::bio::{Context, Op};
pub use crate::capability::SinkMaker;
use crate::capability::{Cached, Managed, Traced, Tunable, Worker};
use crate::counters::Snapshot;
use crate::driver::Geometry;
use crate::elevator::Elevator;
use crate::event::Watcher;
use crate::fault::{Error, Fault};
use crate::handle::{HandleCounters, HandleId};
use crate::hint::Hint;
use crate::lane::{Bell, Lane};
use crate::limits::LimitSource;
use crate::params::{Param, ParamError};
use crate::queue::{Ordered, Settings};
use crate::resident::Resident;
use crate::segment::{Region, RegionId};
use crate::statistics::Statistics;
use crate::status::LayerStatus;
use crate::time::{Span, Time, VirtualClock};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;

/// How threads will use a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneUse {
    /// One thread, the one that opens it, uses the lane for its whole life.
    Exclusive,
    /// Any thread, one at a time. The thread that submits a bio need not be the one that waits for it, and may block
    /// or exit before the bio completes.
    Shared,
    /// Any thread, one at a time. Each thread waits in the lane until its own bios have completed: what it submits may be
    /// started by `Lane::wait`, `Lane::sleep` or `Lane::unplug` only, and a flush without a deadline may block in `wait` for as
    /// long as the disk takes.
    Synchronous,
}

/// One fact about a device for reports: key and value.
pub type Fact = (&'static str, String);

/// A device as a program uses it: everything that a handle needs, independent of what is behind it.
pub trait Backend: LimitSource {
    /// Name for messages.
    fn name(&self) -> Arc<str>;

    /// Size, limits and features.
    fn geometry(&self) -> Geometry;

    /// Opens a lane to the device.
    ///
    /// # Errors
    /// The driver cannot open another channel.
    fn open_lane(&self, lane_use: LaneUse) -> Result<Box<dyn Lane>, Error>;

    /// Whether a handle may copy misaligned transfers through bounce buffers of its own.
    fn may_bounce(&self) -> bool {
        self.below().iter().all(|below| below.may_bounce())
    }

    /// The time that a call for `op` on a handle of the device has if it has none of its own: that of the disk, if the device is a disk
    /// or passes all I/O on to one. `None`: it has no limit, as on layers over several disks and on caches.
    fn timeout(&self, op: Op) -> Option<Span> {
        let _ = op;
        None
    }

    /// How long an I/O waits for a lane that is not run: the longest such time of the disks below.
    fn barrier_timeout(&self) -> Span {
        let below = self.below();
        below.iter().map(|below| below.barrier_timeout()).max().unwrap_or(Settings::default().barrier_timeout)
    }

    /// How many lanes synchronous callers may have open at once, at least one; `None`: no limit. Each lane of a layer
    /// opens one lane on each device below, so the smallest limit of the stack applies.
    fn max_lanes(&self) -> Option<u32> {
        self.below().iter().filter_map(|below| below.max_lanes()).min()
    }

    /// The clock of simulated devices below; `None`: the devices use the host's clock.
    fn clock(&self) -> Option<Arc<VirtualClock>> {
        self.below().iter().find_map(|below| below.clock())
    }

    /// A process has exited (with thread 0, the whole process): elevators need not wait for more of its requests.
    fn context_exited(&self, context: Context) {
        self.below().iter().for_each(|below| below.context_exited(context));
    }

    /// The current time by [`clock`](Backend::clock), or by the host's clock. A device with none below must implement it: by
    /// default its time stands still, and layers over it would wait for ever where they wait for a while.
    fn now(&self) -> Time {
        self.below().first().map_or(Time::default(), |below| below.now())
    }

    /// Whether writes that have succeeded may be in the memory of this process only, until a flush: they are lost if it is
    /// killed. By default, whether this is so for a device below.
    fn holds_unflushed(&self) -> bool {
        self.below().iter().any(|below| below.holds_unflushed())
    }

    /// Which device below (its index in [`below`](Backend::below)) holds the byte at `pos`, and at which offset.
    /// `None`: there is no device below, or the byte is not on exactly one of them.
    fn locate(&self, pos: u64) -> Option<(usize, u64)> {
        let _ = pos;
        None
    }

    /// The allocation status of the bytes from `pos` on, at most `len`: the extent that begins there, which may be shorter
    /// than the status is uniform. The range lies on the device and is not empty. What has been written, even if it is
    /// only in the memory of a layer, must not be reported as a hole. Asked again, it may have changed.
    ///
    /// By default everything is data.
    ///
    /// # Errors
    /// A disk below does not tell.
    fn allocation(&self, pos: u64, len: u64) -> Result<Extent, Error> {
        Ok(Extent::data(pos, len))
    }

    /// The ranges of disks that the device uses. Two devices that share a range must not become members of one array.
    fn disk_ranges(&self) -> Vec<DiskRange> {
        self.below().iter().flat_map(|below| below.disk_ranges()).collect()
    }

    /// Sum of the counters of all queues below, including those of closed lanes.
    fn counters(&self) -> Snapshot {
        let mut sum = Snapshot::default();
        self.below().iter().for_each(|below| sum.merge(&below.counters()));
        sum
    }

    /// Failures, latencies and gauges of all queues below, including those of closed lanes.
    fn statistics(&self) -> Statistics {
        let mut sum = Statistics::default();
        self.below().iter().for_each(|below| sum.merge(&below.statistics()));
        sum
    }

    /// Has the smallest and the largest latency in [`statistics`](Backend::statistics) begin again, for one who measures from
    /// now on: counts and sums can be subtracted, extremes cannot.
    fn restart_extremes(&self) {
        self.below().iter().for_each(|below| below.restart_extremes());
    }

    /// The devices directly below.
    fn below(&self) -> Vec<Arc<dyn Backend>> {
        Vec::new()
    }

    /// The elevator of the device itself, if it has a queue for one.
    fn tunable(&self) -> Option<&dyn Tunable> {
        None
    }

    /// Trace events of the device itself, if it has a queue.
    fn traced(&self) -> Option<&dyn Traced> {
        None
    }

    /// The cache of the device itself.
    fn cached(&self) -> Option<&dyn Cached> {
        None
    }

    /// The device itself, if it has work to do while no thread is in a call.
    fn worker(&self) -> Option<&dyn Worker> {
        None
    }

    /// The status of the device itself, if it is a layer with one.
    fn managed(&self) -> Option<&dyn Managed> {
        None
    }

    /// Facts for operators: the driver and why it was chosen, the elevator, settings.
    fn facts(&self) -> Vec<Fact> {
        Vec::new()
    }

    /// Offers a region of memory to every lane, present and future.
    fn register(&self, region: &Region) {
        self.below().iter().for_each(|below| below.register(region));
    }

    /// Withdraws a region from future lanes and from present ones at their next batch.
    fn unregister(&self, region: RegionId) {
        self.below().iter().for_each(|below| below.unregister(region));
    }

    /// Describes the cause of a failure that has just happened, where the fault does not tell it.
    fn explain(&self, fault: Fault) -> Option<String> {
        self.below().iter().find_map(|below| below.explain(fault))
    }

    /// The failures that later flushes repeat until they are [acknowledged](Backend::acknowledge_flush_failure): one of each disk
    /// below that has failed a flush. A device with a record of its own of such failures implements both functions.
    fn flush_failures(&self) -> Vec<Fault> {
        self.below().iter().flat_map(|below| below.flush_failures()).collect()
    }

    /// Accepts that data written before a failed flush may be lost.
    fn acknowledge_flush_failure(&self) {
        self.below().iter().for_each(|below| below.acknowledge_flush_failure());
    }

    /// Tells `watcher` from now on about events of the device. Watchers are held weakly; a watcher that has been
    /// dropped is removed from the list.
    ///
    /// The default passes the watcher on to all devices below, which is right for a layer that is as large as the
    /// device below it. A layer that keeps its size registers a watcher of its own below and reports
    /// [`DeviceEvent::Below`](crate::event::DeviceEvent::Below).
    fn watch(&self, watcher: Weak<dyn Watcher>) {
        self.below().iter().for_each(|below| below.watch(Weak::clone(&watcher)));
    }

    /// Checks whether the device has changed its size or is gone, and tells the watchers before it returns. Without
    /// this call disks check only at flushes and after errors.
    ///
    /// # Errors
    /// The system does not report the size.
    fn refresh(&self) -> Result<(), Error> {
        self.below().iter().try_for_each(|below| below.refresh())
    }

    /// Checks as [`refresh`](Backend::refresh) does, but accepts nothing: a disk that shrank and grew again is not used to
    /// its end. For programs that have noticed by other means that a disk may have changed.
    ///
    /// # Errors
    /// The system does not report the size.
    fn measure(&self) -> Result<(), Error> {
        self.below().iter().try_for_each(|below| below.measure())
    }

    /// The descriptors of the files below, as [`Disk::file_descriptor`](crate::disk::Disk::file_descriptor): what a program
    /// has to watch to learn of new sizes. They stay open as long as the device.
    fn file_descriptors(&self) -> Vec<core::ffi::c_int> {
        self.below().iter().flat_map(|below| below.file_descriptors()).collect()
    }
}

/// The capabilities of a device or of the devices below it.
impl dyn Backend {
    /// Switches the elevator of every disk; see [`Tunable::switch_elevator`].
    ///
    /// # Errors
    /// That of the first disk that fails. The disks before it have the new elevator.
    pub fn switch_elevator(&self, make: &dyn Fn() -> Option<Box<dyn Elevator>>) -> Result<(), Error> {
        match self.tunable() {
            Some(own) => own.switch_elevator(make),
            None => self.below().iter().try_for_each(|below| below.switch_elevator(make)),
        }
    }

    /// Switches how hard barriers keep their order on every disk; see [`Tunable::switch_ordered`].
    ///
    /// # Errors
    /// That of the first disk that fails. The disks before it have the new mode.
    pub fn switch_ordered(&self, ordered: Ordered) -> Result<(), Error> {
        match self.tunable() {
            Some(own) => own.switch_ordered(ordered),
            None => self.below().iter().try_for_each(|below| below.switch_ordered(ordered)),
        }
    }

    /// The parameters of the elevator and their values. With several disks: those of the first disk that has an
    /// elevator.
    pub fn elevator_params(&self) -> Vec<(Param, i64)> {
        if let Some(own) = self.tunable() {
            return own.elevator_params();
        }
        let mut of_each = self.below().into_iter().map(|below| below.elevator_params());
        of_each.find(|params| !params.is_empty()).unwrap_or_default()
    }

    /// Sets a parameter of the elevator on every disk; see [`Tunable::set_elevator_param`].
    ///
    /// # Errors
    /// That of the first disk that refuses. The disks before it have the new value.
    pub fn set_elevator_param(&self, name: &str, value: i64) -> Result<(), ParamError> {
        match self.tunable() {
            Some(own) => own.set_elevator_param(name, value),
            None => self.below().iter().try_for_each(|below| below.set_elevator_param(name, value)),
        }
    }

    /// The status of each layer of the stack that has one, from the top.
    pub fn layers(&self) -> Vec<LayerStatus> {
        let own = self.managed().map(|own| {
            let (items, params) = (own.status(), own.params());
            LayerStatus { device: self.name(), items, params }
        });
        own.into_iter().chain(self.below().iter().flat_map(|below| below.layers())).collect()
    }

    /// Sets a parameter of a layer while it is open: of every layer of the stack that has it, or only of the layers that
    /// show the device `layer`. See [`Managed::set_param`].
    ///
    /// # Errors
    /// No such layer has the parameter, or one refuses the value. The layers above that one have the new value.
    pub fn set_layer_param(&self, layer: Option<&str>, name: &str, value: i64) -> Result<(), ParamError> {
        let mut known = Vec::new();
        let mut set = false;
        self.set_in_layers(layer, (name, value), &mut known, &mut set)?;
        match set {
            true => Ok(()),
            false if known.is_empty() => Err(ParamError(alloc::format!(
                "{} has no layer with parameters that can be set",
                layer.map_or_else(|| String::from(&*self.name()), String::from)
            ))),
            false => Err(ParamError(alloc::format!(
                "no layer has a parameter \"{name}\" that can be set; there are: {}",
                known.join(", ")
            ))),
        }
    }

    fn set_in_layers(
        &self,
        layer: Option<&str>,
        (name, value): (&str, i64),
        known: &mut Vec<&'static str>,
        set: &mut bool,
    ) -> Result<(), ParamError> {
        let is_meant = layer.is_none_or(|layer| *layer == *self.name());
        if let (Some(own), true) = (self.managed(), is_meant) {
            let params = own.params();
            if params.iter().any(|(param, _)| param.name == name) {
                own.set_param(name, value)?;
                *set = true;
            }
            for (param, _) in params {
                if !known.contains(&param.name) {
                    known.push(param.name);
                }
            }
        }
        self.below().iter().try_for_each(|below| below.set_in_layers(layer, (name, value), known, set))
    }

    /// Traces every disk; see [`Traced::trace`].
    pub fn trace(&self, make: Option<SinkMaker>) {
        match self.traced() {
            Some(own) => own.trace(make),
            None => self.below().iter().for_each(|below| below.trace(make.clone())),
        }
    }

    /// Tells every cache of an opened handle; see [`Cached::handle_opened`].
    pub fn handle_opened(&self, id: HandleId) {
        match self.cached() {
            Some(own) => own.handle_opened(id),
            None => self.below().iter().for_each(|below| below.handle_opened(id)),
        }
    }

    /// Tells every cache of a closed handle; see [`Cached::handle_closed`].
    pub fn handle_closed(&self, id: HandleId) {
        match self.cached() {
            Some(own) => own.handle_closed(id),
            None => self.below().iter().for_each(|below| below.handle_closed(id)),
        }
    }

    /// Gives a hint to the topmost cache; see [`Cached::advise`]. Through a layer over one device it is passed on with the
    /// range mapped to that device. Without a cache it is ignored.
    ///
    /// # Errors
    /// The cache could not carry out the hint.
    pub fn advise(&self, id: HandleId, hint: Hint, pos: u64, len: u64) -> Result<(), Error> {
        if let Some(own) = self.cached() {
            return own.advise(id, hint, pos, len);
        }
        match (&self.below()[..], self.locate(pos)) {
            ([below], Some((0, moved))) => below.advise(id, hint, moved, len),
            _ => Ok(()),
        }
    }

    /// The counts that the topmost cache keeps for a handle. `None`: there is no cache, or it does not know the handle.
    /// A layer over one device asks that device.
    pub fn handle_counters(&self, id: HandleId) -> Option<HandleCounters> {
        if let Some(own) = self.cached() {
            return own.handle_counters(id);
        }
        match &self.below()[..] {
            [below] => below.handle_counters(id),
            _ => None,
        }
    }

    /// The counts of the topmost caches, summed over all handles, closed ones included. `None`: there is no cache.
    pub fn cache_counters(&self) -> Option<HandleCounters> {
        if let Some(own) = self.cached() {
            return own.cache_counters();
        }
        let mut sum = None::<HandleCounters>;
        for counters in self.below().iter().filter_map(|below| below.cache_counters()) {
            sum.get_or_insert_default().merge(&counters);
        }
        sum
    }

    /// The part of the device itself that is in memory; see [`Cached::resident`]. The devices below are not asked: reads
    /// from their memory would bypass this device.
    pub fn resident(&self) -> Option<Arc<dyn Resident>> {
        self.cached()?.resident()
    }

    /// Registers a bell with every device that has work of its own; see [`Worker::keep`].
    pub fn keep(&self, keeper: Arc<dyn Bell>) {
        match self.worker() {
            Some(own) => own.keep(keeper),
            None => self.below().iter().for_each(|below| below.keep(Arc::clone(&keeper))),
        }
    }
}

/// Identifies a disk, independent of the path it was opened by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Identity {
    /// A regular file: device and inode.
    File(u64, u64),
    /// A block device, by its device number.
    Node(u64),
    /// A disk of this process, by a number unique in the process.
    Process(u64),
    /// A disk behind a network, by a hash of its address and name. One disk under two addresses has two.
    Remote(u64),
}

/// A range of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskRange {
    /// The disk.
    pub disk: Identity,
    /// First byte.
    pub begin: u64,
    /// Byte past the last.
    pub end: u64,
}

impl DiskRange {
    /// Whether the two have a byte in common.
    pub fn overlaps(&self, other: &DiskRange) -> bool {
        self.disk == other.disk && self.begin < other.end && other.begin < self.end
    }
}
