//! Events of the devices below a layer that keeps its size.

use crate::sync::{Mutex, lock};
use platter_block::backend::Backend;
use platter_block::event::{DeviceEvent, Watcher, Watchers};
use std::sync::{Arc, Weak};

/// Watches the devices below a layer, and tells the layer's watchers of them as [`DeviceEvent::Below`].
pub struct Reports {
    watchers: Arc<Mutex<Watchers>>,
    /// One for each device below, which holds it weakly.
    _relays: Vec<Arc<Relay>>,
}

struct Relay {
    device: Arc<str>,
    watchers: Arc<Mutex<Watchers>>,
}

impl Watcher for Relay {
    fn event(&self, event: &DeviceEvent) {
        let (device, event) = (Arc::clone(&self.device), Box::new(event.clone()));
        // They are told when the lock is released.
        lock(&self.watchers).tell(DeviceEvent::Below { device, event });
    }
}

impl Reports {
    /// On the devices below a layer.
    pub fn on(below: &[Arc<dyn Backend>]) -> Reports {
        let watchers = Arc::new(Mutex::new(Watchers::new()));
        let relay = |below: &Arc<dyn Backend>| {
            let relay = Arc::new(Relay { device: below.name(), watchers: Arc::clone(&watchers) });
            below.watch(Arc::downgrade(&relay) as Weak<dyn Watcher>);
            relay
        };
        let relays = below.iter().map(relay).collect();
        Reports { watchers, _relays: relays }
    }

    /// Tells `watcher` from now on.
    pub fn watch(&self, watcher: Weak<dyn Watcher>) {
        lock(&self.watchers).add(watcher);
    }
}
