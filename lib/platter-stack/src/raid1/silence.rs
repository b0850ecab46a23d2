//! Members that do not answer: they fail when their disk is failed, also if no I/O comes back that would tell.

use super::Mirror;
use crate::kit::Frame;
use platter_block::event::{DeviceEvent, Watcher};
use std::sync::{Arc, OnceLock, Weak};

/// Watches one member.
pub(super) struct MemberWatch {
    frame: Weak<Frame<Mirror>>,
    device: usize,
}

impl Watcher for MemberWatch {
    fn event(&self, event: &DeviceEvent) {
        if *event == DeviceEvent::Silent
            && let Some(frame) = self.frame.upgrade()
        {
            let (layer, device) = (Arc::clone(frame.layer()), self.device);
            frame.spawn(async move {
                layer.fail(device, "it does not answer");
                layer.commit().await
            });
        }
    }
}

/// The watches of all members, which those hold weakly.
pub(super) type Watches = OnceLock<Vec<Arc<MemberWatch>>>;

/// Watches the members from now on.
pub(super) fn watch(frame: &Arc<Frame<Mirror>>) {
    let layer = frame.layer();
    let watches = layer.devices.iter().enumerate().map(|(number, device)| {
        let watch = Arc::new(MemberWatch { frame: Arc::downgrade(frame), device: number });
        let weak: Weak<MemberWatch> = Arc::downgrade(&watch);
        device.watch(weak);
        watch
    });
    // Once, when the layer is made.
    let _ = layer.watches.set(watches.collect());
}
