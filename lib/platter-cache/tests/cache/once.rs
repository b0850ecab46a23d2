//! `Hint::NoReuse`: what a handle has read from the disk goes first, and what others use stays.

use crate::rig::{self, small};
use platter_block::hint::Hint;
use platter_disk::device::Device;
use platter_disk::handle::Handle;
use std::ops::Range;
use std::sync::Arc;

const PAGE: u64 = 4096;

/// A cache of 200 pages.
fn cached() -> Device {
    rig::cached(Arc::clone(Device::ram(64 << 20).unwrap().backend()), &small(200))
}

/// A handle without readahead.
fn random(device: &Device) -> Handle {
    let handle = device.handle();
    handle.advise(Hint::Random, 0, 0).unwrap();
    handle
}

fn read(handle: &Handle, pages: Range<u64>) {
    let mut data = vec![0; ((pages.end - pages.start) * PAGE) as usize];
    handle.read_at(&mut data, pages.start * PAGE).unwrap();
}

/// How many of these pages are not cached. They are read.
fn missing(device: &Device, pages: impl IntoIterator<Item = u64>) -> u64 {
    let handle = random(device);
    pages.into_iter().for_each(|page| read(&handle, page..page + 1));
    handle.counters().unwrap().misses
}

fn evicted(device: &Device) -> u64 {
    let facts = device.facts();
    facts.iter().find(|(key, _)| *key == "pages evicted").unwrap().1.parse().unwrap()
}

/// Reads other pages until some have been evicted.
fn evict(device: &Device, count: u64) {
    let (handle, before) = (random(device), evicted(device));
    let mut page = 8000;
    while evicted(device) < before + count {
        read(&handle, page..page + 1);
        page += 1;
    }
    assert_eq!(evicted(device), before + count);
}

/// Pages of others that a scan reads too are not its own.
#[test]
fn a_scan_that_needs_pages_once_leaves_those_of_others() {
    let device = cached();
    let (user, scan) = (random(&device), random(&device));
    let hot = || (0..50).map(|at| 2 * at + 1);
    hot().for_each(|page| read(&user, page..page + 1));
    scan.advise(Hint::NoReuse, 0, 0).unwrap();
    // Each read finds its second page cached.
    (0..25).for_each(|at| read(&scan, 2 * at..2 * at + 2));
    // And some end without the lock.
    (2000..2025).for_each(|page| read(&scan, page..page + 1));
    evict(&device, 50);
    assert_eq!(missing(&device, hot()), 0);
    assert_eq!(missing(&device, (0..25).map(|at| 2 * at).chain(2000..2025)), 50);
}

#[test]
fn pages_that_were_read_ahead_for_a_scan_go_when_it_has_used_them() {
    let device = cached();
    let (user, scan) = (random(&device), device.handle());
    (5000..5050).for_each(|page| read(&user, page..page + 1));
    scan.advise(Hint::NoReuse, 0, 0).unwrap();
    (0..40).for_each(|page| read(&scan, page..page + 1));
    assert!(scan.counters().unwrap().pages_used > 20);
    evict(&device, 40);
    assert_eq!(missing(&device, 5000..5050), 0);
    assert_eq!(missing(&device, 0..40), 40);
}

/// Pages that another handle has had read are not the scan's own, and it does not let pages go that it has written.
#[test]
fn pages_that_a_scan_has_written_or_others_have_read_ahead_stay() {
    let device = cached();
    let (user, scan) = (device.handle(), random(&device));
    user.advise(Hint::WillNeed, 0, 50 * PAGE).unwrap();
    scan.advise(Hint::NoReuse, 0, 0).unwrap();
    (0..50).for_each(|page| read(&scan, page..page + 1));
    (100..110).for_each(|page| scan.write_at(&[1; PAGE as usize], page * PAGE).unwrap());
    (100..110).for_each(|page| read(&scan, page..page + 1));
    device.flush().unwrap();
    (2000..2020).for_each(|page| read(&scan, page..page + 1));
    evict(&device, 20);
    assert_eq!(missing(&device, (0..50).chain(100..110)), 0);
    assert_eq!(missing(&device, 2000..2020), 20);
}
