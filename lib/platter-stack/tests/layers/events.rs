//! Simulated disks that change their size or disappear, seen through layers that are as large as the device
//! below.

use platter_block::backend::Backend;
use platter_block::bio::Bio;
use platter_block::event::{DeviceEvent, Watcher};
use platter_block::fault::Kind;
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::disk_backend::{DiskBackend, DiskSettings};
use platter_sim::ideal::Ideal;
use platter_sim::medium::Medium;
use platter_sim::{SimDisk, World};
use std::sync::{Arc, Mutex, Weak};

const SIZE: u64 = 16 << 20;

#[derive(Default)]
struct Notes(Mutex<Vec<DeviceEvent>>);

impl Watcher for Notes {
    fn event(&self, event: &DeviceEvent) {
        self.0.lock().unwrap().push(event.clone());
    }
}

fn disk(world: &Arc<World>) -> (SimDisk, Arc<dyn Backend>) {
    let model = Ideal { size: SIZE, latency: Span::from_millis(1), depth: 32, write_cache: true };
    let disk = SimDisk::new(world, model.into(), Some(Medium::new()));
    assert!(disk.resize(SIZE / 2));
    let backend = DiskBackend::new(disk.attach("sim"), DiskSettings::default(), None).expect("a device");
    (disk, Arc::new(backend))
}

#[test]
fn filters_pass_events_on_and_have_the_size_of_what_is_below() {
    for name in ["limit", "delay", "error", "verify"] {
        let world = World::new(1);
        let (disk, backend) = disk(&world);
        let row = platter_cache::by_name(name).expect("a layer");
        let named: &[(&str, i64)] = if name == "error" { &[("chance", 0)] } else { &[] };
        let device = Device::new(row.make(named, vec![backend]).expect("it can be made"));
        let notes = Arc::new(Notes::default());
        device.watch(Arc::downgrade(&notes) as Weak<dyn Watcher>);
        assert_eq!(device.size(), SIZE / 2, "{name}");
        assert!(disk.resize(SIZE));
        device.refresh().expect("a size");
        assert_eq!(device.size(), SIZE, "{name}");
        device.write_at(&[7; 4096], SIZE - 4096).expect("it is there");
        assert!(disk.resize(SIZE / 4));
        let error = device.read_at(&mut [0; 4096], SIZE - 4096).expect_err("it is gone");
        assert_eq!(error.fault.kind, Kind::Gone, "{name}");
        assert_eq!(device.size(), SIZE / 4, "{name}: noticed by the error");
        disk.set_removed(true);
        let error = device.read_at(&mut [0; 4096], 0).expect_err("all of it is gone");
        assert_eq!(error.fault.kind, Kind::Gone, "{name}");
        disk.set_removed(false);
        device.read_at(&mut [0; 4096], 0).expect("it is back");
        device.refresh().expect("a size");
        let told = [
            DeviceEvent::Resized { from: SIZE / 2, to: SIZE },
            DeviceEvent::Resized { from: SIZE, to: SIZE / 4 },
            DeviceEvent::Removed,
            DeviceEvent::Returned,
        ];
        assert_eq!(*notes.0.lock().expect("no panic"), told, "{name}");
    }
}

/// Contents beyond a temporary new end are lost, even if no device noticed the change.
#[test]
fn what_was_cut_off_a_simulated_disk_is_lost() {
    let world = World::new(1);
    let (disk, backend) = disk(&world);
    let device = Device::new(backend);
    device.write_at(&[7; 4096], SIZE / 2 - 4096).expect("room");
    assert!(!disk.resize(0) && !disk.resize(100) && !disk.resize(2 * SIZE), "sizes that it cannot have");
    assert!(disk.resize(SIZE / 4) && disk.resize(SIZE / 2));
    let mut back = [1; 4096];
    device.read_at(&mut back, SIZE / 2 - 4096).expect("it is there again");
    assert_eq!(back, [0; 4096]);
}

/// A layer that keeps its size says of which device below it speaks.
#[test]
fn layers_that_keep_their_size_report_what_is_below() {
    for (name, named, count) in [
        ("partition", &[("length", SIZE as i64 / 4)][..], 1),
        ("concat", &[], 2),
        ("raid0", &[("chunk", 65536)], 2),
        ("cache", &[("size", 1 << 20)], 1),
    ] {
        let world = World::new(1);
        let (disks, backends): (Vec<_>, Vec<_>) = (0..count).map(|_| disk(&world)).unzip();
        let below = backends[count - 1].name();
        let row = platter_cache::by_name(name).expect("a layer");
        let device = Device::new(row.make(named, backends).expect("it can be made"));
        let size = device.size();
        let notes = Arc::new(Notes::default());
        device.watch(Arc::downgrade(&notes) as Weak<dyn Watcher>);
        let disk = &disks[count - 1];
        assert!(disk.resize(SIZE / 8));
        device.refresh().expect("a size");
        disk.set_removed(true);
        device.refresh().expect("an answer");
        assert_eq!(device.size(), size, "{name}");
        let told = [DeviceEvent::Resized { from: SIZE / 2, to: SIZE / 8 }, DeviceEvent::Removed]
            .map(|event| DeviceEvent::Below { device: Arc::clone(&below), event: Box::new(event) });
        assert_eq!(*notes.0.lock().expect("no panic"), told, "{name}");
    }
}

/// A filter is asked about I/O to the new end on lanes that were open when the disk grew, too.
#[test]
fn filters_filter_to_the_new_end_of_a_disk_that_grew() {
    let world = World::new(1);
    let (disk, backend) = disk(&world);
    let row = platter_cache::by_name("error").expect("a layer");
    let device = Device::new(row.make(&[("chance", 1_000_000)], vec![backend]).expect("it can be made"));
    let fails = |pos| device.read_at(&mut [0; 4096], pos).expect_err("all fail").fault.kind;
    assert_eq!(fails(0), Kind::Io);
    assert!(disk.resize(SIZE));
    device.refresh().expect("a size");
    assert_eq!(fails(SIZE - 4096), Kind::Io);
}

/// A write to a range that a disk has lost waits in a layer until the disk has grown again, and is carried out. The
/// filter above must know it, or it would call the new data damage.
#[test]
fn a_filter_sees_a_bio_that_comes_to_a_disk_after_it_has_grown_again() {
    let world = World::new(1);
    let (disk, backend) = disk(&world);
    let limit = platter_cache::by_name("limit").expect("a layer");
    let limited = limit.make(&[("depth", 1)], vec![backend]).expect("it can be made");
    let device = Device::new(platter_stack::verify::new(limited));
    let last = SIZE / 2 - 4096;
    device.write_at(&[1; 4096], last).expect("room");
    assert!(disk.resize(SIZE / 4));
    let error = device.read_at(&mut [0; 4096], last).expect_err("it is gone");
    assert_eq!((error.fault.kind, device.size()), (Kind::Gone, SIZE / 4));
    let mut channel = device.channel(4).expect("a channel");
    for pos in [0, last] {
        assert!(channel.submit(Bio::write(pos, vec![2; 4096]).expect("a write")).is_ok());
    }
    let mut done = Vec::new();
    // The first of the two is with the disk now, and the other one behind it.
    channel.poll(&mut done);
    assert!(done.is_empty());
    assert!(disk.resize(SIZE / 2));
    device.refresh().expect("a size");
    while done.len() < 2 {
        channel.wait(&mut done, None);
    }
    assert!(done.iter().all(|bio| bio.status().is_ok()));
    let mut back = [0; 4096];
    device.read_at(&mut back, last).expect("what was written last");
    assert_eq!(back, [2; 4096]);
}
