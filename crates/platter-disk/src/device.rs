//! The handle: one device, three ways to call it.

use crate::background::Background;
use crate::bounce::Bouncer;
use crate::callers::{Callers, open_lane};
use crate::channel::Channel;
use crate::clock::Clock;
use crate::deferred;
use crate::drivers::memory::Memory;
use crate::handle::Description;
use crate::leaf::{Leaf, LeafSettings};
use crate::submitter::Submitter;
use platter_block::backend::{Backend, Fact, LaneUse};
use platter_block::bio::{Context, MAX_SEGMENTS, Op};
use platter_block::counters::Snapshot;
use platter_block::disk::{Disk, FnDisk};
use platter_block::driver::{Driver, Features, Geometry};
use platter_block::elevator::Elevator;
use platter_block::event::{DeviceEvent, Watcher};
use platter_block::fault::{Error, Fault, Kind, Stage};
use platter_block::handle::HandleCounters;
use platter_block::lane::Bell;
use platter_block::limits::Limits;
use platter_block::resident::Resident;
use platter_block::statistics::Statistics;
use platter_block::time::Span;
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
    /// Of a handle: open as long as somebody signs with its number.
    pub(crate) description: Option<Arc<Description>>,
}

pub(crate) struct Inner {
    /// What is in memory of the device, if it has a cache on top.
    pub(crate) resident: Option<Arc<dyn Resident>>,
    pub(crate) backend: Arc<dyn Backend>,
    /// As it was when the device was opened; its size now is in `size`.
    pub(crate) geometry: Geometry,
    size: AtomicU64,
    /// The largest size that it has had.
    largest: AtomicU64,
    pub(crate) clock: Clock,
    pub(crate) bouncer: Bouncer,
    pub(crate) callers: Arc<Callers>,
    /// After which time a disk below gives an I/O up, if one does.
    pub(crate) timeout: Option<Span>,
    pub(crate) background: Arc<Background>,
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

/// Bios that a channel may have out beyond its device's requests.
const MAX_CHANNEL: usize = 65_536;

impl Device {
    /// A handle on anything that can be opened.
    pub fn new(backend: Arc<dyn Backend>) -> Device {
        deferred::install();
        let (geometry, may_bounce) = (backend.geometry(), backend.may_bounce());
        let clock = Clock::of(backend.as_ref());
        let background = Background::new(&backend, clock.clone());
        if clock.simulated().is_none() {
            // In a simulation nobody but its callers makes time pass.
            backend.keep(Arc::clone(&background) as Arc<dyn Bell>);
        }
        let inner = Arc::new(Inner {
            resident: backend.resident(),
            clock,
            geometry,
            size: AtomicU64::new(geometry.size),
            largest: AtomicU64::new(geometry.size),
            bouncer: Bouncer::new(geometry.limits, may_bounce),
            callers: Callers::new(backend.as_ref()),
            timeout: backend.timeout(),
            background,
            backend,
        });
        inner.backend.watch(Arc::downgrade(&inner) as Weak<dyn Watcher>);
        // It may have changed before that.
        inner.measure();
        Device { submitter: Submitter::default(), description: None, inner }
    }

    /// A device over a disk, with queues of its own.
    ///
    /// ```
    /// use platter_block::driver::Driver;
    /// use platter_disk::device::Device;
    /// use platter_disk::drivers::memory::Memory;
    /// use platter_block::disk::FnDisk;
    /// use platter_disk::leaf::LeafSettings;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let memory = Memory::new(1 << 20)?;
    /// let channels = memory.clone();
    /// let disk = FnDisk::new("mine", memory.geometry(), move |_| {
    ///     Ok(Box::new(channels.channel(32)) as Box<dyn Driver>)
    /// });
    /// let device = Device::from_disk(disk, LeafSettings::default(), None)?;
    /// device.write_at(&[1; 512], 0)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The disk cannot open a channel.
    pub fn from_disk(
        disk: impl Disk + 'static,
        settings: LeafSettings,
        elevator: Option<Box<dyn Elevator>>,
    ) -> Result<Device, Error> {
        Ok(Device::new(Arc::new(Leaf::new(disk, settings, elevator)?)))
    }

    /// A device that does nothing, of `size` bytes.
    ///
    /// # Errors
    /// None today; the signature is that of the other devices.
    pub fn null(size: u64) -> Result<Device, Error> {
        Device::null_with(size, LeafSettings::default(), None)
    }

    /// [`Device::null`] with settings and an elevator.
    ///
    /// # Errors
    /// As for [`Device::null`].
    pub fn null_with(
        size: u64,
        settings: LeafSettings,
        elevator: Option<Box<dyn Elevator>>,
    ) -> Result<Device, Error> {
        let limits =
            Limits { memory_align: 4, max_transfer: 1 << 20, max_segments: 256, ..Limits::unlimited(512) };
        let geometry = Geometry { size, limits, features: Features::default() };
        let depth = settings.queue.depth;
        let channel = move |_| Ok(Box::new(crate::drivers::null::Null::new(depth)) as Box<dyn Driver>);
        let disk = FnDisk::new("null", geometry, channel).with_driver_name("null");
        Device::from_disk(disk, settings, elevator)
    }

    /// A disk in memory, of `size` bytes, filled with zeroes.
    ///
    /// # Errors
    /// The memory cannot be had.
    pub fn ram(size: u64) -> Result<Device, Error> {
        Device::ram_with(size, LeafSettings::default(), None)
    }

