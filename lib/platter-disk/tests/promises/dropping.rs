//! Handles that are dropped while I/O is in flight.

use crate::held::{Buffer, Disk, Freed};
use platter_block::bio::{Bio, Flags};
use platter_disk::device::Device;
use platter_disk::open::DiskOptions;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls until it is ready, which happens soon, because the disk has released its requests.
fn finish<F: Future + Unpin>(mut future: F) -> F::Output {
    loop {
        if let Poll::Ready(output) = poll_once(&mut future) {
            return output;
        }
    }
}

fn with_both_kinds_of_queue(test: impl Fn(&Disk, Device)) {
    for elevator in ["none", "deadline"] {
        let disk = Disk::default();
        test(&disk, disk.device(elevator));
    }
}

#[test]
fn a_dropped_future_leaves_its_buffer_until_the_disk_is_done() {
    with_both_kinds_of_queue(|disk, device| {
        let freed = Freed::default();
        let mut io = device.read(0, freed.buffer());
        assert!(poll_once(&mut io).is_pending());
        assert_eq!(disk.held(), 1);
        drop(io);
        assert_eq!(freed.count(), 0, "the disk may still write to it");
        disk.let_go();
        let (result, buffer) = finish(device.read(8192, vec![0u8; 512]));
        assert!(result.is_ok());
        assert_eq!(buffer, Some(vec![7; 512]));
        // The service thread may be about to free it.
        freed.wait_for(1);
        drop(device);
        assert_eq!(freed.count(), 1);
    });
}

#[test]
fn a_barrier_orders_others_when_its_future_is_dropped() {
    with_both_kinds_of_queue(|disk, device| {
        let mut before = device.read(0, vec![0u8; 512]);
        assert!(poll_once(&mut before).is_pending());
        let mut bio = Bio::read(4096, vec![0u8; 512]).expect("fits");
        bio.add_flags(Flags::HARD_BARRIER);
        let mut barrier = device.submit::<Vec<u8>>(bio);
        assert!(poll_once(&mut barrier).is_pending());
        let mut behind = device.read(8192, vec![0u8; 512]);
        assert!(poll_once(&mut behind).is_pending());
        drop(barrier);
        assert!(poll_once(&mut behind).is_pending());
        assert_eq!(disk.held(), 1, "what is behind the barrier waits");
        disk.let_go();
        assert!(finish(before).0.is_ok() && finish(behind).0.is_ok());
    });
}

#[test]
fn a_device_that_goes_waits_for_its_disk() {
    with_both_kinds_of_queue(|disk, device| {
        disk.let_go_when_waited_for();
        let freed = Freed::default();
        let mut io = device.write(0, freed.buffer());
        assert!(poll_once(&mut io).is_pending());
        drop(device);
        assert_eq!((disk.held(), freed.count()), (1, 0), "the future keeps the device");
        drop(io);
        assert_eq!((disk.held(), freed.count()), (0, 1));
    });
}

/// The write waits in a queue when the device is closed: the disk takes one request at a time, and has one.
#[test]
fn the_write_of_a_dropped_future_is_carried_out_although_the_device_goes() {
    let disk = Disk::default();
    let device = disk.serial_device();
    disk.let_go_when_waited_for();
    let freed = Freed::default();
    let mut first = device.write(0, freed.buffer());
    assert!(poll_once(&mut first).is_pending());
    let mut second = device.write(8192, freed.buffer());
    assert!(poll_once(&mut second).is_pending());
    drop((first, second));
    assert_eq!(disk.writes(), 1);
    drop(device);
    assert_eq!((disk.writes(), disk.held()), (2, 0));
    freed.wait_for(2);
}

