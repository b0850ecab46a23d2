//! Whether the disks of a served device are there, and as large as they were.

use platter_block::event::{DeviceEvent, Watcher};
use platter_disk::device::Device;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// What has happened to the disks of a device since it was opened, or since an operator has accepted it.
pub(crate) struct Presence {
    /// The size that clients may count on.
    size_bytes: AtomicU64,
    /// Errors of write-back that are accepted.
    write_back_errors: AtomicU64,
    /// Disks that are gone: the empty name stands for the device itself.
    gone: Mutex<BTreeSet<String>>,
    /// The same of disks that do not answer.
    silent: Mutex<BTreeSet<String>>,
}

impl Presence {
    /// Follows a device from now on.
    pub(crate) fn of(device: &Device) -> Arc<Presence> {
        let new = Arc::new(Presence {
            size_bytes: AtomicU64::new(device.size()),
            write_back_errors: AtomicU64::new(0),
            gone: Mutex::default(),
            silent: Mutex::default(),
        });
        let watcher: Arc<dyn Watcher> = Arc::<Presence>::clone(&new);
        let watcher: Weak<dyn Watcher> = Arc::downgrade(&watcher);
        device.watch(watcher);
        new
    }

    /// All that has happened until now is accepted, but for disks that are gone.
    pub(crate) fn accept(&self, device: &Device) {
        self.size_bytes.store(device.size(), Ordering::Relaxed);
        self.write_back_errors.store(write_back_errors(device), Ordering::Relaxed);
    }

    /// By how much the device has become smaller.
    #[cfg(feature = "daemon")]
    pub(crate) fn lacks_bytes(&self, device: &Device) -> u64 {
        self.size_bytes.load(Ordering::Relaxed).saturating_sub(device.size())
    }

    /// Errors of write-back that are not accepted.
    #[cfg(feature = "daemon")]
    pub(crate) fn write_back_errors(&self, device: &Device) -> u64 {
        write_back_errors(device).saturating_sub(self.write_back_errors.load(Ordering::Relaxed))
    }

    /// The disks that are gone. The empty name stands for the device itself.
    #[cfg(feature = "daemon")]
    pub(crate) fn gone(&self) -> Vec<String> {
        names(&self.gone).iter().cloned().collect()
    }

    /// The disks that do not answer.
    #[cfg(feature = "daemon")]
    pub(crate) fn silent(&self) -> Vec<String> {
        names(&self.silent).iter().cloned().collect()
    }

    fn note(&self, name: &str, event: &DeviceEvent) {
        match event {
            DeviceEvent::Removed => _ = names(&self.gone).insert(name.to_owned()),
            DeviceEvent::Returned => _ = names(&self.gone).remove(name),
            DeviceEvent::Silent => _ = names(&self.silent).insert(name.to_owned()),
            DeviceEvent::Answered => _ = names(&self.silent).remove(name),
            DeviceEvent::Below { device, event } => self.note(device, event),
            _ => {}
        }
    }
}

impl Watcher for Presence {
    fn event(&self, event: &DeviceEvent) {
        self.note("", event);
    }
}

fn names(set: &Mutex<BTreeSet<String>>) -> MutexGuard<'_, BTreeSet<String>> {
    set.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Of all caches of the device.
fn write_back_errors(device: &Device) -> u64 {
    let layers = device.layers();
    layers.iter().filter_map(|layer| layer.number("write-back errors")).fold(0, u64::saturating_add)
}
