//! The region of requests in flight, which the next server of a guest reads if this one is killed.

use crate::guest::BASE;
use crate::rig::Rig;
use platter_disk::device::Device;
use std::os::unix::fs::FileExt;

#[test]
fn a_request_that_cannot_be_answered_stays_in_flight() {
    const HEAD: u16 = 100;
    let rig = Rig::of(Device::ram(1 << 20).unwrap());
    let mut guest = rig.guest(1);
    // A header that is too short.
    guest.describe(0, HEAD, BASE, 3, 0, 0);
    guest.offer(0, HEAD);
    guest.kick_always(0);
    rig.await_event("is gone: queue 0");
    let mut mark = [0];
    let (_, region) = guest.inflight.as_ref().unwrap();
    region.read_exact_at(&mut mark, 16 + 16 * u64::from(HEAD)).unwrap();
    assert_eq!(mark, [1]);
}
