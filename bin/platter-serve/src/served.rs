//! The devices of a server, under their names.

use crate::changes::Changes;
use crate::device_trace::{DeviceTrace, TraceState};
use crate::error::ServeError;
#[cfg(feature = "iscsi")]
use crate::iscsi::serial;
#[cfg(feature = "iscsi")]
use crate::iscsi::unit::SharedUnit;
use crate::presence::Presence;
use crate::qos::Arbiter;
use crate::restart::{FirstFlush, Losses, Past};
use crate::sizes::SizeWatch;
#[cfg(feature = "iscsi")]
use platter_block::driver::Geometry;
use platter_disk::device::Device;
use platter_disk::trace_output::Format;
use std::path::Path;
#[cfg(feature = "iscsi")]
use std::sync::OnceLock;
use std::sync::{Arc, Mutex, PoisonError};

/// Longest name of a device, in bytes: that of an NBD export name.
pub const MAX_NAME_BYTES: usize = 4096;

/// A device under the name by which clients ask for it.
pub struct Served {
    name: String,
    description: String,
    /// Dropped before the device, which it uses.
    _sizes: Option<SizeWatch>,
    /// Without timeouts: clients have no deadlines, and are answered when the disk is done.
    device: Device,
    read_only: bool,
    qos: Arc<Arbiter>,
    past: Past,
    losses: Arc<Losses>,
    presence: Arc<Presence>,
    changes: Changes,
    trace: Mutex<Option<DeviceTrace>>,
    #[cfg(feature = "iscsi")]
    unit: OnceLock<Arc<SharedUnit>>,
}

impl Served {
    /// A device under this name. It is read-only for clients if the device is.
    ///
    /// # Errors
    /// The name is longer than [`MAX_NAME_BYTES`] or has control characters.
    pub fn new(name: &str, device: Device) -> Result<Served, ServeError> {
        if name.len() > MAX_NAME_BYTES {
            let message = format!("the name of a device has {} bytes; at most {MAX_NAME_BYTES}", name.len());
            return Err(ServeError::usage(message));
        }
        if name.chars().any(char::is_control) {
            return Err(ServeError::usage(format!("the name {name:?} has control characters")));
        }
        let read_only = device.geometry().features.read_only;
        let (description, qos) = (device.name().to_string(), Arbiter::new());
        let (past, trace) = (Past::Unknown, Mutex::default());
        let presence = Presence::of(&device);
        let name = name.to_owned();
        Ok(Served {
            name,
            description,
            _sizes: SizeWatch::begin(&device),
            device: device.without_timeouts(),
            read_only,
            qos,
            past,
            losses: Arc::default(),
            presence,
            changes: Changes::default(),
            trace,
            #[cfg(feature = "iscsi")]
            unit: OnceLock::new(),
        })
    }

    /// Clients may only read.
    #[must_use]
    pub fn read_only(mut self) -> Served {
        self.read_only = true;
        self
    }

    /// Sets the text that clients see in a list of devices; by default the name of the device itself.
    #[must_use]
    pub fn description(mut self, text: &str) -> Served {
        self.description = text.to_owned();
        self
    }

    /// Sets how the server before this one has left the device; by default this is not known.
    #[must_use]
    pub fn after(mut self, past: Past) -> Served {
        self.past = past;
        self
    }

    /// How the server before this one has left the device.
    pub fn past(&self) -> Past {
        self.past
    }

    /// Its flushes that have failed.
    pub(crate) fn losses(&self) -> &Arc<Losses> {
        &self.losses
    }

    /// Accepts that answered writes may be lost by what has happened until now: no client is told of it any more, and its health
    /// starts anew.
    pub fn acknowledge(&self) {
        self.device.acknowledge_flush_failure();
        self.losses.accept();
        self.presence.accept(&self.device);
    }

    /// What has happened to the disks of the device, for its health.
    #[cfg(feature = "daemon")]
    pub(crate) fn presence(&self) -> &Presence {
        &self.presence
    }

    /// The debt to a client that may have used the device before: its first flush fails if writes were lost.
    pub fn newcomer(&self) -> FirstFlush {
        FirstFlush::new(&self.losses, self.past == Past::Lost)
    }

