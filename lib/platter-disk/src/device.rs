//! The device: one object, three ways to call it.

use crate::background::Background;
use crate::callers::{Callers, open_lane};
use crate::channel::Channel;
use crate::clock::Clock;
use crate::deferred;
use crate::disk_backend::{DiskBackend, DiskSettings};
use crate::drivers::memory::{Memory, MemoryDisk};
use crate::handle::Description;
use crate::submitter::Submitter;
use crate::sync_io::{CopyRules, IoOptions};
use platter_block::allocation::Extent;
use platter_block::backend::{Backend, Fact, LaneUse};
use platter_block::bio::{Bio, Context, MAX_SEGMENTS, Op};
use platter_block::counters::Snapshot;
use platter_block::disk::{Disk, FnDisk};
use platter_block::driver::{Driver, Features, Geometry};
use platter_block::elevator::Elevator;
use platter_block::event::{DeviceEvent, Watcher};
use platter_block::fault::{Error, Fault, Kind, Stage};
use platter_block::handle::HandleCounters;
use platter_block::lane::Bell;
use platter_block::limits::Limits;
use platter_block::params::ParamError;
use platter_block::resident::Resident;
use platter_block::statistics::Statistics;
use platter_block::status::LayerStatus;
use platter_block::time::{Span, Time};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// An open device. Cheap to clone; clones share everything. All methods may be called from any thread.
///
/// The synchronous calls are in [`sync_io`](crate::sync_io), the futures in [`future`](crate::future), and
/// [`Device::channel`] opens the polled interface. All of them submit bios to the same queues.
#[derive(Clone)]
pub struct Device {
    pub(crate) inner: Arc<Inner>,
    pub(crate) submitter: Submitter,
    pub(crate) timeouts: Timeouts,
    /// The handle's description, if it belongs to a handle: open as long as any I/O may carry its number.
    pub(crate) description: Option<Arc<Description>>,
}

pub(crate) struct Inner {
    /// The part of the device that is in memory, if it has a cache on top.
    pub(crate) resident: Option<Arc<dyn Resident>>,
    pub(crate) backend: Arc<dyn Backend>,
    /// The geometry when the device was opened; the present size is in `size`.
    pub(crate) geometry: Geometry,
    size: AtomicU64,
    /// The largest size that it has had.
    largest: AtomicU64,
    pub(crate) clock: Clock,
    pub(crate) copy_rules: CopyRules,
    pub(crate) callers: Arc<Callers>,
    pub(crate) background: Arc<Background>,
}

/// The time that an I/O without a deadline of its own has, by its operation: those of the disk, if it is one.
#[derive(Clone, Copy, Default)]
pub(crate) struct Timeouts {
    /// Of reads and writes.
    transfers: Option<Span>,
    /// Of all else.
    others: Option<Span>,
}

impl Timeouts {
    fn of(backend: &dyn Backend) -> Timeouts {
        Timeouts { transfers: backend.timeout(Op::Read), others: backend.timeout(Op::Flush) }
    }

    fn get(&self, op: Op) -> Option<Span> {
        if matches!(op, Op::Read | Op::Write) { self.transfers } else { self.others }
    }

    /// Whether there are none.
    #[inline]
    pub(crate) fn is_none(&self) -> bool {
        self.transfers.is_none() && self.others.is_none()
    }

    /// Gives a bio its deadline, unless it has one.
    #[inline]
    pub(crate) fn apply(&self, clock: &Clock, bio: &mut Bio) {
        if bio.deadline().is_none()
            && let Some(timeout) = self.get(bio.op())
        {
            bio.set_deadline(Some(clock.now() + timeout));
        }
    }
}

impl Inner {
    fn measure(&self) {
        let size = self.backend.geometry().size;
        self.size.store(size, Ordering::Relaxed);
        self.largest.fetch_max(size, Ordering::Relaxed);
    }
}

