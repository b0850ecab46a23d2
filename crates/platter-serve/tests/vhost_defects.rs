//! Errors reach a guest, and a put-back defect that hides them is found. It is active in the whole process, so this test has
//! one of its own.

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

#[test]
fn a_write_past_the_end_fails() {
    let rig = Rig::of(Device::ram(1 << 20).unwrap());
    let mut guest = rig.guest(1);
    assert_eq!((guest.write(2048, &[1; 512]), guest.write(2047, &[1; 512])), (1, 0));
    defect::set(Defect::GuestErrorsHidden, true);
    let hidden = guest.write(2048, &[1; 512]);
    defect::set(Defect::GuestErrorsHidden, false);
    assert_eq!(hidden, 0, "the defect makes no difference");
}
