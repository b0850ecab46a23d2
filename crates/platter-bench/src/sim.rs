//! Simulated disks as devices.

use platter_block::backend::Fact;
use platter_block::driver::{Driver, Geometry};
use platter_block::elevator::Elevator;
use platter_block::fault::Error;
use platter_disk::device::Device;
use platter_disk::leaf::{Leaf, LeafParts, LeafSettings, Measure};
use platter_sim::SimDisk;
use std::sync::Arc;

/// A simulated disk behind request queues like those of a real one, in the virtual time of its world.
///
/// The queue's depth is at most the disk's, so that requests that have to wait do so in the elevator.
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
    settings: LeafSettings,
    elevator: Option<Box<dyn Elevator>>,
) -> Result<Device, Error> {
    open(Parts { disk, name, geometry, settings, elevator, facts: Vec::new() })
}

/// The parts of a simulated device.
pub struct Parts<'a> {
    /// The disk.
    pub disk: &'a SimDisk,
    /// Name for messages.
    pub name: &'a str,
    /// The disk's geometry, or that of the adapter that it is on.
    pub geometry: Geometry,
    /// Settings of its queues.
    pub settings: LeafSettings,
    /// The elevator, if any.
    pub elevator: Option<Box<dyn Elevator>>,
    /// Facts to show in results.
    pub facts: Vec<Fact>,
}

/// [`device`], with all options.
///
/// # Errors
/// See [`device`].
pub fn open(parts: Parts<'_>) -> Result<Device, Error> {
    Ok(Device::new(Arc::new(leaf(parts)?)))
}

/// The queues of a simulated disk, as a backend for layers.
///
/// # Errors
/// See [`device`].
pub(crate) fn leaf(parts: Parts<'_>) -> Result<Leaf, Error> {
    let Parts { disk, name, geometry, mut settings, elevator, facts } = parts;
    settings.queue.depth = settings.queue.depth.min(disk.depth());
    let channels = disk.clone();
    let parts = LeafParts {
        name: Arc::from(name),
        geometry,
        settings,
        elevator,
        make_driver: Box::new(move |_| Ok(Box::new(channels.channel()) as Box<dyn Driver>)),
        facts: [("driver", "simulated".to_string())].into_iter().chain(facts).collect(),
        clock: Some(Arc::clone(disk.world().clock())),
    };
    let leaf = Leaf::new(parts)?;
    let measured = disk.clone();
    leaf.measure_with(Box::new(Measured(measured)));
    Ok(leaf)
}

/// How large a simulated disk is.
struct Measured(SimDisk);

impl Measure for Measured {
    fn measure(&self) -> std::io::Result<Option<u64>> {
        Ok(self.0.current_size())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_block::bio::Bio;
    use platter_sim::World;
    use platter_sim::catalogue;

    /// A disk that writes its buffer back by itself is polled when that is due, and not repeatedly.
    #[test]
    fn what_an_idle_disk_does_next_lies_ahead() {
        let world = World::new(1);
        let model = catalogue::by_name("ide2004").unwrap().make(Default::default()).unwrap();
        let device =
            device(&SimDisk::new(&world, model, None), "ide2004", LeafSettings::default(), None).unwrap();
        let (mut channel, mut done) = (device.channel(8).unwrap(), Vec::new());
        for place in 0..8 {
            channel.submit(Bio::write(place << 30, vec![1u8; 4096]).unwrap()).unwrap();
        }
        let mut looks = 0;
        loop {
            channel.poll_at(world.clock().now(), &mut done);
            let Some(next) = channel.next_wakeup() else { break };
            assert!(channel.outstanding() > 0 || next > world.clock().now());
            world.clock().advance_to(next);
            looks += 1;
        }
        assert!(done.len() == 8 && looks < 100, "{} {looks}", done.len());
    }
}