impl Watcher for Inner {
    fn event(&self, event: &DeviceEvent) {
        if matches!(event, DeviceEvent::Resized { .. }) {
            self.measure();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.background.close();
        self.callers.close();
    }
}

/// Largest number of bios that a channel can be opened for.
const MAX_CHANNEL: usize = 65_536;

impl Device {
    /// A device on any backend.
    pub fn new(backend: Arc<dyn Backend>) -> Device {
        deferred::install();
        let (geometry, may_bounce) = (backend.geometry(), backend.may_bounce());
        let clock = Clock::of(backend.as_ref());
        let background = Background::new(&backend, clock.clone());
        if clock.simulated().is_none() {
            // In a simulation only callers advance the time, so no service thread may run the device.
            backend.keep(Arc::clone(&background) as Arc<dyn Bell>);
        }
        let timeouts = Timeouts::of(backend.as_ref());
        let inner = Arc::new(Inner {
            resident: backend.resident(),
            clock,
            geometry,
            size: AtomicU64::new(geometry.size),
            largest: AtomicU64::new(geometry.size),
            copy_rules: CopyRules::new(geometry.limits, may_bounce),
            callers: Callers::new(backend.as_ref()),
            background,
            backend,
        });
        inner.backend.watch(Arc::downgrade(&inner) as Weak<dyn Watcher>);
        // The size may have changed before the watcher was registered.
        inner.measure();
        Device { submitter: Submitter::default(), timeouts, description: None, inner }
    }

    /// The same device, for those who wait as long as it takes: an I/O without a deadline of its own gets none from the disk's `timeout`
    /// or `slow_timeout`, and ends when the disk returns it. Clients of servers are such.
    ///
    /// ```
    /// # use platter_disk::device::Device;
    /// # use platter_disk::disk_backend::DiskSettings;
    /// # use platter_block::{queue::Settings, time::Span};
    /// let queue = Settings { timeout: Some(Span::from_secs(30)), ..Settings::default() };
    /// let disk = Device::ram_with(1 << 20, DiskSettings::default().with_queue(queue), None)?;
    /// disk.without_timeouts().read_at(&mut [0; 512], 0)?;
    /// # Ok::<(), platter_block::fault::Error>(())
    /// ```
    #[must_use]
    pub fn without_timeouts(&self) -> Device {
        Device { timeouts: Timeouts::default(), ..self.clone() }
    }

    /// The deadline of a call.
    #[inline]
    pub(crate) fn until(&self, op: Op, options: IoOptions) -> Option<Time> {
        let timeout = options.timeout.or_else(|| self.timeouts.get(op))?;
        Some(self.inner.clock.now() + timeout)
    }

    /// A device over a disk, with queues of its own.
    ///
    /// ```
    /// use platter_block::driver::Driver;
    /// use platter_disk::device::Device;
    /// use platter_disk::drivers::memory::Memory;
    /// use platter_block::disk::FnDisk;
    /// use platter_disk::disk_backend::DiskSettings;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let memory = Memory::new(1 << 20)?;
    /// let channels = memory.clone();
    /// let disk = FnDisk::new("mine", memory.geometry(), move |_| {
    ///     Ok(Box::new(channels.channel(32)) as Box<dyn Driver>)
    /// });
    /// let device = Device::from_disk(disk, DiskSettings::default(), None)?;
    /// device.write_at(&[1; 512], 0)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The disk cannot open a channel.
    pub fn from_disk(
        disk: impl Disk + 'static,
        settings: DiskSettings,
        elevator: Option<Box<dyn Elevator>>,
    ) -> Result<Device, Error> {
        Ok(Device::new(Arc::new(DiskBackend::new(disk, settings, elevator)?)))
    }

    /// A device of `size` bytes that transfers nothing.
    ///
    /// # Errors
    /// None at present; the signature is that of the other devices.
    pub fn null(size: u64) -> Result<Device, Error> {
        Device::null_with(size, DiskSettings::default(), None)
    }

