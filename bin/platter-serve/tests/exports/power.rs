//! Power cuts of the disks below an export: what a client was told to be durable is there afterwards, and nothing that was
//! never written.

use crate::judge::{Judge, Life};
use crate::ways::{Kind, served};
use platter_block::backend::Backend;
use platter_block::time::Span;
use platter_cache::by_name;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_sim::ideal::Ideal;
use platter_sim::medium::Medium;
use platter_sim::oracle::Outcome;
use platter_sim::power::{Supply, Survivors};
use platter_sim::{Options, SimDisk, World};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use std::sync::Arc;
use std::thread;

const CLIENTS: u64 = 2;
const STEPS: u64 = 60;
const SECTORS: u64 = 128;
/// Cuts of one life.
const CUTS: usize = 3;

/// The stacks over disks that lose power.
pub(crate) const STACKS: [&str; 4] = ["disk", "cache", "cache-through", "raid0"];

fn below(disk: &SimDisk) -> Arc<dyn Backend> {
    let device = Device::from_disk(disk.attach("sim"), DiskSettings::default(), None).unwrap();
    Arc::clone(device.backend())
}

fn stack(name: &str, disks: &[SimDisk]) -> Device {
    let made = match name {
        "disk" => Ok(below(&disks[0])),
        "raid0" => by_name("raid0").unwrap().make(&[("chunk", 4096)], disks.iter().map(below).collect()),
        _ => {
            let write = i64::from(name == "cache-through");
            by_name("cache").unwrap().make(&[("size", 256 << 10), ("write", write)], vec![below(&disks[0])])
        }
    };
    Device::new(made.unwrap())
}

/// One life with power cuts. What is wrong after one of them, or `None`.
///
/// Which I/Os of the clients meet at the disk is up to the host, so a seed need not find the same thing again.
pub(crate) fn live((_, start): Kind, name: &str, seed: u64) -> Option<String> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let (world, supply) = (World::new(seed), Supply::new());
    let disks = [0, 1].map(|_| {
        let model = Ideal { size: 1 << 20, latency: Span::from_micros(100), depth: 4, write_cache: true };
        let options =
            Options { medium: Some(Medium::new()), supply: Some(supply.clone()), ..Options::default() };
        SimDisk::with(&world, model.into(), options)
    });
    let judge = Judge::new(Outcome::CutOff, name.starts_with("cache"));
    for cut in 0..=CUTS {
        let way = start(served(stack(name, &disks)))?;
        let found = Life::new(way.connect(), &judge, 0, SECTORS).look();
        if let Some(wrong) = judge.wrong() {
            return Some(format!("after cut {cut}: {wrong}"));
        }
        found.unwrap_or_else(|error| panic!("{name}, seed {seed}, after cut {cut}: {error}"));
        supply.cut_after(random.next_u64() % 100, Survivors::Seeded(random.next_u64()));
        thread::scope(|scope| {
            for number in 0..CLIENTS {
                let mut life = Life::new(way.connect(), &judge, random.next_u64() + number, SECTORS);
                // A page cache answers some I/O without power; a flush is not among them.
                scope.spawn(move || (0..STEPS).try_for_each(|_| life.step()));
            }
        });
        // Unless the clients have come to their end before.
        supply.cut(world.clock().now(), Survivors::Seeded(random.next_u64()));
        // With the server the device is closed, which must not write to the disks of the next one.
        drop(way);
        disks.iter().for_each(SimDisk::settle);
        judge.cut();
        supply.restore();
    }
    judge.wrong()
}
