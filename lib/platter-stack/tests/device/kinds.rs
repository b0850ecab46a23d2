//! Stacks of layers, each of 1 MiB.

use crate::mirrors;
use platter_block::backend::Backend;
use platter_block::time::Span;
use platter_cache::by_name;
use platter_disk::device::Device;
use platter_disk::disk_backend::{DiskBackend, DiskSettings};
use platter_disk::drivers::{Choice, FileDriver};
use platter_disk::open::DiskOptions;
use platter_scsi::disk::{Options, ScsiTarget};
use platter_sim::ideal::Ideal;
use platter_sim::medium::Medium;
use platter_sim::{SimDisk, World};
use platter_stack::filter::{Filter, Filtered};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use std::sync::Arc;
use tempfile::NamedTempFile;

pub(crate) const SIZE: u64 = 1 << 20;

/// The contract expects this many bytes, aligned, to be one request.
const UNIT: u64 = 65536;

type Below = Arc<dyn Backend>;

/// `none` and every elevator of the table.
pub(crate) fn elevators() -> Vec<&'static str> {
    platter_disk::elevators::register_table(platter_elevators::TABLE);
    ["none"].into_iter().chain(platter_elevators::TABLE.iter().map(|row| row.name)).collect()
}

fn ram(size: u64, elevator: &str) -> Below {
    let elevator = platter_elevators::by_name(elevator).map(|row| (row.make)());
    Arc::clone(Device::ram_with(size, DiskSettings::default(), elevator).unwrap().backend())
}

fn simulated(world: &Arc<World>, size: u64, us: u64) -> Below {
    let model = Ideal { size, latency: Span::from_micros(us), depth: 4, write_cache: true };
    let disk = SimDisk::new(world, model.into(), Some(Medium::new()));
    Arc::new(DiskBackend::new(disk.attach("sim"), DiskSettings::default(), None).unwrap())
}

fn layer(name: &str, named: &[(&str, i64)], below: Vec<Below>) -> Below {
    by_name(name).unwrap().make(named, below).unwrap()
}

/// A filter of a program that changes nothing; with `PASSES`, one whose lanes do not even ask it.
#[derive(Clone)]
struct Plain<const PASSES: bool>;

impl<const PASSES: bool> Filter for Plain<PASSES> {
    const PASSES_IO: bool = PASSES;
}

/// All kinds of layers: those of the table, a cache of several shards, layers of a program, and a disk over a SCSI target.
fn names() -> impl Iterator<Item = &'static str> {
    platter_cache::layers().map(|row| row.name).chain([
        "cache of shards",
        "filter",
        "part",
        "pass",
        "passed part",
        "scsi",
    ])
}

fn filtered<const PASSES: bool>(below: Below, begin: u64) -> Below {
    let layer = Filtered::new("plain", "", below, Plain::<PASSES>);
    let size = layer.geometry().size;
    if begin == 0 { Arc::new(layer) } else { Arc::new(layer.over_part(begin..size).unwrap()) }
}

/// A disk whose I/O is commands to a target.
fn scsi(target: &ScsiTarget) -> Below {
    let disk = target.port(Options::default()).unwrap();
    Arc::new(DiskBackend::new(disk, DiskSettings::default(), None).unwrap())
}

/// A device of `size` bytes under a layer of each kind, by name; layers of several members have three.
fn over(name: &str, backend: &dyn Fn(u64) -> Below, size: u64) -> Below {
    let units = size / UNIT;
    match name {
        "raid0" => {
            let third = units / 3;
            let shares = [third, third, units - 2 * third];
            layer(
                name,
                &[],
                shares.iter().filter(|units| **units > 0).map(|units| backend(units * UNIT)).collect(),
            )
        }
        "concat" if units > 1 => layer(name, &[], vec![backend(UNIT), backend(size - UNIT)]),
        "partition" => {
            layer(name, &[("offset", UNIT as i64), ("length", size as i64)], vec![backend(size + UNIT)])
        }
        "delay" => layer(name, &[("read", 30), ("write", 20), ("jitter", 10)], vec![backend(size)]),
        "limit" => layer(name, &[("bw", 1 << 32), ("latency", 5), ("depth", 2)], vec![backend(size)]),
        "error" => layer(name, &[("chance", 0)], vec![backend(size)]),
        // With room for every chunk; and with too little for `snapshot-origin`, which goes on nevertheless.
        "snapshot" | "snapshot-merge" | "snapshot-origin" => {
            let room = if name == "snapshot-origin" { size / 2 } else { size };
            let (origin, store) = (backend(size), backend(room / UNIT * UNIT + 4 * UNIT));
            if name == "snapshot-merge" {
                drop(layer("snapshot", &[("chunk", 4096)], vec![Arc::clone(&origin), Arc::clone(&store)]));
                return layer(name, &[], vec![origin, store]);
            }
            layer(name, &[("chunk", 4096)], vec![origin, store])
        }
        "raid1" => {
            let members: Vec<Below> = [(); 2].map(|()| backend(size + mirrors::FRONT)).into();
            mirrors::make(&members);
            layer(name, &[], members)
        }
        "multipath" => {
            let target = ScsiTarget::new(backend(size));
            layer(name, &[("policy", 2)], vec![scsi(&target), scsi(&target)])
        }
        "cache of shards" => {
            // Blocks of 64 KiB lie on several of them.
            layer("cache", &[("size", 8 << 20), ("shards", 4), ("extent", 16384)], vec![backend(size)])
        }
        "scsi" => scsi(&ScsiTarget::new(backend(size))),
        "filter" => filtered::<false>(backend(size), 0),
        "pass" => filtered::<true>(backend(size), 0),
        "part" => filtered::<false>(backend(size + UNIT), UNIT),
        "passed part" => filtered::<true>(backend(size + UNIT), UNIT),
        _ => layer(name, &[], vec![backend(size)]),
    }
}

