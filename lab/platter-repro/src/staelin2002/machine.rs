//! The machine of the paper: three disks on one Ultra160 string, on a PCI bus of 32 bits and 33 MHz.

use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_sim::catalogue::{self, Choices};
use platter_sim::{Options, SimDisk, World, bus};
use std::error::Error;
use std::sync::Arc;

/// Disks of the machine.
pub(super) const DISKS: usize = 3;

/// The disk, and the buses from it to the host.
const DISK: &str = "man3367mp";
const BUSES: [(&str, &str); 2] = [("ultra160:0", "ultra160"), ("pci32_33:0", "pci32_33")];

/// The disks in a world. They keep no contents, which the experiment does not read.
pub(super) fn disks(world: &Arc<World>) -> Result<Vec<Device>, Box<dyn Error + Send + Sync>> {
    let row = catalogue::by_name(DISK).ok_or_else(|| format!("there is no simulated disk `{DISK}`"))?;
    let mut path = Vec::new();
    for (name, kind) in BUSES {
        let bus = bus::by_name(kind).ok_or_else(|| format!("there is no bus `{kind}`"))?;
        path.push((name, bus.params));
    }
    let mut disks = Vec::with_capacity(DISKS);
    for number in 0..DISKS {
        let choices = Choices { seed: world.seed(), on_bus: true, ..Choices::default() };
        let model = row.make(choices).map_err(|error| error.to_string())?;
        let model = world.buses().attach(&path, model)?;
        let options = Options { medium: None, faults: None, supply: None };
        let disk = SimDisk::with(world, Box::new(model), options);
        disks.push(Device::from_disk(
            disk.attach(&format!("{DISK} {number}")),
            DiskSettings::default(),
            None,
        )?);
    }
    Ok(disks)
}
