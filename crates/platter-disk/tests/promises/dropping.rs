//! Handles that go while I/O is in flight.

use crate::held::{Buffer, Disk, Freed};
use platter_block::bio::Bio;
use platter_disk::device::Device;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls until it is ready; the disk has let go, so it soon is.
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
        // The next use of the device finds the completion.
        let (result, buffer) = finish(device.read(8192, vec![0u8; 512]));
        assert!(result.is_ok());
        assert_eq!(buffer, Some(vec![7; 512]));
        assert_eq!(freed.count(), 1);
        drop(device);
        assert_eq!(freed.count(), 1);
    });
}

#[test]
fn a_device_that_goes_waits_for_its_disk() {
    with_both_kinds_of_queue(|disk, device| {
        let freed = Freed::default();
        let mut io = device.write(0, freed.buffer());
        assert!(poll_once(&mut io).is_pending());
        drop(device);
        assert_eq!((disk.held(), freed.count()), (1, 0), "the future keeps the device");
        drop(io);
        assert_eq!((disk.held(), freed.count()), (0, 1));
    });
}

#[test]
fn a_channel_that_goes_frees_each_buffer_once() {
    with_both_kinds_of_queue(|disk, device| {
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
