//! What a guest can do with its disk.

use crate::guest::{
    DISCARD, F_CONFIG_WCE, F_EVENT_IDX, F_FLUSH, F_RO, FLUSH, GET_ID, Guest, IN, OUT, SLOTS, WRITE_ZEROES,
};
use crate::rig::Rig;
use platter_disk::device::Device;
use platter_disk::open::DiskOptions;
use platter_serve::qos::DeviceLimits;
use platter_serve::served::Served;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vhost::VhostBackend;
use vhost::vhost_user::VhostUserFrontend;
use vhost::vhost_user::message::VhostUserConfigFlags;

#[test]
fn a_disk_is_read_written_and_cleared() {
    let rig = Rig::of(Device::ram(1 << 20).unwrap());
    for features in [u64::MAX, !F_EVENT_IDX] {
        let mut guest = rig.guest_with(1, features);
        assert_eq!(guest.capacity(), 1 << 20);
        let data: Vec<u8> = (0..8192).map(|at| at as u8 ^ 0x5a).collect();
        assert_eq!(guest.write(8, &data), 0);
        assert_eq!(guest.read(8, 8192), (0, data.clone()));
        assert_eq!(guest.flush(), 0);
        assert_eq!(guest.clear(WRITE_ZEROES, &[(8, 1, 0), (12, 2, 0)]), 0);
        assert_eq!(guest.clear(WRITE_ZEROES, &[(20, 1, 1)]), 0);
        let mut expected = data;
        for sector in [0, 4, 5, 12] {
            expected[sector * 512..][..512].fill(0);
        }
        assert_eq!(guest.read(8, 8192), (0, expected));
        assert_eq!(guest.clear(DISCARD, &[(8, 16, 0)]), 0);
        assert_eq!(guest.call(0, GET_ID, 0, &[], 20).1[..5], *b"disk\0");
        // Outside, misaligned, unknown, with wrong flags or without ranges.
        assert_eq!(guest.read(2047, 1024).0, 1);
        assert_eq!(guest.read(u64::MAX, 512).0, 1);
        assert_eq!(guest.read(0, 511).0, 1);
        assert_eq!(guest.write(0, &[1; 100]), 1);
        assert_eq!(guest.call(0, 99, 0, &[], 0).0, 2);
        assert_eq!(guest.clear(DISCARD, &[(8, 16, 1)]), 2);
        assert_eq!(guest.clear(WRITE_ZEROES, &[(8, 16, 2)]), 2);
        assert_eq!(guest.clear(WRITE_ZEROES, &[(2047, 2, 0)]), 1);
        assert_eq!(guest.clear(WRITE_ZEROES, &[]), 1);
        assert_eq!(guest.flush(), 0);
        let clients = rig.server().clients().list();
        let counts = &clients[0].counts;
        // The answer is visible to the guest a moment before it is counted.
        while counts.flushes.load(Ordering::Relaxed) < 2 || counts.in_flight.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
        assert_eq!(counts.writes.load(Ordering::Relaxed), 1);
        assert_eq!(counts.written_bytes.load(Ordering::Relaxed), 8192);
        assert_eq!(counts.errors.load(Ordering::Relaxed), 9);
        drop(clients);
        drop(guest);
        rig.await_event("the peer closed the connection");
        rig.events.lock().unwrap().clear();
    }
}

#[test]
fn queues_work_side_by_side() {
    let rig = Rig::of(Device::ram(16 << 20).unwrap());
    let mut guest = rig.guest(4);
    for round in 0..50u64 {
        for queue in 0..4 {
            for slot in 0..SLOTS {
                let sector = (queue as u64 * 64 + u64::from(slot)) * 8;
                guest.submit(queue, OUT, sector, &[round as u8; 4096], 4096, 1024);
            }
            guest.kick_always(queue);
        }
        for queue in 0..4 {
            for _ in 0..SLOTS {
                assert_eq!(guest.wait_status(queue), 0);
            }
        }
        // The last slot of queue 0.
        let sector = (u64::from(SLOTS) - 1) * 8;
        assert_eq!(guest.read(sector, 4096), (0, vec![round as u8; 4096]));
    }
    assert_eq!(guest.call(3, FLUSH, 0, &[], 0).0, 0);
}

