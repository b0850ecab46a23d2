//! Put-back defects of the export are found. They are active in the whole process, so this test has one of its own.

#![cfg(feature = "vhost")]

#[allow(dead_code, reason = "the suite of the export uses all of it")]
#[path = "vhost/guest.rs"]
mod guest;
#[allow(dead_code, reason = "the suite of the export uses all of it")]
#[path = "vhost/rig.rs"]
mod rig;

use platter_block::defect::{self, Defect};
use platter_disk::device::Device;
use rig::Rig;

use std::os::unix::fs::FileExt;

/// The status of a write past the end.
fn status(rig: &Rig) -> u8 {
    rig.guest(1).write(2048, &[1; 512])
}

/// Whether the region of requests in flight names a request that was taken and cannot be answered.
fn is_recorded(rig: &Rig) -> bool {
    const HEAD: u16 = 100;
    let mut guest = rig.guest(1);
    // A header that is too short.
    guest.describe(0, HEAD, guest::BASE, 3, 0, 0);
    guest.offer(0, HEAD);
    guest.kick_always(0);
    rig.await_event("is gone: queue 0");
    rig.events.lock().unwrap().clear();
    let mut mark = [0];
    let (_, region) = guest.inflight.as_ref().unwrap();
    region.read_exact_at(&mut mark, 16 + 16 * u64::from(HEAD)).unwrap();
    mark[0] == 1
}

#[test]
fn put_back_defects_are_found() {
    let rig = Rig::of(Device::ram(1 << 20).unwrap());
    let with = |defect: Defect, look: &dyn Fn() -> bool| {
        let before = look();
        defect::set(defect, true);
        let after = look();
        defect::set(defect, false);
        (before, after)
    };
    assert_eq!(with(Defect::GuestErrorsHidden, &|| status(&rig) == 1), (true, false));
    assert_eq!(with(Defect::InFlightForgotten, &|| is_recorded(&rig)), (true, false));
}
