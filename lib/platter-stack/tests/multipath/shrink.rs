//! What a disk has lost by shrinking is gone through every path, and no path is left for it.

use crate::{SIZE, disk, hang, item, limit};
use platter_block::backend::Backend;
use platter_block::fault::Kind;
use platter_block::status::Value;
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::disk_backend::{DiskBackend, DiskSettings};
use platter_sim::{SimDisk, World};
use std::sync::Arc;

/// A `multipath` device over `count` paths to one simulated disk, which carry no SCSI commands.
fn through(count: usize) -> (Arc<World>, SimDisk, Device) {
    let world = World::new(6);
    let sim = disk(&world);
    let path: Arc<dyn Backend> =
        Arc::new(DiskBackend::new(sim.attach("sim"), DiskSettings::default(), None).unwrap());
    let params = [("check_interval", 1000)];
    let made = platter_stack::by_name("multipath").unwrap().make(&params, vec![path; count]).unwrap();
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
}

#[test]
fn a_lost_range_takes_no_path_down() {
    for count in 1..=2 {
        loses_half(count, true);
        loses_half(count, false);
    }
}

/// A write hangs for 20 s while the disk loses its second half, in which a part of the write is, or all of it.
#[test]
fn a_late_write_ends_although_its_range_is_lost() {
    for pos in [SIZE / 2 - 4096, SIZE - 8192] {
        let (world, sim, device) = through(1);
        let flush = || device.flush().err().map(|error| error.fault.kind);
        hang(&sim, 20);
        assert_eq!(device.write_at_with(&[2; 8192], pos, limit(1)).unwrap_err().fault.kind, Kind::TimedOut);
        assert!(sim.resize(SIZE / 2));
        // From now on the queue of the path knows it.
        let error = device.read_at_with(&mut [0; 4096], SIZE / 2 + 65536, limit(5)).unwrap_err();
        assert_eq!((error.fault.kind, flush()), (Kind::Gone, Some(Kind::Unsettled)));
        world.clock().advance_to(world.clock().now() + Span::from_secs(20));
        device.read_at(&mut [0; 4096], 0).unwrap();
        assert_eq!(flush(), None);
        assert_eq!(item(&device, "paths up"), Value::Number(1));
    }
}
