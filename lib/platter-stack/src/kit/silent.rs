//! Devices below that do not answer: a layer hears when a disk is failed, also if no I/O comes back that would tell.

use super::frame::Frame;
use super::layer::Layer;
use platter_block::backend::Backend;
use platter_block::event::{DeviceEvent, Watcher};
use platter_block::fault::Status;
use std::future::Future;
use std::sync::{Arc, OnceLock, Weak};

/// A layer that goes on without a device below that does not answer.
pub trait LeavesSilent: Layer {
    /// The device with this number does not answer, and is failed.
    fn is_silent(self: Arc<Self>, device: usize) -> impl Future<Output = Status> + Send;
}

/// Watches one device.
struct Watch<L: Layer> {
    frame: Weak<Frame<L>>,
    device: usize,
}

impl<L: LeavesSilent> Watcher for Watch<L> {
    fn event(&self, event: &DeviceEvent) {
        if *event == DeviceEvent::Silent
            && let Some(frame) = self.frame.upgrade()
        {
            frame.spawn(Arc::clone(frame.layer()).is_silent(self.device));
        }
    }
}

/// The watches of all devices, which those hold weakly: the layer keeps them.
pub struct Watches<L: Layer>(OnceLock<Vec<Arc<Watch<L>>>>);

impl<L: Layer> Default for Watches<L> {
    fn default() -> Watches<L> {
        Watches(OnceLock::new())
    }
}

impl<L: LeavesSilent> Watches<L> {
    /// Watches the devices of a layer from now on, in their order.
    pub fn begin(&self, frame: &Arc<Frame<L>>, devices: &[Arc<dyn Backend>]) {
        let watches = devices.iter().enumerate().map(|(number, device)| {
            let watch = Arc::new(Watch { frame: Arc::downgrade(frame), device: number });
            let weak: Weak<Watch<L>> = Arc::downgrade(&watch);
            device.watch(weak);
            watch
        });
        // Once, when the layer is made.
        let _ = self.0.set(watches.collect());
    }
}