#[test]
fn a_channel_that_goes_frees_each_buffer_once() {
    with_both_kinds_of_queue(|disk, device| {
        disk.let_go_when_waited_for();
        let freed = Freed::default();
        let mut channel = device.channel(8).expect("a channel");
        for i in 0..4 {
            channel.submit(Bio::read(i * 65536, freed.buffer()).expect("fits")).expect("room");
        }
        channel.poll(&mut Vec::new());
        assert_eq!(disk.held(), 4);
        drop(channel);
        drop(device);
        assert_eq!((disk.held(), freed.count()), (0, 4));
    });
}

/// A disk that does not answer delays a drop only for a limited time. The buffers are freed, once each, when the disk
/// has released them.
#[test]
fn handles_on_a_disk_that_does_not_answer_can_be_dropped() {
    with_both_kinds_of_queue(|disk, device| {
        let freed = Freed::default();
        let mut channel = device.channel(8).expect("a channel");
        for i in 0..4 {
            channel.submit(Bio::write(i * 65536, freed.buffer()).expect("fits")).expect("room");
        }
        channel.poll(&mut Vec::new());
        let mut io = device.write(1 << 20, freed.buffer());
        assert!(poll_once(&mut io).is_pending());
        drop((channel, io, device));
        assert_eq!((disk.held(), freed.count()), (5, 0), "the disk still has them");
        disk.let_go();
        freed.wait_for(5);
        assert_eq!(freed.count(), 5);
    });
}

#[test]
fn what_a_dropped_channel_had_out_comes_to_no_other() {
    with_both_kinds_of_queue(|disk, device| {
        let freed = Freed::default();
        let mut first = device.channel(8).expect("a channel");
        for i in 0..4 {
            let mut bio = Bio::read(i * 65536, freed.buffer()).expect("fits");
            bio.set_token(i);
            first.submit(bio).expect("room");
        }
        first.poll(&mut Vec::new());
        drop(first);
        let mut second = device.channel(8).expect("a channel");
        let mut bio = Bio::read(1 << 20, vec![0u8; 512]).expect("fits");
        bio.set_token(100);
        second.submit(bio).expect("room");
        disk.let_go();
        let mut done = Vec::new();
        while second.outstanding() > 0 {
            second.wait(&mut done, None);
        }
        assert_eq!(done.iter().map(Bio::token).collect::<Vec<_>>(), [100]);
        freed.wait_for(4);
    });
}

#[test]
fn a_barrier_of_a_dropped_channel_does_not_stay_closed() {
    with_both_kinds_of_queue(|disk, device| {
        let freed = Freed::default();
        let mut first = device.channel(8).expect("a channel");
        let mut barrier = Bio::write(0, freed.buffer()).expect("fits");
        barrier.add_flags(Flags::HARD_BARRIER);
        first.submit(barrier).expect("room");
        first.submit(Bio::write(65536, freed.buffer()).expect("fits")).expect("room");
        first.poll(&mut Vec::new());
        drop(first);
        disk.let_go();
        device.write_at(&[1; 512], 0).expect("nothing is in the way");
        drop(device);
        assert_eq!(freed.count(), 2);
    });
}

#[test]
fn a_file_can_be_opened_again_as_soon_as_its_device_is_gone() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("disk");
    for _ in 0..50 {
        let mut options = DiskOptions::read_write();
        options.open.create = Some(1 << 20);
        let device = Device::open(&path, options).expect("the disk is free");
        let mut reads: Vec<_> = (0..8).map(|i| device.read(i * 4096, vec![0u8; 4096])).collect();
        reads.iter_mut().for_each(|read| drop(poll_once(read)));
        drop(device);
        drop(reads);
    }
}

#[test]
fn a_buffer_comes_back_with_its_result() {
    with_both_kinds_of_queue(|disk, device| {
        disk.let_go();
        let freed = Freed::default();
        let (result, buffer): (_, Option<Buffer>) = finish(device.read(0, freed.buffer()));
        assert!(result.is_ok());
        let buffer = buffer.expect("it comes back");
        assert_eq!((buffer.bytes[0], freed.count()), (7, 0));
    });
}
