//! When a queue notifies its guest, and that no notification is lost, however the two are timed.

use crate::guest::{F_EVENT_IDX, Guest, IN};
use crate::rig::Rig;
use platter_disk::device::Device;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

/// Requests of a batch.
const BATCH: u64 = 16;

/// Sends a batch and takes all of its answers. Returns how often the guest was notified meanwhile.
fn notifications_of_a_batch(guest: &mut Guest) -> u64 {
    guest.await_device_sleep(0);
    for at in 0..BATCH {
        guest.submit(0, IN, at * 8, &[], 4096, 0);
    }
    guest.kick_always(0);
    let (mut left, mut count) = (BATCH, 0);
    while left > 0 {
        while let Some(status) = guest.take_status(0) {
            assert_eq!(status, 0);
            left -= 1;
        }
        count += guest.notifications(0);
    }
    // The last notification follows the last answer.
    guest.await_device_sleep(0);
    count + guest.notifications(0)
}

#[test]
fn a_guest_is_notified_before_all_of_a_batch_is_done() {
    // Without notifications by index the guest wants each.
    let rig = Rig::of(Device::ram(1 << 20).unwrap());
    let mut guest = rig.guest_with(1, !F_EVENT_IDX);
    let first = notifications_of_a_batch(&mut guest);
    assert!(first >= 1);
    for _ in 0..20 {
        // The disk is known to answer at once: four requests a turn.
        let count = notifications_of_a_batch(&mut guest);
        assert!((BATCH / 4..=BATCH).contains(&count), "{count} notifications of {BATCH} requests");
    }
}

#[test]
fn no_notification_is_lost_however_guest_and_device_are_timed() {
    let rig = Rig::of(Device::ram(1 << 20).unwrap());
    for features in [u64::MAX, !F_EVENT_IDX] {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(13);
        let mut guest = rig.guest_with(1, features);
        for _ in 0..10_000 {
            // The device is found working, polling, on its way to sleep and asleep.
            // Most pauses are short, as the moment is in which a notification could be lost.
            let longest = 1 << (random.next_u64() % 13);
            for _ in 0..random.next_u64() % longest {
                std::hint::spin_loop();
            }
            let before = guest.available(0);
            // One request, which is not polled for, as often as several.
            let most = if random.next_u64().is_multiple_of(2) { 1 } else { BATCH };
            let count = 1 + random.next_u64() % most;
            for at in 0..count {
                guest.submit(0, IN, at * 8, &[], 512, 0);
            }
            guest.kick(0, before);
            for _ in 0..count {
                // It fails if nothing comes for a minute.
                assert_eq!(guest.wait_status(0), 0);
            }
        }
        drop(guest);
        rig.await_event("the peer closed the connection");
        rig.events.lock().unwrap().clear();
    }
}
