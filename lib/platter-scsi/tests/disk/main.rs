//! A disk whose reads and writes are commands, over memory and over simulated disks.

mod faults;
mod order;
mod transfers;

use platter_block::backend::Backend;
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::disk_backend::{DiskBackend, DiskSettings};
use platter_scsi::disk::{FaultPlan, Options, ScsiDisk, ScsiTarget};
use platter_sim::ideal::Ideal;
use platter_sim::medium::Medium;
use platter_sim::{SimDisk, World};
use std::sync::Arc;

const SIZE: u64 = 1 << 20;

fn ram() -> Arc<dyn Backend> {
    Arc::clone(Device::ram(SIZE).unwrap().backend())
}

fn simulated(world: &Arc<World>, micros: u64) -> (SimDisk, Arc<dyn Backend>) {
    let model = Ideal { size: SIZE, latency: Span::from_micros(micros), depth: 32, write_cache: true };
    let disk = SimDisk::new(world, model.into(), Some(Medium::new()));
    let backend = DiskBackend::new(disk.attach("sim"), DiskSettings::default(), None).unwrap();
    (disk, Arc::new(backend))
}

fn port(target: &ScsiTarget, faults: FaultPlan) -> (ScsiDisk, Device) {
    let disk = target.port(Options::default().with_faults(faults)).unwrap();
    let device = Device::from_disk(disk.clone(), DiskSettings::default(), None).unwrap();
    (disk, device)
}

fn fact(device: &Device, name: &str) -> String {
    let facts = device.facts();
    facts.into_iter().find(|(known, _)| *known == name).map(|(_, value)| value).unwrap()
}

fn number(device: &Device, name: &str) -> u64 {
    fact(device, name).parse().unwrap()
}