    /// The debt to a client that has nothing to hear of an earlier server.
    pub fn acquainted(&self) -> FirstFlush {
        FirstFlush::new(&self.losses, false)
    }

    /// The debt to a client that has used the device at an earlier server of whose end it knows nothing, such as a virtual
    /// machine or a block device of the kernel. If the end is not known here either, its first flush fails if the device
    /// holds writes in memory.
    pub fn survivor(&self) -> FirstFlush {
        let holds = || self.device.backend().holds_unflushed();
        let past = self.past == Past::Lost || self.past == Past::Unknown && holds();
        FirstFlush::new(&self.losses, past)
    }

    /// The geometry of the device as its clients have it.
    #[cfg(feature = "iscsi")]
    pub(crate) fn geometry(&self) -> Geometry {
        let mut geometry = self.device.geometry();
        geometry.features.read_only |= self.read_only;
        geometry
    }

    /// The logical unit that its iSCSI initiators share, which is made at first need.
    #[cfg(feature = "iscsi")]
    pub(crate) fn unit(&self) -> Arc<SharedUnit> {
        Arc::clone(
            self.unit
                .get_or_init(|| SharedUnit::new(&serial::number(&self.name, &self.device), self.geometry())),
        )
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One line for lists.
    pub fn about(&self) -> &str {
        &self.description
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// What limits its clients. An export joins it for each connection.
    pub fn qos(&self) -> &Arc<Arbiter> {
        &self.qos
    }

    /// What is being changed, where clients may change parts of blocks.
    pub(crate) fn changes(&self) -> &Changes {
        &self.changes
    }

    /// The bytes of data that zeroes count as for the limits: all if they are written, and none if they need no space (`unmap`)
    /// and the device has an operation for them.
    pub(crate) fn data_of_zeroes(&self, len: u64, unmap: bool) -> u64 {
        if unmap && self.device.geometry().limits.write_zeroes { 0 } else { len }
    }

    /// Traces the queues of the device's disks to a new file, of at most `most` bytes, while I/O runs. Each event takes
    /// about a microsecond, under a lock of all queues of the device.
    ///
    /// # Errors
    /// The device is traced already; the path is not absolute, exists, or cannot be written.
    pub fn start_trace(&self, file: &Path, format: Format, most: u64) -> Result<TraceState, ServeError> {
        let mut trace = self.trace.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = &*trace {
            return Err(ServeError::system(format!(
                "the device {:?} is traced already, to {}; end that first",
                self.name,
                running.state().file.display()
            )));
        }
        let begun = DeviceTrace::begin(&self.device, file, format, most)?;
        let state = begun.state();
        *trace = Some(begun);
        Ok(state)
    }

    /// Ends the trace; nothing is written to its file any more. `None`: the device is not traced.
    pub fn stop_trace(&self) -> Option<TraceState> {
        let trace = self.trace.lock().unwrap_or_else(PoisonError::into_inner).take();
        trace.map(DeviceTrace::end)
    }

    /// The state of the trace, if the device is traced.
    pub fn trace_state(&self) -> Option<TraceState> {
        let trace = self.trace.lock().unwrap_or_else(PoisonError::into_inner);
        trace.as_ref().map(DeviceTrace::state)
    }

    /// Whether clients may only read.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Completes the file.
        self.stop_trace();
    }
}

/// The devices of a server. Exports look names up when a client asks; clients that have a device keep it. An export adds its
/// clients with `Clients::connect_to`, so a device that was removed gets no more of them.
#[derive(Default)]
pub struct Devices {
    list: Mutex<Vec<Arc<Served>>>,
}

impl Devices {
    /// Adds a device.
    ///
    /// # Errors
    /// There is one with this name.
    pub fn add(&self, served: Served) -> Result<(), ServeError> {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        if list.iter().any(|known| known.name == served.name) {
            return Err(ServeError::usage(format!(
                "there is already a device of the name {:?}",
                served.name
            )));
        }
        list.push(Arc::new(served));
        Ok(())
    }