    /// [`Device::null`] with settings and an elevator.
    ///
    /// # Errors
    /// As for [`Device::null`].
    pub fn null_with(
        size: u64,
        settings: DiskSettings,
        elevator: Option<Box<dyn Elevator>>,
    ) -> Result<Device, Error> {
        let limits =
            Limits::unlimited(512).with_memory_align(4).with_max_transfer(1 << 20).with_max_segments(256);
        let features = Features::default().with_prebuild(true);
        let geometry = Geometry::new(size, limits).with_features(features);
        let depth = settings.queue.depth;
        let channel = move |_| Ok(Box::new(crate::drivers::null::Null::new(depth)) as Box<dyn Driver>);
        let disk = FnDisk::new("null", geometry, channel).with_driver_name("null");
        Device::from_disk(disk, settings, elevator)
    }

    /// A disk in memory, of `size` bytes, filled with zeroes.
    ///
    /// # Errors
    /// The memory cannot be allocated.
    pub fn ram(size: u64) -> Result<Device, Error> {
        Device::ram_with(size, DiskSettings::default(), None)
    }

    /// [`Device::ram`] with settings and an elevator.
    ///
    /// # Errors
    /// As for [`Device::ram`].
    pub fn ram_with(
        size: u64,
        settings: DiskSettings,
        elevator: Option<Box<dyn Elevator>>,
    ) -> Result<Device, Error> {
        let memory = Memory::new(size).map_err(|error| Error {
            fault: Fault::new(Kind::NoMemory, Stage::Driver),
            op: Op::Write,
            device: Arc::from("ram"),
            offset: 0,
            len: size,
            detail: error.to_string(),
        })?;
        let disk = MemoryDisk { memory, depth: settings.queue.depth };
        Device::from_disk(disk, settings, elevator)
    }

    /// Name for messages.
    pub fn name(&self) -> Arc<str> {
        self.inner.backend.name()
    }

    /// Size in bytes. It follows the size of the disk, which the device checks at flushes, after errors that suggest
    /// a change, and at [`refresh`](Device::refresh).
    #[inline]
    pub fn size(&self) -> u64 {
        self.inner.size.load(Ordering::Relaxed)
    }

    /// The largest size in bytes that it has had.
    pub(crate) fn largest(&self) -> u64 {
        self.inner.largest.load(Ordering::Relaxed)
    }

    /// Size, limits and features.
    pub fn geometry(&self) -> Geometry {
        self.inner.geometry.with_size(self.size())
    }

    /// Tells `watcher` from now on about events of the device: changes of its size, or its removal. Watchers are held
    /// weakly.
    ///
    /// ```
    /// use platter_block::event::{DeviceEvent, Watcher};
    /// use std::sync::{Arc, Weak};
    /// # use platter_disk::device::Device;
    /// struct Log;
    /// impl Watcher for Log {
    ///     fn event(&self, event: &DeviceEvent) {
    ///         eprintln!("{event:?}");
    ///     }
    /// }
    /// let disk = Device::ram(1 << 20)?;
    /// let log: Arc<dyn Watcher> = Arc::new(Log);
    /// disk.watch(Arc::downgrade(&log));
    /// disk.refresh()?;
    /// # Ok::<(), platter_block::fault::Error>(())
    /// ```
    pub fn watch(&self, watcher: Weak<dyn Watcher>) {
        self.inner.backend.watch(watcher);
    }

    /// Asks the system whether the disks below have changed their sizes or are gone. When it returns, watchers have
    /// been told, [`size`](Device::size) is the new size, and new I/O uses it. The call accepts the sizes that it
    /// finds: a disk that shrank and has grown again is used to its end only after this call, because the data in the
    /// range that was cut off is lost and reads as zeroes.
    ///
    /// # Errors
    /// The system does not report the size.
    pub fn refresh(&self) -> Result<(), Error> {
        self.inner.backend.refresh()
    }

