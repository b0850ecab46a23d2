//! Simulated disks through the three ways to call a device: virtual time passes as it must, and only as it must.

use platter::block::fault::Kind;
use platter::block::time::{Span, Time};
use platter::registry::{self, Access};
use platter::sim::World;
use platter::{Bio, Device};
use std::sync::Arc;

fn open(world: &Arc<World>, spec: &str) -> Device {
    registry::open_in(world, &registry::parse(spec).unwrap(), Access::read_write()).unwrap()
}

#[test]
fn synchronous_calls_take_the_disks_time_one_after_the_other() {
    let world = World::new(1);
    let disk = open(&world, "sim(ideal)");
    disk.write_at(&[7; 4096], 8192).unwrap();
    let mut back = [0; 512];
    disk.read_at(&mut back, 8192).unwrap();
    assert_eq!(back, [7; 512]);
    disk.flush().unwrap();
    // 100 us each; a disk without a write cache has nothing to flush.
    assert_eq!(world.clock().now(), Time(200_000));
}

#[test]
fn futures_end_without_anybody_but_the_service_thread() {
    let world = World::new(1);
    for spec in ["sim(ideal)", "sim(ideal, elevator=deadline)"] {
        let disk = open(&world, spec);
        let before = world.clock().now();
        let reads = (0..8).map(|i| disk.read(i * 4096, vec![1u8; 512]));
        for (result, buffer) in futures::executor::block_on(futures::future::join_all(reads)) {
            result.unwrap();
            assert_eq!(buffer.unwrap(), [0; 512]);
        }
        assert!(world.clock().now().since(before) >= Span::from_micros(100), "{spec}");
    }
}

#[test]
fn a_channel_keeps_the_disk_busy_up_to_its_depth() {
    for (spec, rounds) in [("sim(ideal)", 4), ("sim(ideal, elevator=noop)", 4), ("sim(ideal, depth=8)", 16)] {
        let world = World::new(1);
        let disk = open(&world, spec);
        let mut channel = disk.channel(128).unwrap();
        for i in 0..128 {
            channel.submit(Bio::read(i * 65536, vec![0u8; 512]).unwrap()).unwrap();
        }
        let mut done = Vec::new();
        while done.len() < 128 {
            channel.wait(&mut done, None);
        }
        assert_eq!(world.clock().now(), Time(rounds * 100_000), "{spec}");
    }
}

#[test]
fn a_lone_request_does_not_wait_for_the_devices_plug() {
    let world = World::new(1);
    let disk = open(&world, "sim(ideal, elevator=deadline, unplug_delay=3ms)");
    let mut channel = disk.channel(1).unwrap();
    channel.submit(Bio::read(0, vec![0u8; 512]).unwrap()).unwrap();
    let mut done = Vec::new();
    assert_eq!(channel.wait(&mut done, Some(Span::from_millis(1))), 1);
    assert_eq!(world.clock().now(), Time(100_000));
}

#[test]
fn disks_of_one_world_work_side_by_side() {
    let world = World::new(1);
    let disks = [open(&world, "sim(ideal)"), open(&world, "sim(ideal)")];
    let mut channels: Vec<_> = disks.iter().map(|disk| disk.channel(1).unwrap()).collect();
    for channel in &mut channels {
        channel.submit(Bio::read(0, vec![0u8; 512]).unwrap()).unwrap();
        channel.flush();
    }
    let mut done = Vec::new();
    for channel in &mut channels {
        assert_eq!(channel.wait(&mut done, None), 1);
    }
    assert_eq!(world.clock().now(), Time(100_000));
}

#[test]
fn what_goes_wrong_is_asked_for_in_the_spec() {
    let world = World::new(1);
    let disk = open(&world, "sim(ideal, bad_at=64K, bad_size=4K, spikes=1000000, spike=1ms)");
    let mut buffer = [0; 4096];
    disk.read_at(&mut buffer, 0).unwrap();
    assert_eq!(world.clock().now(), Time(1_100_000));
    let error = disk.read_at(&mut buffer, 66 << 10).unwrap_err();
    assert_eq!(error.fault.kind, platter::Kind::Io);
    disk.read_at(&mut buffer, 68 << 10).unwrap();
    let parse = |text| registry::parse(text).unwrap();
    let nothing = registry::open_in(&world, &parse("sim(ideal, fault_seed=3)"), Access::read_write());
    assert!(nothing.unwrap_err().to_string().contains("no effect"));
}

#[test]
fn a_bad_range_lies_on_the_disk() {
    let world = World::new(1);
    let open = |text| registry::open_in(&world, &registry::parse(text).unwrap(), Access::read_write());
    for (text, expected) in [
        ("sim(ideal, bad_at=1T)", "the disk ends at 1T, before the bad range at 1T"),
        ("sim(ideal, bad_at=0, bad_size=0)", "expected a size from 1 to 4096P"),
    ] {
        let error = open(text).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(expected), "{text} gives {error}");
    }
    assert!(open("sim(ideal, bad_at=1048575M, bad_size=4096P)").is_ok(), "as far as the disk goes");
}

#[test]
fn what_nobody_reads_back_is_kept_only_on_demand() {
    for (spec, forget, kept) in [
        ("sim(ideal)", false, true),
        ("sim(ideal)", true, false),
        ("sim(ideal, data=on)", true, true),
        ("sim(ideal, data=off)", false, false),
    ] {
        let access = Access { forget, ..Access::read_write() };
        let disk = registry::open_in(&World::new(1), &registry::parse(spec).unwrap(), access).unwrap();
        disk.write_at(&[7; 512], 0).unwrap();
        let mut back = [1; 512];
        disk.read_at(&mut back, 0).unwrap();
        assert_eq!(back, if kept { [7; 512] } else { [1; 512] }, "{spec}, forget {forget}");
    }
}

/// The time of a write and its grace pass, and the disk is failed; it has returned the write a minute later.
#[test]
fn a_disk_that_does_not_answer_is_failed_until_it_has() {
    for (on_return, stays) in [("refresh", false), ("stay", true)] {
        let world = World::by_hand(1);
        let held =
            "ideal, stuck=1000000, stuck_for=60s, aborts=0, timeout=2s, slow_timeout=3s, abort_grace=1s";
        let disk = open(&world, &format!("sim({held}, on_return={on_return})"));
        let mut channel = disk.without_timeouts().channel(8).unwrap();
        let mut at = |seconds: u64, bio: Option<Bio>| {
            world.clock().advance_to(Time(seconds * 1_000_000_000));
            bio.into_iter().for_each(|bio| channel.submit(bio).unwrap());
            let mut done = Vec::new();
            (0..3).for_each(|_| _ = channel.poll(&mut done));
            done.iter().map(|bio| bio.status().map_err(|fault| fault.kind)).collect::<Vec<_>>()
        };
        let write = || Some(Bio::write(0, vec![1u8; 512]).unwrap());
        assert_eq!(at(0, write()), []);
        assert_eq!((at(2, None), at(3, None)), (vec![], vec![]));
        assert_eq!(at(4, write()), [Err(Kind::Gone)], "{on_return}");
        assert_eq!(at(61, None), [Ok(())], "the write ends as the disk says");
        if stays {
            assert_eq!(at(62, write()), [Err(Kind::Gone)]);
            disk.refresh().unwrap();
        }
        assert_eq!(at(63, write()), [], "it is with the disk");
    }
}
