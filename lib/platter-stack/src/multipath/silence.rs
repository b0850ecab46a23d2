//! Paths whose disk does not answer: they are left when it is failed, also if no I/O comes that would fail.

use super::Multipath;
use crate::kit::Frame;
use platter_block::event::{DeviceEvent, Watcher};
use platter_block::fault::{Fault, Kind, Stage};
use std::sync::{Arc, OnceLock, Weak};

/// Watches one path.
pub(super) struct PathWatch {
    frame: Weak<Frame<Multipath>>,
    path: usize,
}

impl Watcher for PathWatch {
    fn event(&self, event: &DeviceEvent) {
        if *event == DeviceEvent::Silent
            && let Some(frame) = self.frame.upgrade()
        {
            let (layer, path) = (Arc::clone(frame.layer()), self.path);
            // For example, a flush that the path has is sent through another one.
            frame.spawn(async move {
                layer.leave(path, Fault::new(Kind::Gone, Stage::Layer));
                Ok(())
            });
        }
    }
}

/// The watches of all paths, which those hold weakly.
pub(super) type Watches = OnceLock<Vec<Arc<PathWatch>>>;

/// Watches the paths from now on.
pub(super) fn watch(frame: &Arc<Frame<Multipath>>) {
    let layer = frame.layer();
    let watches = layer.devices.iter().enumerate().map(|(path, device)| {
        let watch = Arc::new(PathWatch { frame: Arc::downgrade(frame), path });
        let weak: Weak<PathWatch> = Arc::downgrade(&watch);
        device.watch(weak);
        watch
    });
    // Once, when the layer is made.
    let _ = layer.watches.set(watches.collect());
}
