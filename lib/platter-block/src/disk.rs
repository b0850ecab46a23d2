//! What a device's queues send requests to.

use crate::allocation::Extent;
use crate::backend::{Fact, Identity, LaneUse};
use crate::driver::{Driver, Geometry};
use crate::fault::{Error, Fault, Status};
use crate::time::{Time, VirtualClock};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

#[allow(unsafe_code)]
mod channel;

pub use channel::DiskChannel;

/// A disk: a file, a block device, memory, a simulated disk, a disk behind a network.
///
/// It opens channels, and queues do the rest: merging, splitting, order, timeouts. A disk has only to say what it is.
pub trait Disk: Send + Sync {
    /// Name for messages.
    fn name(&self) -> Arc<str>;

    /// Size, limits and features, as of the time when it was opened.
    fn geometry(&self) -> Geometry;

    /// Opens a channel. A device without an elevator opens one for each of its lanes, and one for flushes and barriers.
    ///
    /// # Errors
    /// No further channel can be opened. Callers wait for a lane of another thread then.
    fn open_channel(&self, lane_use: LaneUse) -> Result<DiskChannel, Error>;

    /// Most requests that the disk takes at once, over all channels. `None`: as many as the queue's depth.
    fn depth(&self) -> Option<u32> {
        None
    }

    /// Most channels that may be open at once; `None`: no limit but the system's. A disk with a single one needs an
    /// elevator, because lanes share only the queue that has one.
    fn max_channels(&self) -> Option<u32> {
        None
    }

    /// The clock of the simulation that the disk is part of.
    fn clock(&self) -> Option<Arc<VirtualClock>> {
        None
    }

    /// What else an operator should know. Called again for each report, so values may change.
    fn facts(&self) -> Vec<Fact> {
        Vec::new()
    }

    /// What tells it from other disks. `None`: each device on it is a disk of its own.
    fn identity(&self) -> Option<Identity> {
        None
    }

    /// Its size now, in bytes; `None`: it was removed. Asked before flushes, and after errors that a change explains.
    ///
    /// # Errors
    /// The size cannot be found out. The device keeps the last one.
    fn current_size(&self) -> Result<Option<u64>, Error> {
        Ok(Some(self.geometry().size))
    }

    /// The descriptor of the file that it is, whose size other programs can change; `None`: it is no file. It stays open as
    /// long as the disk.
    fn file_descriptor(&self) -> Option<core::ffi::c_int> {
        None
    }

    /// The allocation status of the bytes from `pos` on, at most `len`: the extent that begins there. The range lies on the
    /// disk and is not empty. What has been written must not be reported as a hole.
    ///
    /// # Errors
    /// The system does not tell.
    fn allocation(&self, pos: u64, len: u64) -> Result<Extent, Error> {
        Ok(Extent::data(pos, len))
    }

    /// A function that flushes the disk and blocks its thread until the disk has done so: for callers that sleep until then
    /// anyway and have no deadline, it is faster than the way through a driver and back. `None`: only drivers can flush it.
    /// Asked once.
    fn blocking_flush(&self) -> Option<BlockingFlush> {
        None
    }

    /// Whether writes that have succeeded may be in the memory of this process only: they are lost if it is killed.
    fn holds_unflushed(&self) -> bool {
        false
    }

    /// Describes the cause of a failure that has just happened, where the fault does not tell it.
    fn explain(&self, fault: Fault) -> Option<String> {
        let _ = fault;
        None
    }

    /// The program has accepted a size that was found: the disk is used up to there from now on.
    ///
    /// # Errors
    /// It cannot be. The device keeps the last size.
    fn accept_size(&self, size: u64) -> Result<(), Error> {
        let _ = size;
        Ok(())
    }
}

/// See [`Disk::blocking_flush`].
pub type BlockingFlush = Arc<dyn Fn(Time) -> Status + Send + Sync>;

type OpenChannel = dyn Fn(LaneUse) -> Result<Box<dyn Driver>, Error> + Send + Sync;

/// A disk made of a geometry and a function that opens channels, for programs and tests with a driver of their own.
///
/// ```
/// use platter_block::disk::{Disk, FnDisk};
/// use platter_block::driver::{Completion, Driver, Geometry, Started};
/// use platter_block::limits::Limits;
/// use platter_block::time::{Span, Time};
///
/// /// Completes everything at once.
/// #[derive(Default)]
/// struct Instant(Vec<Completion>);
///
/// impl Driver for Instant {
///     fn queue(&mut self, _now: Time, request: &Started<'_>) -> bool {
///         self.0.push(Completion { tag: request.tag, result: request.len as i64 });
///         true
///     }
///     fn submit(&mut self, _now: Time) {}
///     fn reap(&mut self, _now: Time, done: &mut Vec<Completion>) {
///         done.append(&mut self.0);
///     }
///     fn wait(&mut self, _now: Time, _timeout: Option<Span>) {}
/// }
///
/// let geometry = Geometry::new(1 << 20, Limits::unlimited(512));
/// let disk = FnDisk::new("instant", geometry, |_| Ok(Box::new(Instant::default())));
/// assert_eq!(disk.geometry().size, 1 << 20);
/// ```
pub struct FnDisk {
    name: Arc<str>,
    geometry: Geometry,
    clock: Option<Arc<VirtualClock>>,
    driver: Option<String>,
    blocking_flush: Option<BlockingFlush>,
    open_channel: Box<OpenChannel>,
}

impl FnDisk {
    /// A disk whose channels are those of the drivers that `open_channel` makes.
    pub fn new<F>(name: &str, geometry: Geometry, open_channel: F) -> FnDisk
    where
        F: Fn(LaneUse) -> Result<Box<dyn Driver>, Error> + Send + Sync + 'static,
    {
        let open_channel = Box::new(open_channel);
        let (clock, driver, blocking_flush) = (None, None, None);
        FnDisk { name: Arc::from(name), geometry, clock, driver, blocking_flush, open_channel }
    }

    /// The disk is part of a simulation with this clock, if there is one.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Into<Option<Arc<VirtualClock>>>) -> FnDisk {
        self.clock = clock.into();
        self
    }

    /// Reports the name of its driver as the fact `driver`.
    #[must_use]
    pub fn with_driver_name(mut self, driver: &str) -> FnDisk {
        self.driver = Some(driver.into());
        self
    }

    /// Callers that sleep until a flush has ended, and have no deadline, call this: see [`Disk::blocking_flush`].
    #[must_use]
    pub fn with_blocking_flush(mut self, flush: impl Into<Option<BlockingFlush>>) -> FnDisk {
        self.blocking_flush = flush.into();
        self
    }
}

impl Disk for FnDisk {
    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn open_channel(&self, lane_use: LaneUse) -> Result<DiskChannel, Error> {
        (self.open_channel)(lane_use).map(DiskChannel::from)
    }

    fn clock(&self) -> Option<Arc<VirtualClock>> {
        self.clock.clone()
    }

    fn facts(&self) -> Vec<Fact> {
        self.driver.iter().map(|driver| ("driver", driver.clone())).collect()
    }

    fn blocking_flush(&self) -> Option<BlockingFlush> {
        self.blocking_flush.clone()
    }
}
