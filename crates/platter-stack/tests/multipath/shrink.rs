//! What a disk has lost by shrinking is gone through every path, and no path is left for it.

use crate::{SIZE, disk, hang, item, limit};
use platter_block::backend::Backend;
use platter_block::fault::Kind;
use platter_block::queue::Settings;
use platter_block::status::Value;
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::disk_backend::{DiskBackend, DiskSettings};
use platter_sim::{SimDisk, World};
use std::sync::Arc;

/// A `multipath` device over `count` paths to one simulated disk. The paths have this timeout, and carry no SCSI commands.
fn through(count: usize, timeout: Option<Span>) -> (Arc<World>, SimDisk, Device) {
    let world = World::new(6);
    let sim = disk(&world);
    let settings = DiskSettings::default().with_queue(Settings { timeout, ..Settings::default() });
    let path: Arc<dyn Backend> = Arc::new(DiskBackend::new(sim.attach("sim"), settings, None).unwrap());
    let params = [("check_interval", 1000)];
    let made = platter_stack::by_name("multipath").unwrap().make(&params, vec![path; count]).unwrap();
    (world, sim, Device::new(made))
}

/// Half of the disk is lost. `is_known`: the queues of the paths know it before there is I/O to that half.
fn loses_half(count: usize, is_known: bool) {
    let (world, sim, device) = through(count, None);
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

/// A write to `pos` hangs for 20 s while the disk loses its second half.
fn shrinks_in_doubt(pos: u64) {
    let (world, sim, device) = through(1, Some(Span::from_secs(1)));
    let clock = world.clock();
    let end = clock.now() + Span::from_secs(20);
    hang(&sim, 20);
    assert_eq!(device.write_at(&[2; 8192], pos).unwrap_err().fault.kind, Kind::TimedOut);
    assert!(sim.resize(SIZE / 2));
    // From now on the queue of the path knows it.
    let error = device.read_at_with(&mut [0; 4096], SIZE / 2 + 65536, limit(5)).unwrap_err();
    assert_eq!(error.fault.kind, Kind::Gone);
    let pass = || {
        clock.advance_to(clock.now() + Span::from_millis(500));
        device.read_at(&mut [0; 4096], 0).unwrap();
        item(&device, "in doubt")
    };
    loop {
        let doubts = pass();
        if clock.now() >= end {
            break;
        }
        assert_eq!(doubts, Value::Number(1), "{:?}", clock.now());
    }
    (0..10).for_each(|_| drop(pass()));
    assert_eq!(item(&device, "in doubt"), Value::Number(0));
    device.flush().unwrap();
}

#[test]
fn a_doubt_ends_although_its_range_is_lost() {
    // A part of the range, and all of it.
    shrinks_in_doubt(SIZE / 2 - 4096);
    shrinks_in_doubt(SIZE - 8192);
}
