//! What can be opened: a disk or a stack of layers, as something that hands out lanes.

use crate::bio::Context;
use crate::counters::Snapshot;
use crate::driver::Geometry;
use crate::elevator::Elevator;
use crate::event::Watcher;
use crate::fault::{Error, Fault};
use crate::handle::{HandleCounters, HandleId};
use crate::lane::{Bell, Lane};
use crate::limits::LimitSource;
use crate::params::{Param, ParamError};
use crate::readahead::Hint;
use crate::resident::Resident;
use crate::segment::{Region, RegionId};
use crate::statistics::Statistics;
use crate::time::{Span, Time, VirtualClock};
use crate::trace::Sink;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;

/// Who will use a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneUse {
    /// One thread, the one that opens it, for the lane's whole life.
    Exclusive,
    /// Any thread, one at a time. The thread that submits a bio need not be the one that waits for it, and may block or
    /// exit meanwhile.
    Shared,
    /// Any thread, one at a time, and each waits in the lane until what it submitted has completed.
    Synchronous,
}

/// One line of what is known about a device: key and value.
pub type Fact = (&'static str, String);

/// Makes a sink of trace events for one queue.
pub type SinkMaker = Arc<dyn Fn() -> Box<dyn Sink> + Send + Sync>;

/// A device from the side of a program: everything a handle needs, whatever is behind it.
pub trait Backend: LimitSource {
    /// Name for messages.
    fn name(&self) -> Arc<str>;

    /// Size, limits and features.
    fn geometry(&self) -> Geometry;

    /// A new way to the device.
    ///
    /// # Errors
    /// The driver cannot open another channel.
    fn open_lane(&self, lane_use: LaneUse) -> Result<Box<dyn Lane>, Error>;

    /// Whether a handle may copy what the device's alignment refuses through buffers of its own.
    fn may_bounce(&self) -> bool {
        self.below().iter().all(|below| below.may_bounce())
    }

    /// The shortest time after which a disk below fails an I/O that has not completed; `None`: no disk does. Handles
    /// give such a device memory of their own where a caller only lends some, see
    /// [`Flags::BORROWED`](crate::bio::Flags::BORROWED).
    fn timeout(&self) -> Option<Span> {
        self.below().iter().filter_map(|below| below.timeout()).min()
    }

    /// How many lanes synchronous callers may have open at once, at least one; `None`: no limit. Each lane of a layer
    /// takes one of each device below, so the smallest limit counts.
    fn max_lanes(&self) -> Option<u32> {
        self.below().iter().filter_map(|below| below.max_lanes()).min()
    }

    /// The clock that the devices below live by when they are simulated; `None`: the host's.
    fn clock(&self) -> Option<Arc<VirtualClock>> {
        self.below().iter().find_map(|below| below.clock())
    }

    /// A process has ended (thread 0 of it: all of the process): elevators need not wait for more of it.
    fn context_exited(&self, context: Context) {
        self.below().iter().for_each(|below| below.context_exited(context));
    }

    /// What time it is by that clock, or by the host's.
    fn now(&self) -> Time {
        self.below().first().map_or(Time::default(), |below| below.now())
    }

    /// Which device below (its place in [`below`](Backend::below)) holds the byte at `pos`, and where on it.
    /// `None`: there is none below, or not one.
    fn locate(&self, pos: u64) -> Option<(usize, u64)> {
        let _ = pos;
        None
    }

    /// The parts of disks that the device stands on. What two devices both stand on must not be made one
    /// array.
    fn ground(&self) -> Vec<Ground> {
        self.below().iter().flat_map(|below| below.ground()).collect()
    }

    /// Sum of the counters of all queues below, lanes that are closed included.
    fn counters(&self) -> Snapshot {
        let mut sum = Snapshot::default();
        self.below().iter().for_each(|below| sum.merge(&below.counters()));
        sum
    }

    /// Failures, latencies and gauges of all queues below, lanes that are closed included.
    fn statistics(&self) -> Statistics {
        let mut sum = Statistics::default();
        self.below().iter().for_each(|below| sum.merge(&below.statistics()));
        sum
    }

    /// The devices directly below.
    fn below(&self) -> Vec<Arc<dyn Backend>> {
        Vec::new()
    }

    /// What an operator wants to know: driver and why, elevator, settings.
    fn facts(&self) -> Vec<Fact> {
        Vec::new()
    }

    /// Switches the elevator while I/O runs; `make` is called once per queue. `None` as its result: none.
    ///
    /// # Errors
    /// The device has no queue of its own.
    fn switch_elevator(&self, make: &dyn Fn() -> Option<Box<dyn Elevator>>) -> Result<(), Error> {
        self.below().iter().try_for_each(|below| below.switch_elevator(make))
    }

    /// The parameters of the elevator and their values; of several disks below, those of the first that has
    /// one.
    fn elevator_params(&self) -> Vec<(Param, i64)> {
        let mut of_each = self.below().into_iter().map(|below| below.elevator_params());
        of_each.find(|params| !params.is_empty()).unwrap_or_default()
    }

    /// Sets a parameter of the elevator on every disk below.
    ///
    /// # Errors
    /// A disk has no elevator, an unknown name or a value out of range; the old value stands.
    fn set_elevator_param(&self, name: &str, value: i64) -> Result<(), ParamError> {
        self.below().iter().try_for_each(|below| below.set_elevator_param(name, value))
    }

    /// Offers a region of memory to every lane, present and future.
    fn register(&self, region: &Region) {
        self.below().iter().for_each(|below| below.register(region));
    }

    /// Withdraws a region from future lanes and from present ones at their next batch.
    fn unregister(&self, region: RegionId) {
        self.below().iter().for_each(|below| below.unregister(region));
    }

    /// What a failure of the device that just happened was about, where the fault does not say it.
    fn explain(&self, fault: Fault) -> Option<String> {
        self.below().iter().find_map(|below| below.explain(fault))
    }

    /// Sends trace events of lanes opened from now on, and of the shared queue, to sinks made by `make` (one
    /// per queue), or nowhere.
    fn trace(&self, make: Option<SinkMaker>) {
        self.below().iter().for_each(|below| below.trace(make.clone()));
    }

    /// Accepts that what was written before a failed flush may be lost.
    fn acknowledge_flush_failure(&self) {
        self.below().iter().for_each(|below| below.acknowledge_flush_failure());
    }

    /// Tells `watcher` from now on what happens to the device. Watchers are held weakly; one that is gone is dropped
    /// from the list.
    ///
    /// The default passes the watcher on to all devices below, which is right for a layer that is as large as the
    /// device below it. One that keeps its size puts a watcher of its own below and reports
    /// [`DeviceEvent::Below`](crate::event::DeviceEvent::Below).
    fn watch(&self, watcher: Weak<dyn Watcher>) {
        self.below().iter().for_each(|below| below.watch(Weak::clone(&watcher)));
    }

    /// Looks whether the device has changed its size or is gone, and tells the watchers before it returns. Disks look by
    /// themselves only at flushes and after errors.
    ///
    /// # Errors
    /// The system does not say what the size is now.
    fn refresh(&self) -> Result<(), Error> {
        self.below().iter().try_for_each(|below| below.refresh())
    }

    /// A handle was opened; its bios come with this number.
    fn handle_opened(&self, id: HandleId) {
        self.below().iter().for_each(|below| below.handle_opened(id));
    }

    /// The last clone of a handle is gone. Bios with its number may still be under way.
    fn handle_closed(&self, id: HandleId) {
        self.below().iter().for_each(|below| below.handle_closed(id));
    }

    /// A program says through a handle how it will read the `len` bytes at `pos`, a range of the device. A layer over
    /// one device passes it on, moved to where that device has the range; where nothing caches it is ignored.
    ///
    /// # Errors
    /// What a cache could not do for it.
    fn advise(&self, id: HandleId, hint: Hint, pos: u64, len: u64) -> Result<(), Error> {
        match (&self.below()[..], self.locate(pos)) {
            ([below], Some((0, moved))) => below.advise(id, hint, moved, len),
            _ => Ok(()),
        }
    }

    /// What a cache has counted of a handle. `None`: there is no cache, or it does not know the handle. A layer
    /// over one device asks that one.
    fn handle_counters(&self, id: HandleId) -> Option<HandleCounters> {
        match &self.below()[..] {
            [below] => below.handle_counters(id),
            _ => None,
        }
    }

    /// What the caches of the device have counted, of all handles together, closed ones included. `None`: there is
    /// no cache.
    fn cache_counters(&self) -> Option<HandleCounters> {
        let mut sum = None::<HandleCounters>;
        for counters in self.below().iter().filter_map(|below| below.cache_counters()) {
            sum.get_or_insert_default().merge(&counters);
        }
        sum
    }

    /// What of the device is in memory, for handles that answer from it. A layer that sees, changes or holds back
    /// bios must not pass on that of the device below: what is answered there would pass it by.
    fn resident(&self) -> Option<Arc<dyn Resident>> {
        None
    }

    /// Whom to ring when the device has work of its own to do (write-back) and nobody may be in a call: a lane of the
    /// device is then run until it is [idle](Lane::is_idle), at its [wake-ups](Lane::next_wakeup) and when its
    /// descriptors say so. It may be rung with any lock held; it does nothing but to tell another thread.
    ///
    /// Each handle of a program on this backend gives a bell of its own; all of them should be rung. That of a device
    /// that is closed does nothing, and the backend need not keep it alive: whoever gives a bell does that.
    fn keep(&self, keeper: Arc<dyn Bell>) {
        self.below().iter().for_each(|below| below.keep(Arc::clone(&keeper)));
    }
}

/// What tells one disk from another, whatever it was opened as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Identity {
    /// A regular file: device and inode.
    File(u64, u64),
    /// A block device, by its number.
    Node(u64),
    /// A disk of this process, by a number that only it has.
    Process(u64),
}

/// A part of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ground {
    /// The disk.
    pub disk: Identity,
    /// First byte.
    pub begin: u64,
    /// Byte past the last.
    pub end: u64,
}

impl Ground {
    /// Whether both have a byte in common.
    pub fn overlaps(&self, other: &Ground) -> bool {
        self.disk == other.disk && self.begin < other.end && other.begin < self.end
    }
}
