//! Answered writes that may be lost: what the clients of each export are told, and how often.

use crate::ways::{Client, Kind, Way, all, served};
use platter_block::bio::Op;
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_serve::restart::Past;
use platter_sim::fault::{Blow, Strike};
use platter_sim::ideal::Ideal;
use platter_sim::medium::Medium;
use platter_sim::{SimDisk, World};

fn disk() -> (SimDisk, Device) {
    let world = World::new(1);
    let model = Ideal { size: 16 << 20, latency: Span::from_micros(1), depth: 32, write_cache: true };
    let disk = SimDisk::new(&world, model.into(), Some(Medium::new()));
    let device = Device::from_disk(disk.attach("sim"), DiskSettings::default(), None).unwrap();
    (disk, device)
}

/// Whether each client of this export is told for itself; otherwise the kernel, or the guest, is told for all its programs.
fn tells_each((name, _): &Kind) -> bool {
    ["nbd", "iscsi"].contains(name)
}

fn flushes(client: &mut Box<dyn Client>) -> [bool; 3] {
    [(); 3].map(|()| client.flush().is_ok())
}

fn writer(way: &dyn Way) -> Box<dyn Client> {
    let mut client = way.connect();
    client.write(0, &[1; 4096], false).unwrap();
    client
}

#[test]
fn one_failed_flush_is_told_once_and_the_next_ones_are_tried() {
    for kind in all() {
        let (disk, device) = disk();
        let Some(way) = kind.1(served(device)) else { continue };
        let each = tells_each(&kind);
        let (mut first, mut second) = (writer(&*way), writer(&*way));
        disk.strike(Strike { op: Some(Op::Flush), blow: Blow::Error });
        assert_eq!(flushes(&mut first), [false, true, true], "{}", kind.0);
        assert_eq!(flushes(&mut second), [!each, true, true], "{}", kind.0);
        assert_eq!(flushes(&mut writer(&*way)), [true; 3], "{}: all that were there know of it", kind.0);
        // Again: the device must not have come to a state in which nothing is noticed.
        disk.strike(Strike { op: Some(Op::Flush), blow: Blow::Error });
        assert_eq!(flushes(&mut second), [false, true, true], "{}", kind.0);
        assert_eq!(flushes(&mut first), [!each, true, true], "{}", kind.0);
    }
}

#[test]
fn after_a_killed_server_the_first_flush_fails_once() {
    for kind in all() {
        // A new block device has no user who has written to an earlier one, and the region of this guest in which requests are
        // in flight is new as well.
        let told = !["ublk", "vhost-user-blk"].contains(&kind.0);
        let lost = served(Device::ram(4 << 20).unwrap()).after(Past::Lost);
        let Some(way) = kind.1(lost) else { continue };
        assert_eq!(flushes(&mut way.connect()), [!told, true, true], "{}", kind.0);
        assert_eq!(
            flushes(&mut way.connect()),
            [!tells_each(&kind), true, true],
            "{}: another client",
            kind.0
        );
        let clean = served(Device::ram(4 << 20).unwrap()).after(Past::Clean);
        let way = kind.1(clean).expect("it was possible before");
        assert_eq!(flushes(&mut way.connect()), [true; 3], "{}", kind.0);
    }
}
