//! Barriers across members of different speed and across lanes.

use crate::rig::{CHUNK, array, backends, result, simulated, spawn};
use platter_block::bio::{Bio, Flags};
use platter_block::fault::Kind;
use platter_block::time::{Span, Time};
use platter_disk::channel::Channel;
use platter_disk::device::Device;
use platter_disk::sync_io::IoOptions;
use platter_sim::World;
use platter_stack::raid0::{self, Sizes};
use std::sync::Arc;

/// A slow disk, a fast one and one in between, in virtual time.
fn unequal(write_cache: bool) -> (Arc<World>, Device) {
    let world = World::new(7);
    let disks = [900, 100, 300].map(|us| simulated(&world, Span::from_micros(us), write_cache));
    let array = raid0::new(backends(&disks), CHUNK, Sizes::Zones).unwrap();
    (world, Device::new(array))
}

fn write(member: u64, token: u64, flags: Flags) -> Bio {
    let mut bio = Bio::write(member * CHUNK, vec![token as u8; 512]).unwrap();
    bio.add_flags(flags);
    bio.set_token(token);
    bio
}

/// Runs a channel until it is idle, in virtual time. Returns when each bio completed, in microseconds.
fn drive(channel: &mut Channel) -> Vec<(u64, u64)> {
    let (mut done, mut times) = (Vec::new(), Vec::new());
    while channel.outstanding() > 0 {
        channel.wait(&mut done, None);
        times.extend(done.drain(..).map(|bio| {
            assert_eq!(bio.status(), Ok(()));
            (bio.token(), channel.now().0 / 1000)
        }));
    }
    times
}

/// Without a barrier each member works at its own pace.
#[test]
fn members_do_not_wait_for_each_other() {
    let (_, device) = unequal(false);
    let mut channel = device.channel(8).unwrap();
    for (token, member) in [0, 1, 2, 1].into_iter().enumerate() {
        assert!(channel.submit(write(member, token as u64, Flags::NONE)).is_ok());
    }
    assert_eq!(drive(&mut channel), [(1, 100), (3, 100), (2, 300), (0, 900)]);
}

/// The barrier goes to the fast disk and waits for the slow one; the bios after it wait for both.
#[test]
fn a_barrier_orders_across_members() {
    for flags in [Flags::HARD_BARRIER, Flags::SOFT_BARRIER] {
        let (_, device) = unequal(false);
        let mut channel = device.channel(8).unwrap();
        for bio in
            [write(0, 0, Flags::NONE), write(1, 1, flags), write(1, 2, Flags::NONE), write(2, 3, Flags::NONE)]
        {
            assert!(channel.submit(bio).is_ok());
        }
        assert_eq!(drive(&mut channel), [(0, 900), (1, 1000), (2, 1100), (3, 1300)], "{flags:?}");
    }
}

/// A hard barrier flushes all members before its own write, which is durable by itself.
#[test]
fn a_hard_barrier_is_durable_on_all_members() {
    let (_, device) = unequal(true);
    let mut channel = device.channel(8).unwrap();
    assert!(channel.submit(write(1, 0, Flags::NONE)).is_ok());
    assert!(channel.submit(write(1, 1, Flags::HARD_BARRIER)).is_ok());
    assert!(channel.submit(write(1, 2, Flags::NONE)).is_ok());
    // 100 for the write, 900 for the slowest flush, 100 for the barrier, 100 for the bio held behind it.
    assert_eq!(drive(&mut channel), [(0, 100), (1, 1100), (2, 1200)]);
    assert_eq!(device.counters().flushes, 3);
}

/// Writes that completed earlier are durable on all members before the data of a preflush is written.
#[test]
fn a_preflush_flushes_all_members_and_waits_for_nobody() {
    let (_, device) = unequal(true);
    let mut channel = device.channel(8).unwrap();
    assert!(channel.submit(write(0, 0, Flags::NONE)).is_ok());
    assert!(channel.submit(write(1, 1, Flags::PREFLUSH)).is_ok());
    assert!(channel.submit(write(2, 2, Flags::NONE)).is_ok());
    assert_eq!(drive(&mut channel), [(2, 300), (0, 900), (1, 1000)]);
}

#[test]
fn a_flush_takes_as_long_as_the_slowest_member() {
    let (world, device) = unequal(true);
    device.write_at(&[1; 512], CHUNK).unwrap();
    device.flush().unwrap();
    assert_eq!(world.clock().now(), Time(1_000_000));
    // A durable write only affects the members that it is on.
    device.write_at_with(&[1; 512], CHUNK, IoOptions::flags(Flags::FUA)).unwrap();
    assert_eq!(world.clock().now(), Time(1_100_000));
}

