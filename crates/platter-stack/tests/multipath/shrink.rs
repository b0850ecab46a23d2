//! What a disk has lost by shrinking is gone through every path, and no path is left for it.

use crate::{SIZE, disk, item, limit};
use platter_block::backend::Backend;
use platter_block::fault::Kind;
use platter_block::status::Value;
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::disk_backend::{DiskBackend, DiskSettings};
use platter_sim::{SimDisk, World};
use std::sync::Arc;

/// A disk that programs reach through so many paths without commands.
fn through(count: usize) -> (Arc<World>, SimDisk, Device) {
    let world = World::new(6);
    let sim = disk(&world);
    let path: Arc<dyn Backend> =
        Arc::new(DiskBackend::new(sim.attach("sim"), DiskSettings::default(), None).unwrap());
    let made = platter_stack::by_name("multipath").unwrap().make(&[], vec![path; count]).unwrap();
    (world, sim, Device::new(made))
}

/// Half of the disk is lost. `is_known`: the queues of the paths know it before there is I/O to that half.
fn loses_half(count: usize, is_known: bool) {
    let (world, sim, device) = through(count);
    (0..4).for_each(|at| device.write_at(&[1; 4096], at * 4096).unwrap());
    assert!(sim.resize(SIZE / 2));
    if is_known {
        device.flush().unwrap();
    }
    let began = world.clock().now();
    let mut data = [0; 4096];
    for at in [SIZE - 4096, SIZE / 2 - 512] {
        let error = device.read_at_with(&mut data, at, limit(1)).unwrap_err();
        assert_eq!(error.fault.kind, Kind::Gone, "{count} paths, known: {is_known}: {error}");
        let error = device.write_at_with(&[2; 4096], at, limit(1)).unwrap_err();
        assert_eq!(error.fault.kind, Kind::Gone, "{count} paths, known: {is_known}: {error}");
    }
    assert_eq!(item(&device, "paths up"), Value::Number(count as u64));
    for at in 0..4 {
        device.read_at_with(&mut data, at * 4096, limit(1)).unwrap();
        assert_eq!(data, [1; 4096]);
    }
    device.flush().unwrap();
    assert!(world.clock().now().since(began) < Span::from_millis(10), "something was held");
    assert_eq!(item(&device, "in doubt"), Value::Number(0));
}

#[test]
fn a_lost_range_takes_no_path_down() {
    for count in 1..=2 {
        loses_half(count, true);
        loses_half(count, false);
    }
}