#[test]
fn a_read_only_disk_stays_as_it_is() {
    let rig = Rig::new(Served::new("disk", Device::ram(1 << 20).unwrap()).unwrap().read_only());
    let mut guest = rig.guest(1);
    assert_ne!(guest.features & F_RO, 0);
    assert_eq!(guest.features & F_CONFIG_WCE, 0);
    assert_eq!((guest.write(0, &[1; 512]), guest.flush()), (1, 0));
    assert_eq!(guest.clear(WRITE_ZEROES, &[(0, 1, 0)]), 1);
    assert_eq!(guest.read(0, 512), (0, vec![0; 512]));
}

#[test]
fn one_guest_follows_another_and_finds_what_it_left() {
    let mut rig = Rig::of(Device::ram(1 << 20).unwrap());
    for turn in 0..5u8 {
        let mut guest = rig.guest(2);
        let before = if turn == 0 { 0 } else { turn };
        assert_eq!(guest.read(0, 512), (0, vec![before; 512]));
        assert_eq!(guest.write(0, &[turn + 1; 512]), 0);
    }
    rig.stop().unwrap();
    assert!(!rig.path.exists());
}

#[test]
fn a_server_that_stops_answers_what_was_available() {
    let mut rig = Rig::of(Device::ram(1 << 20).unwrap());
    let mut guest = rig.guest(1);
    for slot in 0..SLOTS {
        guest.submit(0, OUT, u64::from(slot), &[7; 512], 512, 0);
    }
    // It is not notified: only its end has it look.
    rig.stop().unwrap();
    for _ in 0..SLOTS {
        assert_eq!(guest.wait(0).1.0, 0);
    }
}

#[test]
fn a_queue_that_is_stopped_goes_on_where_it_was() {
    let rig = Rig::of(Device::ram(1 << 20).unwrap());
    let mut guest = rig.guest(2);
    for round in 1..4u8 {
        assert_eq!(guest.write(0, &[round; 512]), 0);
        assert_eq!(guest.frontend().get_vring_base(0).unwrap(), u32::from(round) * 2 - 1);
        // The other queue is not disturbed.
        assert_eq!(guest.call(1, IN, 0, &[], 512).1, vec![round; 512]);
        guest.start(0);
        assert_eq!(guest.read(0, 512), (0, vec![round; 512]));
    }
    guest.frontend().set_vring_enable(0, false).unwrap();
    guest.submit(0, IN, 0, &[], 512, 0);
    guest.kick_always(0);
    assert_eq!(guest.call(1, IN, 0, &[], 512).0, 0);
    assert!(guest.take(0).is_none(), "it is disabled");
    guest.frontend().set_vring_enable(0, true).unwrap();
    assert_eq!(guest.wait(0).1.0, 0);
}

#[test]
fn memory_may_be_replaced_while_requests_run() {
    let rig = Rig::of(Device::ram(1 << 20).unwrap());
    let mut guest = rig.guest(1);
    let region = guest.region();
    for round in 0..20u8 {
        for slot in 0..SLOTS {
            guest.submit(0, OUT, u64::from(slot) * 8, &[round; 4096], 4096, 512);
        }
        guest.kick_always(0);
        guest.frontend().set_mem_table(&[region]).unwrap();
        for _ in 0..SLOTS {
            assert_eq!(guest.wait(0).1.0, 0);
        }
        assert_eq!(guest.read(8, 4096), (0, vec![round; 4096]));
    }
}