    /// [`Device::ram`] with settings and an elevator.
    ///
    /// # Errors
    /// As for [`Device::ram`].
    pub fn ram_with(
        size: u64,
        settings: LeafSettings,
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
        let depth = settings.queue.depth;
        let geometry = memory.geometry();
        let channel = move |_| Ok(Box::new(memory.channel(depth)) as Box<dyn Driver>);
        let disk = FnDisk::new("ram", geometry, channel).with_driver_name("ram");
        Device::from_disk(disk, settings, elevator)
    }

    /// Name for messages.
    pub fn name(&self) -> Arc<str> {
        self.inner.backend.name()
    }

    /// Size in bytes. It follows that of the disk where the device notices: at flushes, after errors that say so, and at
    /// [`refresh`](Device::refresh).
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
        Geometry { size: self.size(), ..self.inner.geometry }
    }

    /// Tells `watcher` from now on what happens to the device: that it changes its size, or is gone. Watchers are held
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

    /// Asks the system whether the disks below have changed their sizes or are gone. When it returns, watchers have been
    /// told, [`size`](Device::size) is the new one, and I/O that begins uses it. This accepts the sizes that are found: a
    /// disk that shrank and has grown again is used to its end only after this, for what was stored in between is lost and
    /// reads as zeroes.
    ///
    /// # Errors
    /// The system does not say what the size is.
    pub fn refresh(&self) -> Result<(), Error> {
        self.inner.backend.refresh()
    }

    /// Limits at a position.
    pub fn limits_at(&self, pos: u64) -> Limits {
        self.inner.backend.limits_at(pos).0
    }

    /// What is behind the handle.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.inner.backend
    }

    /// Opens the polled interface for the calling thread, with room for `bios` at once.
    ///
    /// # Errors
    /// A number of bios that is zero or absurd, or a driver that cannot open another channel.
    pub fn channel(&self, bios: usize) -> Result<Channel, Error> {
        if bios == 0 || bios > MAX_CHANNEL {
            let detail = format!("a channel for {bios} bios; 1 to {MAX_CHANNEL} are possible");
            return Err(self.error(Fault::new(Kind::Unsupported, Stage::Handle), Op::Read, 0, 0, detail));
        }
        let lane = open_lane(self.inner.backend.as_ref(), LaneUse::Exclusive)?;
        Ok(Channel::new(lane, self, bios))
    }

    /// Counters of all queues below and of bounce buffers.
    pub fn counters(&self) -> Snapshot {
        let mut sum = self.inner.backend.counters();
        sum.bytes_bounced += self.inner.bouncer.bytes();
        sum
    }

    /// Failures, latencies and gauges of all queues below. It takes some microseconds for each open lane, and the lanes
    /// nothing.
    pub fn statistics(&self) -> Statistics {
        self.inner.backend.statistics()
    }

    /// What the caches of the device have counted, of all handles together. `None`: it has none.
    pub fn cache_counters(&self) -> Option<HandleCounters> {
        self.inner.backend.cache_counters()
    }

    /// What an operator wants to know.
    pub fn facts(&self) -> Vec<Fact> {
        self.inner.backend.facts()
    }

    /// After a failed flush every later flush fails, because what was written before may be lost. This
    /// accepts that; flushes work again.
    pub fn acknowledge_flush_failure(&self) {
        self.inner.backend.acknowledge_flush_failure();
    }

    /// Writes back what a cache holds, makes everything durable and lets this handle on the device go. Dropping the
    /// last one writes back too, but cannot say that it failed.
    ///
    /// # Errors
    /// As for [`Device::flush`]. The handle is gone all the same.
    pub fn close(self) -> Result<(), Error> {
        self.flush()
    }

    /// The clock that the device lives by: the host's, or that of a simulation.
    pub fn clock(&self) -> Clock {
        self.inner.clock.clone()
    }

    /// Says that a process has ended (thread 0 of it: all of the process), so that elevators do not wait for
    /// more of it.
    pub fn context_exited(&self, context: Context) {
        self.inner.backend.context_exited(context);
    }

    /// Which of the disks below a bio failed on that failed at `pos`: empty where there is only one, or where
    /// none of them was asked.
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
            (Kind::Corrupt, true) => format!("the first block that differs is at {pos} of {}", device.name()),
            (_, true) => path,
            _ => format!("on member {path} ({}) at {pos}", device.name()),
        }
    }

    /// An error about an operation on this device, with what the fault's kind makes worth knowing.
    pub(crate) fn error(&self, fault: Fault, op: Op, offset: u64, len: u64, detail: String) -> Error {
        let limits = self.limits_at(offset);
        let hint = match fault.kind {
            Kind::Misaligned => format!(
                "offset and length must be multiples of {}, memory addresses of {}, lengths of buffers of {}",
                limits.logical_block, limits.memory_align, limits.length_align
            ),
            Kind::BadSegments => {
                format!("at most {MAX_SEGMENTS} buffers make a transfer, and their lengths add up to its own")
            }
            Kind::OutOfRange => format!("the device has {} bytes", self.size()),
            Kind::Gone if fault.stage == Stage::Driver => {
                "no channel to it could be opened; see the limits on open files and locked memory".to_string()
            }
            Kind::Gone if offset.saturating_add(len) > self.size() => format!(
                "the device shrank from {} to {} bytes",
                self.inner.largest.load(Ordering::Relaxed),
                self.size()
            ),
            Kind::FlushFailed => "writes before it may be lost; acknowledge it to go on".to_string(),
            Kind::ReadOnly => "open the device for writing".to_string(),
            Kind::LaneStalled => self.inner.backend.explain(fault).unwrap_or_default(),
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
