//! What can happen to a device while it is open: it changes its size, or goes away.

use alloc::boxed::Box;
use alloc::sync::Arc;

/// Something that happened to a device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceEvent {
    /// The size changed. [`Backend::geometry`](crate::backend::Backend::geometry) already has the new one. I/O beyond the
    /// end of a device that shrank fails with [`Kind::Gone`](crate::fault::Kind::Gone).
    Resized {
        /// Size before, in bytes.
        from: u64,
        /// Size now, in bytes.
        to: u64,
    },
    /// The device is gone: all further I/O fails with [`Kind::Gone`](crate::fault::Kind::Gone).
    Removed,
    /// Something happened to a device below a layer, and the layer itself stays as it was: a member of an array
    /// changed its size.
    Below {
        /// Name of the device below.
        device: Arc<str>,
        /// What happened to it.
        event: Box<DeviceEvent>,
    },
}

/// Receives the events of a device, see [`Backend::watch`](crate::backend::Backend::watch).
pub trait Watcher: Send + Sync {
    /// Called once per event, by the thread that noticed it, which may be in the middle of an I/O of any lane of the
    /// device. It holds no lock of Platter's, so the watcher may use the device. It should return soon: the I/O of
    /// that thread waits for it.
    fn event(&self, event: &DeviceEvent);
}
