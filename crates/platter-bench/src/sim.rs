//! Simulated disks as devices.

use platter_block::driver::{Driver, Geometry};
use platter_block::elevator::Elevator;
use platter_block::fault::Error;
use platter_disk::device::Device;
use platter_disk::leaf::{Leaf, LeafParts, LeafSettings};
use platter_sim::SimDisk;
use std::sync::Arc;

/// A simulated disk behind request queues like those of a real one, in the virtual time of its world.
///
/// The queue's depth is at most what the disk takes, so that what waits, waits with the elevator.
///
/// # Errors
/// None today; the signature is that of real disks.
pub fn device(
    disk: &SimDisk,
    name: &str,
    settings: LeafSettings,
    elevator: Option<Box<dyn Elevator>>,
) -> Result<Device, Error> {
    device_with(disk, name, disk.geometry(), settings, elevator)
}

/// [`device`] with another geometry than the disk's own: limits of the adapter that it is on.
///
/// # Errors
/// As for [`device`].
pub fn device_with(
    disk: &SimDisk,
    name: &str,
    geometry: Geometry,
    mut settings: LeafSettings,
    elevator: Option<Box<dyn Elevator>>,
) -> Result<Device, Error> {
    settings.queue.depth = settings.queue.depth.min(disk.depth());
    let channels = disk.clone();
    let parts = LeafParts {
        name: Arc::from(name),
        geometry,
        settings,
        elevator,
        make_driver: Box::new(move |_| Ok(Box::new(channels.channel()) as Box<dyn Driver>)),
        facts: vec![("driver", "simulated".to_string())],
        clock: Some(Arc::clone(disk.world().clock())),
    };
    Ok(Device::new(Arc::new(Leaf::new(parts)?)))
}
