//! Futures of what is cached.

use crate::early;
use crate::rig::{self, small};
use platter_block::bio::Flags;
use platter_block::buf::IoBuf;
use platter_block::time::Span;
use platter_cache::Settings;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_disk::future::{Io, Outcome};
use platter_disk::sync_io::IoOptions;
use platter_sim::World;
use platter_sim::ideal::Ideal;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

const PAGE: u64 = 4096;

pub(crate) fn poll<B: IoBuf>(io: &mut Io<B>) -> Option<Outcome<B>> {
    match Pin::new(io).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => Some(outcome),
        Poll::Pending => None,
    }
}

/// A cache over a disk of 10 ms, which nothing runs but the test.
fn by_hand(shards: u32) -> (Arc<World>, Device) {
    let world = World::by_hand(1);
    let ideal = Ideal { size: 32 << 20, latency: Span::from_millis(10), depth: 32, write_cache: false };
    let (disk, _) = rig::disk(&world, ideal, None);
    let settings = Settings { shards, extent: PAGE, ..small(64 * u64::from(shards)) };
    let device = rig::cached(rig::backend(&disk, DiskSettings::default()), &settings);
    (world, device)
}

/// Lets time pass until an I/O ends.
fn finish<B: IoBuf>(world: &World, device: &Device, io: &mut Io<B>) -> Outcome<B> {
    loop {
        if let Some(outcome) = poll(io) {
            return outcome;
        }
        let at = device.run_background().expect("an I/O is under way");
        world.clock().advance_to(at.max(world.clock().now()));
    }
}

/// A read of cached data is over when it begins, but not if it was submitted behind a barrier that is not over.
fn check(shards: u32) {
    let (world, device) = by_hand(shards);
    let mut write = device.write(0, vec![7; 3 * PAGE as usize]);
    finish(&world, &device, &mut write).0.unwrap();
    let read = || device.read(PAGE, vec![0; 2 * PAGE as usize]);
    let (result, buffer) = poll(&mut read()).expect("it is cached");
    assert!(result.is_ok() && buffer.unwrap() == vec![7; 2 * PAGE as usize]);
    let options = IoOptions::flags(Flags::HARD_BARRIER);
    let mut barrier = device.write_with(PAGE, vec![8; PAGE as usize], options);
    let mut behind = read();
    assert!(poll(&mut behind).is_none(), "the barrier writes a page back, which takes 10 ms");
    assert!(poll(&mut barrier).is_none());
    let (result, buffer) = finish(&world, &device, &mut behind);
    result.unwrap();
    assert_eq!(buffer.unwrap()[..PAGE as usize], vec![8; PAGE as usize]);
    finish(&world, &device, &mut barrier).0.unwrap();
    assert!(poll(&mut read()).is_some());
    // A page of two is not there: nothing is counted twice.
    let hits = device.cache_counters().unwrap().hits;
    let mut part = device.read(2 * PAGE, vec![0; 2 * PAGE as usize]);
    assert!(poll(&mut part).is_none());
    let (result, buffer) = finish(&world, &device, &mut part);
    result.unwrap();
    assert_eq!(buffer.unwrap(), [vec![7; PAGE as usize], vec![0; PAGE as usize]].concat());
    assert_eq!(device.cache_counters().unwrap().hits, hits + 1);
}

/// In real time a barrier has its place when its future is made, though that has not been polled.
#[test]
fn a_future_behind_a_barrier_that_nothing_has_polled_waits() {
    let (device, reins) = early::cache();
    device.write_at(&[7; 2 * PAGE as usize], 0).unwrap();
    let read = || device.read(0, vec![0; 2 * PAGE as usize]);
    assert!(poll(&mut read()).is_some());
    let options = IoOptions::flags(Flags::HARD_BARRIER);
    let mut barrier = device.write_with(PAGE, vec![8; PAGE as usize], options);
    let mut behind = read();
    let waits = poll(&mut behind).is_none();
    // Closing the device would wait for the disk.
    reins.let_go.store(true, Ordering::SeqCst);
    assert!(waits, "the disk has not written page 0");
    let mut ended = None;
    assert!(rig::until(|| {
        ended = poll(&mut behind);
        ended.is_some()
    }));
    let (result, buffer) = ended.unwrap();
    result.unwrap();
    assert_eq!(buffer.unwrap(), [vec![7; PAGE as usize], vec![8; PAGE as usize]].concat());
    assert!(rig::until(|| poll(&mut barrier).is_some()));
}

#[test]
fn futures_of_cached_data_are_ready_at_once_but_not_behind_a_barrier() {
    check(1);
    check(4);
}
