//! A disk that does not answer, below a device with a timeout. In virtual time.

use crate::rig::Rig;
use platter_block::bio::Op;
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_sim::fault::{Blow, FaultPlan, Lands, Strike};
use platter_sim::ideal::Ideal;
use platter_sim::medium::Medium;
use platter_sim::{SimDisk, World};
use std::sync::atomic::Ordering;

#[test]
fn a_guest_is_answered_at_the_timeout_of_the_device() {
    let world = World::new(1);
    let model = Ideal { size: 16 << 20, latency: Span::from_micros(100), depth: 32, write_cache: false };
    let disk = SimDisk::new(&world, model.into(), Some(Medium::new()));
    disk.set_faults(Some(FaultPlan { abort_chance: 0, ..FaultPlan::default() }));
    let mut settings = DiskSettings::default();
    settings.queue.timeout = Some(Span::from_secs(1));
    let rig = Rig::of(Device::from_disk(disk.attach("sim"), settings, None).unwrap());
    let mut guest = rig.guest(1);
    let begin = world.clock().now();
    assert_eq!((guest.write(0, &[1; 512]), guest.write(8, &[2; 512])), (0, 0));
    for op in [Op::Read, Op::Write] {
        disk.strike(Strike { op: Some(op), blow: Blow::Stuck(Span::from_secs(3600), Lands::Late) });
    }
    // The memory of the request before: nothing was read into it.
    assert_eq!(guest.read(0, 512), (1, vec![2; 512]));
    assert_eq!(guest.write(16, &[3; 512]), 1);
    // Elsewhere work goes on.
    assert_eq!(guest.read(8, 512), (0, vec![2; 512]));
    assert!(world.clock().now().since(begin) < Span::from_secs(60));
    assert_eq!(disk.release_stuck(), 2);
    assert_eq!(guest.read(16, 512), (0, vec![3; 512]));
    assert_eq!(rig.server().clients().list()[0].counts.errors.load(Ordering::Relaxed), 2);
}
