//! Events of a device while it is open: its size changes, it goes away, or the state of a layer changes.
//!
//! # Events
//!
//! A disk may change its size, or disappear, while it is open. The device measures the disk (`Disk::current_size`) when
//! there is a reason: after an I/O that failed with `Kind::Short` or `Kind::Gone`, before a flush, at
//! `Device::refresh`, and at `Backend::measure`, which a server calls when a file below a device was modified
//! (`platter-serve/src/sizes.rs` watches `Backend::file_descriptors`). Changes are reported to the watchers
//! (`Backend::watch`, `Watcher::event`), with no lock held. `Extent` has the size; lanes compare it with their queue's
//! at each batch (`DiskLane::look_up_changes`), so that open lanes follow. Access to a range that the device no longer
//! has fails in the queue with `Kind::Gone`. A disk that shrank and grew again is used to its end only after a
//! `Device::refresh`, because the data stored there before is lost and would read as zeroes.
//!
//! A layer as large as the device below passes watchers on; a layer that keeps its size (an array, a partition) watches
//! the devices below and reports `DeviceEvent::Below`.

use crate::deferred::{Deferred, later};
use crate::status::Item;
use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;

/// Something that happened to a device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceEvent {
    /// The size changed. [`Backend::geometry`](crate::backend::Backend::geometry) already returns the new size. I/O
    /// beyond the end of a device that shrank fails with [`Kind::Gone`](crate::fault::Kind::Gone).
    Resized {
        /// Size before, in bytes.
        from: u64,
        /// Size now, in bytes.
        to: u64,
    },
    /// The device is gone: I/O fails with [`Kind::Gone`](crate::fault::Kind::Gone).
    Removed,
    /// The device was gone and is available again.
    Returned,
    /// A disk has not answered for its `timeout` and the grace after it, and is failed as a whole: new I/O fails with
    /// [`Kind::Gone`](crate::fault::Kind::Gone).
    Silent,
    /// A disk that was failed so has answered and is used again. It is found out by the next I/O.
    Answered,
    /// An item of the status of the layer changed in a way that operators should know: a snapshot became invalid, background
    /// work ended. Numbers that change all the time are no events.
    Status(Item),
    /// An event of a device below a layer that leaves the layer itself as it was, such as a member of an array that
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
    /// device. That thread holds no lock of Platter, so the watcher may use the device. It should return soon,
    /// because the I/O of that thread waits for it. Events that several threads notice at the same time may arrive in
    /// any order.
    fn event(&self, event: &DeviceEvent);
}

/// The watchers of a device, for implementations of [`Backend::watch`](crate::backend::Backend::watch). The
/// implementation keeps it behind a lock.
#[derive(Default)]
pub struct Watchers(Vec<Weak<dyn Watcher>>);

impl Watchers {
    /// An empty list.
    pub const fn new() -> Watchers {
        Watchers(Vec::new())
    }

    /// Adds a watcher.
    pub fn add(&mut self, watcher: Weak<dyn Watcher>) {
        self.0.retain(|known| known.strong_count() > 0);
        self.0.push(watcher);
    }

    /// Tells all watchers about an event, once this thread has released its locks.
    pub fn tell(&mut self, event: DeviceEvent) {
        self.0.retain(|known| known.strong_count() > 0);
        let all = self.0.clone();
        if !all.is_empty() {
            let tell = move || all.iter().filter_map(Weak::upgrade).for_each(|watcher| watcher.event(&event));
            later(Deferred::Call(Box::new(tell)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Default)]
    struct Notes(Mutex<Vec<DeviceEvent>>);

    impl Watcher for Notes {
        fn event(&self, event: &DeviceEvent) {
            self.0.lock().unwrap().push(event.clone());
        }
    }

    #[test]
    fn watchers_are_told_as_long_as_they_live() {
        let mut watchers = Watchers::new();
        let (first, second) = (Arc::new(Notes::default()), Arc::new(Notes::default()));
        watchers.add(Arc::downgrade(&first) as Weak<dyn Watcher>);
        watchers.add(Arc::downgrade(&second) as Weak<dyn Watcher>);
        watchers.tell(DeviceEvent::Resized { from: 1, to: 2 });
        drop(second);
        watchers.tell(DeviceEvent::Removed);
        let expected = [DeviceEvent::Resized { from: 1, to: 2 }, DeviceEvent::Removed];
        assert_eq!(*first.0.lock().unwrap(), expected);
        assert_eq!(watchers.0.len(), 1);
    }
}