    /// The allocation status of the bytes from `pos` on, at most `len`: the extent that begins there. It may be shorter
    /// than the status is uniform; ask again at its end. Holes are known of files, of disks in memory and of simulated
    /// disks, also below layers; all else is data. Other threads may change it at any time.
    ///
    /// ```
    /// # use platter_disk::device::Device;
    /// let disk = Device::ram(1 << 20)?;
    /// disk.write_at(&[1; 4096], 8192)?;
    /// let first = disk.allocation(0, disk.size())?;
    /// assert_eq!((first.is_hole(), first.end()), (true, 8192));
    /// # Ok::<(), platter_block::fault::Error>(())
    /// ```
    ///
    /// # Errors
    /// The range is empty or not on the device ([`Kind::OutOfRange`]); the system does not tell.
    pub fn allocation(&self, pos: u64, len: u64) -> Result<Extent, Error> {
        if len == 0 || pos.checked_add(len).is_none_or(|end| end > self.size()) {
            let fault = Fault::new(Kind::OutOfRange, Stage::Layer);
            return Err(self.error(fault, Op::Read, pos, len, String::new()));
        }
        self.inner.backend.allocation(pos, len)
    }

    /// Limits at a position.
    pub fn limits_at(&self, pos: u64) -> Limits {
        self.inner.backend.limits_at(pos).0
    }

    /// The backend behind the device.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.inner.backend
    }

    /// Opens the polled interface for the calling thread, with room for `bios` bios at once.
    ///
    /// # Errors
    /// The number of bios is zero or too large, or a driver cannot open another channel.
    pub fn channel(&self, bios: usize) -> Result<Channel, Error> {
        if bios == 0 || bios > MAX_CHANNEL {
            let detail =
                format!("a channel for {bios} bios is impossible; the number must be 1 to {MAX_CHANNEL}");
            return Err(self.error(Fault::new(Kind::Unsupported, Stage::Handle), Op::Read, 0, 0, detail));
        }
        let lane = open_lane(self.inner.backend.as_ref(), LaneUse::Exclusive)?;
        Ok(Channel::new(lane, self, bios))
    }

    /// Counters of all queues below, of bounce buffers, and of I/Os whose time was over while a disk had them.
    pub fn counters(&self) -> Snapshot {
        let mut sum = self.inner.backend.counters();
        sum.bytes_bounced += self.inner.copy_rules.bytes();
        sum.timeouts += self.inner.background.fence.lates();
        sum
    }

    /// Failures, latencies and gauges of all queues below. The call takes some microseconds for each open lane; it
    /// costs the lanes nothing.
    pub fn statistics(&self) -> Statistics {
        self.inner.backend.statistics()
    }

    /// Has the smallest and the largest latency in [`statistics`](Device::statistics) begin again: counts and sums before and
    /// after a measurement can be subtracted, extremes cannot. One measurement at a time.
    pub fn restart_extremes(&self) {
        self.inner.backend.restart_extremes();
    }

    /// The counts of the caches of the device, summed over all handles. `None`: it has no cache.
    pub fn cache_counters(&self) -> Option<HandleCounters> {
        self.inner.backend.cache_counters()
    }

    /// The status of each layer of the device that has one, from the top: the state of a snapshot, dirty bytes of a cache,
    /// background work.
    pub fn layers(&self) -> Vec<LayerStatus> {
        self.inner.backend.layers()
    }

    /// Sets a parameter of a layer while the device is open: of every layer that has it, or only of those that show the
    /// device `layer`. [`layers`](Device::layers) lists the parameters, with their units and values.
    ///
    /// The value is a number in the unit of the parameter: bytes, milliseconds for most times, percent, 0 or 1 for a
    /// switch; for one of a list of words, its place in the list, from 0.
    ///
    /// ```
    /// # use platter_disk::device::Device;
    /// # fn set(disk: &Device) -> Result<(), Box<dyn std::error::Error>> {
    /// // Of a cache.
    /// disk.set_layer_param(None, "size", 2 << 30)?; // 2 GiB
    /// disk.set_layer_param(None, "expire", 10_000)?; // 10 s
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// No such layer has the parameter, or one refuses the value. The layers above that one have the new value.
    pub fn set_layer_param(&self, layer: Option<&str>, name: &str, value: i64) -> Result<(), ParamError> {
        self.inner.backend.set_layer_param(layer, name, value)
    }

    /// Facts for operators, such as driver, elevator and settings.
    pub fn facts(&self) -> Vec<Fact> {
        self.inner.backend.facts()
    }

