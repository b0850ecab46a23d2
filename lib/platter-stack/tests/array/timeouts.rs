//! A member that does not answer in time: the program's bio ends, and its memory stays with the part that the disk still has.

#![allow(unsafe_code)]

use crate::rig::{CHUNK, backends, simulated};
use platter_block::bio::{Bio, Flags};
use platter_block::buf::{IoBuf, add_memory};
use platter_block::fault::{Fault, Kind};
use platter_block::segment::RegionId;
use platter_block::time::{Span, Time};
use platter_disk::channel::Channel;
use platter_disk::device::Device;
use platter_sim::World;
use platter_stack::raid0::{self, Sizes};
use std::sync::{Arc, Weak};

/// A buffer that shows whether it still exists.
struct Watched(Box<[u8]>, #[expect(dead_code, reason = "only there to be dropped")] Arc<()>);

// SAFETY: memory on the heap, owned, which does not move with the handle.
unsafe impl IoBuf for Watched {
    fn byte_len(&self) -> usize {
        self.0.len()
    }

    unsafe fn add_segments(&mut self, bio: &mut Bio) -> Result<(), Fault> {
        // SAFETY: the buffer goes into the bio next to the segments.
        unsafe { add_memory(bio, self.0.as_mut_ptr(), self.0.len(), RegionId::NONE) }
    }
}

fn write(len: u64) -> (Bio, Weak<()>) {
    let life = Arc::new(());
    let watch = Arc::downgrade(&life);
    let mut bio = Bio::write(0, Watched(vec![1; len as usize].into(), life)).unwrap();
    bio.set_token(5);
    (bio, watch)
}

fn at(time: u64) -> Option<Time> {
    Some(Time(time))
}

#[test]
fn memory_stays_until_the_slow_member_has_given_it_back() {
    // Without an elevator each lane has a queue of its own; with one, all lanes of a disk share one.
    for elevator in ["none", "deadline"] {
        let world = World::new(1);
        let disks = [100, 9000].map(|us| simulated(&world, Span::from_micros(us), false));
        let inner = raid0::new(backends(&disks), 4096, Sizes::Zones).unwrap();
        let quick = simulated(&world, Span::from_micros(100), false);
        let members = vec![inner, quick.backend().clone()];
        let device = Device::new(raid0::new(members, CHUNK, Sizes::Zones).unwrap());
        device.set_elevator(elevator).unwrap();
        let mut channel = device.channel(4).unwrap();
        let (mut bio, watch) = write(2 * CHUNK);
        bio.set_deadline(at(1_000_000));
        assert!(channel.submit(bio).is_ok());
        let mut done = Vec::new();
        channel.wait(&mut done, None);
        let mut bio = done.pop().unwrap();
        assert_eq!((bio.status().unwrap_err().kind, bio.token()), (Kind::TimedOut, 5));
        assert!(world.clock().now() < Time(2_000_000) && watch.upgrade().is_some());
        assert!(bio.take_buffer::<Watched>().is_none());
        drop(bio);
        assert!(watch.upgrade().is_some(), "the disk still has it");
        world.clock().advance_to(Time(10_000_000));
        channel.poll(&mut done);
        assert!(done.is_empty() && watch.upgrade().is_none(), "{elevator}: no bio completes twice");
        // The array goes on.
        let (bio, _watch) = write(4096);
        assert!(channel.submit(bio).is_ok());
        channel.wait(&mut done, None);
        assert_eq!(done[0].status(), Ok(()));
    }
}

/// Members without a volatile cache have nothing to flush, but a late write there may still change the array.
#[test]
fn a_flush_of_the_array_fails_while_a_write_of_a_member_is_late() {
    let world = World::new(1);
    let disks = [9000, 100].map(|us| simulated(&world, Span::from_micros(us), false));
    let device = Device::new(raid0::new(backends(&disks), CHUNK, Sizes::Zones).unwrap());
    let mut channel = device.channel(4).unwrap();
    let end = |channel: &mut Channel, bio: Bio| {
        let mut done = Vec::new();
        assert!(channel.submit(bio).is_ok());
        channel.wait(&mut done, None);
        done.pop().unwrap().status().err().map(|fault| fault.kind)
    };
    let on_second = |flags: Flags| {
        let mut bio = Bio::write(CHUNK, vec![2; 4096]).unwrap();
        bio.add_flags(flags);
        bio
    };
    let mut late = Bio::write(0, vec![1; 4096]).unwrap();
    late.set_deadline(at(1_000_000));
    assert_eq!(end(&mut channel, late), Some(Kind::TimedOut));
    for bio in [Bio::flush(), on_second(Flags::PREFLUSH), on_second(Flags::HARD_BARRIER)] {
        assert_eq!(end(&mut channel, bio), Some(Kind::Unsettled));
    }
    assert_eq!(end(&mut channel, on_second(Flags::NONE)), None);
    world.clock().advance_to(Time(20_000_000));
    channel.poll(&mut Vec::new());
    for bio in [Bio::flush(), on_second(Flags::HARD_BARRIER)] {
        assert_eq!(end(&mut channel, bio), None);
    }
}

/// Everything is dropped while a part is with the disk.
#[test]
fn a_dropped_channel_frees_each_buffer_once() {
    let world = World::new(1);
    let disks = [100, 9000].map(|us| simulated(&world, Span::from_micros(us), false));
    for elevator in ["none", "deadline"] {
        let device = Device::new(raid0::new(backends(&disks), CHUNK, Sizes::Zones).unwrap());
        device.set_elevator(elevator).unwrap();
        let mut channel = device.channel(4).unwrap();
        let (bio, watch) = write(2 * CHUNK);
        assert!(channel.submit(bio).is_ok());
        channel.flush();
        assert!(watch.upgrade().is_some());
        drop(channel);
        // In the shared queue of an elevator the part continues only when a lane runs that queue.
        world.clock().advance_to(world.clock().now() + Span::from_millis(20));
        device.read_at(&mut vec![0; 2 * CHUNK as usize], 0).unwrap();
        assert!(watch.upgrade().is_none(), "{elevator}");
    }
}