/// Two channels of one thread: the barrier of one waits for the other, and holds it back.
#[test]
fn a_barrier_orders_across_lanes() {
    let (_, device) = unequal(false);
    let (mut one, mut two) = (device.channel(8).unwrap(), device.channel(8).unwrap());
    assert!(one.submit(write(0, 0, Flags::NONE)).is_ok());
    one.flush();
    assert!(two.submit(write(1, 1, Flags::HARD_BARRIER)).is_ok());
    two.flush();
    assert!(one.submit(write(1, 2, Flags::NONE)).is_ok());
    one.flush();
    let (mut done, mut order) = (Vec::new(), Vec::new());
    while one.outstanding() + two.outstanding() > 0 {
        for channel in [&mut one, &mut two] {
            channel.poll(&mut done);
            order.extend(done.drain(..).map(|bio| (bio.token(), channel.now().0 / 1000)));
        }
        let next = [&one, &two].into_iter().filter_map(|channel| channel.next_wakeup()).min();
        next.into_iter().for_each(|at| one.clock().simulated().unwrap().advance_to(at));
    }
    assert_eq!(order, [(0, 900), (1, 1000), (2, 1100)]);
}

/// A bio in a channel's plug has not taken its place yet: no barrier waits for it.
#[test]
fn a_plugged_bio_has_no_place() {
    let (_, device) = array(CHUNK, &[1 << 20; 2]);
    let mut channel = device.channel(4).unwrap();
    assert!(channel.submit(write(0, 1, Flags::NONE)).is_ok());
    let other = device.clone();
    let barrier =
        spawn(move || other.write_at_with(&[2; 512], 0, IoOptions::flags(Flags::HARD_BARRIER)).is_ok());
    assert!(result(&barrier));
    let mut done = Vec::new();
    channel.wait(&mut done, None);
    let mut back = [0; 512];
    device.read_at(&mut back, 0).unwrap();
    assert_eq!(back, [1; 512]);
}

/// A lane that delays a barrier is dropped, and the barrier continues. A lane that waits for the barrier of a
/// dropped lane continues too.
#[test]
fn lanes_that_go_leave_nobody_waiting() {
    let read = Bio::read(0, vec![0; 512]).unwrap();
    // A write that the dropped channel has left may still reach the disk when the barrier ends.
    for (bio, expected) in [(read, None), (write(0, 0, Flags::NONE), Some(Kind::Unsettled))] {
        let (_, device) = unequal(false);
        let (mut one, mut two) = (device.channel(8).unwrap(), device.channel(8).unwrap());
        assert!(one.submit(bio).is_ok());
        one.flush();
        assert!(two.submit(write(1, 1, Flags::HARD_BARRIER)).is_ok());
        assert!(two.submit(write(1, 2, Flags::NONE)).is_ok());
        two.flush();
        drop(one);
        let mut done = Vec::new();
        while two.outstanding() > 0 {
            two.wait(&mut done, None);
        }
        let mut ends: Vec<_> =
            done.iter().map(|bio| (bio.token(), bio.status().err().map(|fault| fault.kind))).collect();
        ends.sort_by_key(|&(token, _)| token);
        assert_eq!(ends, [(1, expected), (2, None)]);
    }
    let (_, device) = unequal(false);
    let mut two = device.channel(8).unwrap();
    let mut three = device.channel(8).unwrap();
    assert!(three.submit(write(0, 0, Flags::NONE)).is_ok());
    three.flush();
    assert!(two.submit(write(1, 1, Flags::HARD_BARRIER)).is_ok());
    two.flush();
    assert!(three.submit(write(1, 5, Flags::NONE)).is_ok());
    three.flush();
    drop(two);
    assert_eq!(drive(&mut three).len(), 2);
}

/// Threads with their own barriers on a real clock: none hangs, and the data of the last barrier is there.
#[test]
fn barriers_of_many_threads_all_end() {
    let (_, device) = array(CHUNK, &[1 << 20; 3]);
    let workers: Vec<_> = (0..4u64)
        .map(|worker| {
            let device = device.clone();
            spawn(move || {
                for round in 0..100u64 {
                    let pos = (worker * 4 + round % 4) * CHUNK - if worker > 0 { 512 } else { 0 };
                    let flags = [Flags::NONE, Flags::HARD_BARRIER, Flags::FUA, Flags::SOFT_BARRIER];
                    let flags = IoOptions::flags(flags[(round % 4) as usize]);
                    device.write_at_with(&[worker as u8 + 1; 1024], pos, flags).unwrap();
                }
            })
        })
        .collect();
    workers.iter().for_each(result);
    let mut back = [0; 512];
    device.read_at(&mut back, 0).unwrap();
    assert_eq!(back, [1; 512]);
}
