//! What a layer tells the watchers of its devices.

use crate::sync::{Mutex, lock};
use platter_block::event::{DeviceEvent, Watcher, Watchers};
use platter_block::status::Item;
use std::sync::Weak;

/// The watchers of a layer: its tasks tell them of changes of the status that operators should know.
#[derive(Default)]
pub struct Notices(Mutex<Watchers>);

impl Notices {
    /// Tells all watchers that an item of the status has changed. They are called when this thread has released its locks.
    pub fn tell(&self, item: Item) {
        lock(&self.0).tell(DeviceEvent::Status(item));
    }

    pub(super) fn watch(&self, watcher: Weak<dyn Watcher>) {
        lock(&self.0).add(watcher);
    }
}