/// A random stack of layers, generated from a seed.
fn random(seed: u64, backend: &dyn Fn(u64) -> Below) -> Below {
    fn grow(random: &mut Xoshiro256PlusPlus, backend: &dyn Fn(u64) -> Below, size: u64, depth: u64) -> Below {
        if depth == 0 || random.next_u64().is_multiple_of(4) {
            return backend(size);
        }
        let rows: Vec<&str> = platter_cache::layers().map(|row| row.name).chain(["scsi"]).collect();
        let row = rows[(random.next_u64() % rows.len() as u64) as usize];
        let below = std::cell::RefCell::new(random);
        over(row, &|size| grow(&mut below.borrow_mut(), backend, size, depth - 1), size)
    }
    grow(&mut Xoshiro256PlusPlus::seed_from_u64(seed), backend, SIZE, 4)
}

/// Runs a test on a zero-filled stack of every kind.
pub(crate) fn on_all(test: impl Fn(&str, &Device)) {
    for elevator in ["none", "deadline"] {
        for name in names() {
            let stack = over(name, &|size| ram(size, elevator), SIZE);
            test(&format!("{name} {elevator}"), &Device::new(stack));
        }
    }
    let world = World::new(3);
    for (name, device) in in_memory() {
        test(name, &device);
    }
    for name in names() {
        let latency = std::cell::Cell::new(50);
        let backend = |size| simulated(&world, size, latency.replace(latency.get() * 2));
        test(&format!("{name} simulated"), &Device::new(over(name, &backend, SIZE)));
    }
    for seed in 0..12 {
        let stack = random(seed, &|size| ram(size, "none"));
        test(&format!("seed {seed}: {}", stack.name()), &Device::new(stack));
        let stack = random(seed, &|size| simulated(&world, size, 100));
        test(&format!("seed {seed}: {}", stack.name()), &Device::new(stack));
    }
}

/// Stacks for tests with many threads.
pub(crate) fn in_memory() -> Vec<(&'static str, Device)> {
    let stacks = names().map(|name| (name, over(name, &|size| ram(size, "none"), SIZE)));
    let deep =
        layer("concat", &[], (0..2).map(|_| over("raid0", &|size| ram(size, "none"), SIZE / 2)).collect());
    let stacks = stacks.chain([("arrays in an array", deep)]);
    stacks.map(|(name, stack)| (name, Device::new(stack))).collect()
}

/// Runs a test on a part of a file with each file driver, and on an array of two files where that makes no
/// difference to the test, which gets the first file.
pub(crate) fn on_files(elevators: &[&str], test: impl Fn(&str, &Device, &NamedTempFile)) {
    for driver in FileDriver::ALL {
        for elevator in elevators {
            let file = NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
            file.as_file().set_len(SIZE + 12288).unwrap();
            let mut options = DiskOptions::read_write();
            options.file.driver = Choice::Only(driver);
            options.elevator = platter_elevators::by_name(elevator).map(|row| (row.make)());
            match Device::open(file.path(), options) {
                Ok(device) => {
                    let below = vec![Arc::clone(device.backend())];
                    let part = layer("partition", &[("offset", 8192), ("length", SIZE as i64)], below);
                    test(&format!("part of {driver} {elevator}"), &Device::new(part), &file);
                }
                Err(error) => eprintln!("skipped {driver}: {error}"),
            }
        }
    }
}

/// Stacks of a layer of each kind over files, which a thread that sleeps flushes itself.
pub(crate) fn over_files() -> Vec<(&'static str, Device)> {
    let file = |size| -> Below {
        let file = NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        file.as_file().set_len(size).unwrap();
        Arc::clone(Device::open(file.path(), DiskOptions::read_write()).unwrap().backend())
    };
    names().map(|name| (name, Device::new(over(name, &file, SIZE)))).collect()
}

/// An array of two files.
pub(crate) fn files(driver: FileDriver) -> Option<(Device, [NamedTempFile; 2])> {
    let files = [0, 1].map(|_| NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap());
    let mut below = Vec::new();
    for file in &files {
        file.as_file().set_len(SIZE / 2).unwrap();
        let mut options = DiskOptions::read_write();
        options.file.driver = Choice::Only(driver);
        match Device::open(file.path(), options) {
            Ok(device) => below.push(Arc::clone(device.backend())),
            Err(error) => {
                eprintln!("skipped {driver}: {error}");
                return None;
            }
        }
    }
    Some((Device::new(layer("raid0", &[], below)), files))
}
