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

/// How long the disk has a request that it does not answer, which is much longer than the timeout of the device.
const HELD: Span = Span::from_secs(3600);

/// A guest has no deadline: it uses the memory of a request again once that is answered.
#[test]
fn a_guest_is_answered_when_the_disk_has_answered() {
    let world = World::new(1);
    let model = Ideal { size: 16 << 20, latency: Span::from_micros(100), depth: 32, write_cache: true };
    let disk = SimDisk::new(&world, model.into(), Some(Medium::new()));
    disk.set_faults(Some(FaultPlan { abort_chance: 0, ..FaultPlan::default() }));
    let mut settings = DiskSettings::default();
    settings.queue.timeout = Some(Span::from_secs(1));
    let rig = Rig::of(Device::from_disk(disk.attach("sim"), settings, None).unwrap());
    let mut guest = rig.guest(1);
    assert_eq!((guest.write(0, &[1; 512]), guest.flush()), (0, 0));
    for op in [Op::Read, Op::Write] {
        let begin = world.clock().now();
        disk.strike(Strike { op: Some(op), blow: Blow::Stuck(HELD, Lands::Late) });
        match op {
            Op::Read => assert_eq!(guest.read(0, 512), (0, vec![1; 512])),
            _ => assert_eq!(guest.write(16, &[3; 512]), 0),
        }
        assert!(world.clock().now().since(begin) >= HELD, "{op}");
        // The disk was failed meanwhile.
        assert_eq!((guest.flush(), guest.flush()), (1, 0), "{op}");
    }
    assert_eq!(guest.read(16, 512), (0, vec![3; 512]));
    assert_eq!(rig.server().clients().list()[0].counts.errors.load(Ordering::Relaxed), 2);
}