    /// Removes the device of this name. Clients that use it keep it.
    pub fn remove(&self, name: &str) -> Option<Arc<Served>> {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        let at = list.iter().position(|known| known.name == name)?;
        Some(list.remove(at))
    }

    /// Removes all devices.
    pub(crate) fn clear(&self) {
        let list = std::mem::take(&mut *self.list.lock().unwrap_or_else(PoisonError::into_inner));
        // Closing a device takes as long as its disks do.
        drop(list);
    }

    /// Adds a device again that was removed and could not be closed.
    #[cfg(feature = "daemon")]
    pub(crate) fn put_back(&self, served: Arc<Served>) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        if list.iter().all(|known| known.name != served.name) {
            list.push(served);
        }
    }

    /// The device of this name. The empty name stands for the first device.
    pub fn find(&self, name: &str) -> Option<Arc<Served>> {
        let list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        let named = list.iter().find(|served| served.name == name);
        named.or_else(|| list.first().filter(|_| name.is_empty())).map(Arc::clone)
    }

    /// Whether this very device is served: not another one of its name.
    pub(crate) fn has(&self, served: &Arc<Served>) -> bool {
        let list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.iter().any(|known| Arc::ptr_eq(known, served))
    }

    /// All devices, in the order in which they were added.
    pub fn list(&self) -> Vec<Arc<Served>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_block::queue::Settings;
    use platter_block::time::Span;
    use platter_disk::disk_backend::DiskSettings;
    use platter_sim::fault::{Blow, FaultPlan, Lands, Strike};
    use platter_sim::ideal::Ideal;
    use platter_sim::medium::Medium;
    use platter_sim::{SimDisk, World};

    #[test]
    fn names_are_unique_and_the_empty_one_is_the_first() {
        let devices = Devices::default();
        assert!(devices.find("").is_none());
        devices.add(Served::new("a", Device::ram(1 << 20).unwrap()).unwrap()).unwrap();
        devices.add(Served::new("b", Device::ram(2 << 20).unwrap()).unwrap().read_only()).unwrap();
        assert!(devices.add(Served::new("a", Device::ram(1 << 20).unwrap()).unwrap()).is_err());
        assert_eq!(devices.find("").unwrap().name(), "a");
        assert!(devices.find("b").unwrap().is_read_only());
        assert!(devices.find("c").is_none());
        assert_eq!(devices.list().len(), 2);
        assert_eq!(devices.remove("a").unwrap().name(), "a");
        assert!(devices.remove("a").is_none());
        assert_eq!(devices.find("").unwrap().name(), "b");
    }

    /// Requests that fill no whole blocks are synchronous calls. The disk fails after its timeout, and the client is answered when it has
    /// returned the request, not before.
    #[test]
    fn clients_have_no_deadline() {
        let world = World::by_hand(1);
        let model = Ideal { size: 1 << 20, latency: Span::from_micros(100), depth: 8, write_cache: true };
        let disk = SimDisk::new(&world, model.into(), Some(Medium::new()));
        disk.set_faults(Some(FaultPlan { abort_chance: 0, ..FaultPlan::default() }));
        let queue = Settings { timeout: Some(Span::from_secs(1)), ..Settings::default() };
        let device = Device::from_disk(disk.attach("sim"), DiskSettings::default().with_queue(queue), None);
        let served = Served::new("a", device.unwrap()).unwrap();
        served.device().write_at(&[7; 4096], 0).unwrap();
        disk.strike(Strike { op: None, blow: Blow::Stuck(Span::from_secs(60), Lands::Late) });
        let (began, mut data) = (world.clock().now(), [0; 3]);
        served.device().read_at(&mut data, 510).unwrap();
        assert_eq!(data, [7; 3]);
        assert!(world.clock().now().since(began) >= Span::from_secs(60));
        assert_eq!(served.device().counters().timeouts, 0, "no call has ended before its I/O");
    }

    #[test]
    fn a_name_with_control_characters_is_refused() {
        assert!(Served::new("a\nb", Device::ram(1 << 20).unwrap()).is_err_and(|error| error.is_usage()));
    }
}
