//! One disk through several paths, which fail and come back.

mod access;
mod cancelling;
mod closing;
mod failover;
mod flushes;
mod late_failures;
mod late_writes;
#[path = "../../../platter-disk/tests/drivers/loops.rs"]
mod loops;
mod proof;
mod shrink;
mod vanished;

use platter_block::backend::Backend;
use platter_block::status::Value;
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::disk_backend::{DiskBackend, DiskSettings};
use platter_disk::sync_io::IoOptions;
use platter_scsi::disk::{AccessState, FaultPlan, Options, ScsiDisk, ScsiTarget, TargetPort};
use platter_sim::fault::{Blow, FaultPlan as SimFaults, Lands, Strike};
use platter_sim::ideal::Ideal;
use platter_sim::medium::Medium;
use platter_sim::{SimDisk, World};
use std::sync::Arc;

const SIZE: u64 = 1 << 20;

/// Two adapters at one simulated disk, and the device over both.
struct Rig {
    world: Arc<World>,
    sim: SimDisk,
    ports: Vec<ScsiDisk>,
    paths: Vec<Arc<dyn Backend>>,
    device: Device,
}

fn rig(named: &[(&str, i64)]) -> Rig {
    rig_of(named, [Options::default(), Options::default()])
}

/// The same, at ports of the target with this access.
fn rig_at(named: &[(&str, i64)], access: [AccessState; 2]) -> Rig {
    let number = |at: usize| TargetPort { identifier: at as u16 + 1, group: at as u16 + 1 };
    let at = |port: usize| Options::default().with_target_port(Some(number(port))).with_access(access[port]);
    rig_of(named, [at(0), at(1)])
}

/// A simulated disk with a volatile cache.
fn disk(world: &Arc<World>) -> SimDisk {
    let model = Ideal { size: SIZE, latency: Span::from_micros(100), depth: 32, write_cache: true };
    SimDisk::new(world, model.into(), Some(Medium::new()))
}

fn rig_of(named: &[(&str, i64)], options: [Options; 2]) -> Rig {
    rig_with(named, options, &DiskSettings::default())
}

/// The same, with these settings of the paths.
fn rig_with(named: &[(&str, i64)], options: [Options; 2], settings: &DiskSettings) -> Rig {
    let world = World::new(5);
    let sim = disk(&world);
    let below: Arc<dyn Backend> =
        Arc::new(DiskBackend::new(sim.attach("sim"), DiskSettings::default(), None).unwrap());
    let target = ScsiTarget::new(below);
    let ports: Vec<ScsiDisk> = options.into_iter().map(|options| target.port(options).unwrap()).collect();
    let path = |port: &ScsiDisk| -> Arc<dyn Backend> {
        Arc::new(DiskBackend::new(port.clone(), settings.clone(), None).unwrap())
    };
    let paths: Vec<Arc<dyn Backend>> = ports.iter().map(path).collect();
    let made = platter_stack::by_name("multipath").unwrap().make(named, paths.clone()).unwrap();
    Rig { world, sim, ports, paths, device: Device::new(made) }
}

/// Options for a call that fails after `seconds`.
fn limit(seconds: u64) -> IoOptions {
    IoOptions::default().with_timeout(Some(Span::from_secs(seconds)))
}

/// Makes the next command of the disk hang for `seconds`, and take effect at the end of that time.
fn hang(sim: &SimDisk, seconds: u64) {
    sim.set_faults(Some(SimFaults { abort_chance: 0, ..SimFaults::default() }));
    sim.strike(Strike { op: None, blow: Blow::Stuck(Span::from_secs(seconds), Lands::Late) });
}

fn away() -> FaultPlan {
    FaultPlan { away: Some((platter_block::time::Time(0), None)), ..FaultPlan::default() }
}

fn item(device: &Device, name: &str) -> Value {
    let layers = device.layers();
    let found = layers.iter().flat_map(|layer| &layer.items).find(|item| item.name == name);
    found.unwrap_or_else(|| panic!("no {name}: {layers:?}")).value.clone()
}

fn text(device: &Device, name: &str) -> String {
    item(device, name).to_string()
}