#[test]
fn the_guest_hears_of_a_new_size() {
    let file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    file.as_file().set_len(1 << 20).unwrap();
    let device = Device::open(file.path(), DiskOptions::read_write()).unwrap();
    let rig = Rig::of(device.clone());
    let mut guest = rig.guest(1);
    assert_eq!(guest.capacity(), 1 << 20);
    assert_eq!(guest.write(2048, &[1; 512]), 1);
    file.as_file().set_len(2 << 20).unwrap();
    device.refresh().unwrap();
    let mut message = [0; 12];
    guest.messages.as_mut().unwrap().read_exact(&mut message).unwrap();
    assert_eq!(message[..4], 2u32.to_ne_bytes());
    assert_eq!(guest.capacity(), 2 << 20);
    assert_eq!(guest.write(2048, &[1; 512]), 0);
}

#[test]
fn an_idle_guest_hears_that_another_program_has_enlarged_the_file() {
    let file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    file.as_file().set_len(1 << 20).unwrap();
    let disk = Device::open(file.path(), DiskOptions::read_write()).unwrap();
    // The file is below a layer.
    let layer = platter_cache::by_name("error").unwrap();
    let device = Device::new(layer.make(&[("chance", 0)], vec![Arc::clone(disk.backend())]).unwrap());
    let rig = Rig::of(device);
    let mut guest = rig.guest(1);
    assert_eq!(guest.capacity(), 1 << 20);
    file.as_file().set_len(2 << 20).unwrap();
    let messages = guest.messages.as_mut().unwrap();
    messages.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut message = [0; 12];
    messages.read_exact(&mut message).unwrap();
    assert_eq!(message[..4], 2u32.to_ne_bytes());
    assert_eq!(guest.capacity(), 2 << 20);
}

#[test]
fn a_driver_chooses_between_writes_that_are_durable_and_flushes() {
    let rig = Rig::of(Device::ram(1 << 20).unwrap());
    let mut guest = rig.guest(1);
    assert_eq!(guest.config()[32], 1);
    guest.frontend().set_config(32, VhostUserConfigFlags::WRITABLE, &[0]).unwrap();
    assert_eq!(guest.config()[32], 0);
    assert_eq!(guest.write(0, &[1; 512]), 0);
    assert!(guest.frontend().set_config(0, VhostUserConfigFlags::WRITABLE, &[0]).is_err());
    rig.await_event("byte 0 of the configuration space");
    let mut plain = rig.guest_with(1, !F_FLUSH);
    assert_eq!(plain.config()[32], 0);
}

#[test]
fn an_operator_can_disconnect_a_guest() {
    let rig = Rig::of(Device::ram(1 << 20).unwrap());
    let mut guest = rig.guest(1);
    assert_eq!(guest.flush(), 0);
    rig.server().clients().list()[0].disconnect();
    rig.await_event("is gone");
    drop(guest);
    let mut next: Guest = rig.guest(1);
    assert_eq!(next.flush(), 0);
}

/// A disk in memory has an operation for zeroes that need no space. Other zeroes are written.
#[test]
fn zeroes_that_are_written_take_bandwidth() {
    let served = Served::new("disk", Device::ram(1 << 20).unwrap()).unwrap();
    served.qos().set_device(DeviceLimits { bandwidth: 4 << 20, ..DeviceLimits::default() }).unwrap();
    let rig = Rig::new(served);
    let mut guest = rig.guest(1);
    let mut took = |unmap: u32, times: u32| {
        let begin = Instant::now();
        for _ in 0..times {
            // 1 MiB.
            assert_eq!(guest.clear(WRITE_ZEROES, &[(0, 1024, unmap), (1024, 1024, unmap)]), 0);
        }
        begin.elapsed()
    };
    let written = took(0, 2);
    assert!(written >= Duration::from_millis(200), "{written:?} for 1 MiB after 1 MiB at 4 MiB per second");
    let unmapped = took(1, 400);
    assert!(unmapped < Duration::from_secs(50), "{unmapped:?} for 400 MiB of which none is data");
}
