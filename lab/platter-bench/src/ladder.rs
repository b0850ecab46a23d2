//! The ladder: the improvements of "Improving Linux Block I/O for Enterprise Workloads" (Wong and others,
//! OLS 2002), each of which can be switched off here, in the engine that every other call uses.
//!
//! A [`Ladder`] opens a device with the settings of a rung (lock scope, elevator, plugs) and opens [`Handle`]s,
//! which read as the raw devices of that kernel did: a call is cut into units, each unit is a bio, and bios are
//! queued one by one under the rung's lock, merged again by the queue and started by the caller's wait. The
//! uppermost rung is the unchanged engine: its handle only calls [`Device::read_at`]. The fast path therefore
//! contains no switches, and no rung is delayed on purpose.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use platter_bench::ladder;
//! use platter_disk::{device::Device, disk_backend::DiskSettings};
//! let rung = ladder::find("SBIR").ok_or("no such rung")?;
//! let make = |settings, elevator| Device::ram_with(1 << 20, settings, elevator);
//! let disk = ladder::Ladder::open(rung.switches, DiskSettings::default(), make)?;
//! let mut memory = vec![0; (64 << 10) + 512];
//! let aligned = memory.as_ptr().align_offset(512);
//! disk.handle()?.read_at(&mut memory[aligned..aligned + (64 << 10)], 0)?;
//! assert!(disk.counters().bios >= 16);
//! # Ok(())
//! # }
//! ```

pub(crate) mod crew;
mod descriptor;
mod handle;
mod low;
pub(crate) mod rounds;
pub(crate) mod runs;
mod table;
mod units;

pub use descriptor::{KIOBUF_BYTES, LIGHT_KIOBUF_BYTES, bio_bytes};
pub use handle::Handle;
pub use runs::{Medium, Runs};
pub use table::{Descriptor, Lock, Rung, Switches, TABLE, Unit, Vector, find};

use platter_block::counters::Snapshot;
use platter_block::elevator::Elevator;
use platter_block::fault::Error;
use platter_block::queue::PlugSettings;
use platter_disk::device::Device;
use platter_disk::disk_backend::{DiskSettings, LockScope};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// 2.4 had neither a count nor a timer: a plugged device started when a process waited. The delay is longer
/// than any wait.
const PLUG_OF_2_4: PlugSettings = PlugSettings::BY_WAITERS;

/// Makes names of locks unique within the process.
static LOCKS: AtomicU64 = AtomicU64::new(0);

/// A device opened with the settings of a rung.
pub struct Ladder {
    device: Device,
    switches: Switches,
    /// Bytes copied through the low pool by handles of this device.
    bounced: Arc<AtomicU64>,
    /// Number of times that a handle blocked for its bios.
    waits: Arc<AtomicU64>,
}

impl Ladder {
    /// Opens a device on a rung: `make` is called once, with `base` as modified by the rung and with the rung's
    /// elevator, and makes the device.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn open<E>(
        switches: Switches,
        base: DiskSettings,
        make: impl FnOnce(DiskSettings, Option<Box<dyn Elevator>>) -> Result<Device, E>,
    ) -> Result<Ladder, E> {
        let mut settings = base;
        let mut elevator = None;
        if switches.unit != Unit::Call {
            settings.caller_plug = false;
            settings.queue.merges = true;
            settings.queue.plug = Some(PLUG_OF_2_4);
            elevator = platter_block::elevator::by_name("noop").map(|row| (row.make)());
        }
        settings.prebuild = switches.prebuild;
        settings.lock = match switches.lock {
            Lock::All => LockScope::All,
            // The same lock with the same counters, but shared with no other queue.
            Lock::PerQueue => {
                LockScope::Adapter(format!("of queue {}", LOCKS.fetch_add(1, Ordering::Relaxed)))
            }
            Lock::None => LockScope::Queue,
        };
        Ok(Ladder {
            device: make(settings, elevator)?,
            switches,
            bounced: Arc::default(),
            waits: Arc::default(),
        })
    }

    /// Opens a handle, the equivalent of an open file in 2.4: a path to the device, with a descriptor of its
    /// own, for one caller at a time.
    ///
    /// # Errors
    /// The driver cannot open another channel.
    pub fn handle(&self) -> Result<Handle, Error> {
        Handle::new(self)
    }

    /// The device below.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The rung's switches.
    pub fn switches(&self) -> &Switches {
        &self.switches
    }

    /// The device's counters; the bytes copied by the rung's handles are added to the bytes bounced.
    pub fn counters(&self) -> Snapshot {
        let mut counters = self.device.counters();
        counters.bytes_bounced += self.bounced.load(Ordering::Relaxed);
        counters
    }

    /// How often handles of this device blocked until all their submitted bios had completed.
    pub fn waits(&self) -> u64 {
        self.waits.load(Ordering::Relaxed)
    }
}