    /// Acknowledges a failed flush. After a failed flush every later flush fails, because data written before it may
    /// be lost; after this call flushes work again.
    pub fn acknowledge_flush_failure(&self) {
        self.inner.backend.acknowledge_flush_failure();
    }

    /// Writes back the contents of a cache, makes everything durable and drops this reference to the device. Dropping
    /// the last reference writes back too, but cannot report a failure.
    ///
    /// # Errors
    /// As for [`Device::flush`]. The reference is dropped in any case.
    pub fn close(self) -> Result<(), Error> {
        self.flush()
    }

    /// The clock of the device: the host's, or that of a simulation.
    pub fn clock(&self) -> Clock {
        self.inner.clock.clone()
    }

    /// Reports that a process has exited (with thread 0, the whole process), so that elevators do not wait for more
    /// of its requests.
    pub fn context_exited(&self, context: Context) {
        self.inner.backend.context_exited(context);
    }

    /// Describes which of the disks below failed a bio that failed at `pos`: empty if there is only one disk, or if
    /// no disk got the bio.
    pub(crate) fn place_of(&self, fault: Fault, pos: u64) -> String {
        if matches!(fault.stage, Stage::Handle | Stage::Layer) || matches!(fault.kind, Kind::Misaligned) {
            return String::new();
        }
        let (mut device, mut pos, mut path) = (Arc::clone(&self.inner.backend), pos, String::new());
        while let Some((number, below_pos)) = device.locate(pos) {
            let mut below = device.below();
            if number >= below.len() {
                break;
            }
            if below.len() > 1 {
                let separator = if path.is_empty() { "" } else { "." };
                path = format!("{path}{separator}{number}");
            }
            (device, pos) = (below.swap_remove(number), below_pos);
        }
        match (fault.kind, path.is_empty()) {
            // A disk that reports corrupt data with an errno does not say where in the transfer.
            (Kind::Corrupt, true) if fault.errno == 0 => {
                format!("the first block that differs is at {pos} of {}", device.name())
            }
            (_, true) => path,
            _ => format!("on member {path} ({}) at {pos}", device.name()),
        }
    }

    /// The error of an operation on this device: `detail`, followed by what the kind of the fault says. For code
    /// that submits bios itself.
    pub fn error(&self, fault: Fault, op: Op, offset: u64, len: u64, detail: String) -> Error {
        let limits = self.limits_at(offset);
        let hint = match fault.kind {
            Kind::Misaligned => format!(
                "offset and length must be multiples of {}, memory addresses of {}, lengths of buffers of {}",
                limits.logical_block, limits.memory_align, limits.length_align
            ),
            Kind::BadSegments => {
                format!(
                    "a transfer has at most {MAX_SEGMENTS} buffers, and their lengths must add up to its own"
                )
            }
            Kind::OutOfRange => format!("the device has {} bytes", self.size()),
            Kind::Gone if fault.stage == Stage::Driver => {
                "no channel to the device could be opened; see the limits on open files and locked memory"
                    .to_string()
            }
            Kind::Gone if offset.saturating_add(len) > self.size() => format!(
                "the device shrank from {} to {} bytes",
                self.inner.largest.load(Ordering::Relaxed),
                self.size()
            ),
            Kind::FlushFailed => {
                "earlier writes may be lost; acknowledge the failure to continue".to_string()
            }
            Kind::ReadOnly if fault.errno == 0 => "open the device for writing".to_string(),
            Kind::Unsettled if fault.stage == Stage::Handle => self.inner.background.fence.explain(),
            Kind::Unsettled
            | Kind::Gone
            | Kind::Io
            | Kind::NoSpace
            | Kind::TimedOut
            | Kind::ReadOnly
            | Kind::Refused
            | Kind::Unsupported
            | Kind::Broken => self.inner.backend.explain(fault).unwrap_or_default(),
            _ => String::new(),
        };
        let separator = if detail.is_empty() || hint.is_empty() { "" } else { "; " };
        let detail = format!("{detail}{separator}{hint}");
        Error { fault, op, device: self.name(), offset, len, detail }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({}, {} bytes)", self.name(), self.size())
    }
}
