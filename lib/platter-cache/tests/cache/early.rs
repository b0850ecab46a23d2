//! Reads that end before the engine was told, beside others that wait for the same page.

use crate::rig::{self, small};
use platter_block::bio::Bio;
use platter_block::disk::FnDisk;
use platter_block::driver::{Completion, Driver, Geometry, Started};
use platter_block::limits::Limits;
use platter_block::time::Time;
use platter_cache::Settings;
use platter_disk::device::Device;
use platter_disk::disk_backend::{DiskBackend, DiskSettings};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Whether the disk completes anything, and how many requests it has got.
#[derive(Clone, Default)]
pub(crate) struct Reins {
    pub(crate) let_go: Arc<AtomicBool>,
    queued: Arc<AtomicUsize>,
}

struct Held {
    reins: Reins,
    held: Vec<Completion>,
}

impl Driver for Held {
    fn queue(&mut self, _now: Time, request: &Started<'_>) -> bool {
        self.held.push(Completion { tag: request.tag, result: request.len as i64 });
        self.reins.queued.fetch_add(1, Ordering::SeqCst);
        true
    }

    fn submit(&mut self, _now: Time) {}

    fn reap(&mut self, _now: Time, done: &mut Vec<Completion>) {
        if self.reins.let_go.load(Ordering::SeqCst) {
            done.append(&mut self.held);
        }
    }
}

/// A cache over a disk that completes nothing until it is let go.
pub(crate) fn cache() -> (Device, Reins) {
    let reins = Reins::default();
    let driver = {
        let reins = reins.clone();
        move |_| Ok(Box::new(Held { reins: reins.clone(), held: Vec::new() }) as _)
    };
    let disk = FnDisk::new("held", Geometry::new(64 << 20, Limits::unlimited(512)), driver);
    let below = Arc::new(DiskBackend::new(disk, DiskSettings::default(), None).unwrap());
    (rig::cached(below, &Settings { window: 0, ..small(64) }), reins)
}

/// Begins a synchronous read of page 0, then another I/O of that page on a channel, which waits for it without ever
/// taking the lock by itself.
fn beside_a_read(other: Bio) {
    let (device, reins) = cache();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| device.read_at(&mut [0; 4096], 0));
        assert!(rig::until(|| reins.queued.load(Ordering::SeqCst) == 1), "the disk gets the read");
        let mut channel = device.channel(1).unwrap();
        assert!(channel.submit(other).is_ok());
        let mut done = Vec::new();
        channel.poll(&mut done);
        assert!(done.is_empty());
        reins.let_go.store(true, Ordering::SeqCst);
        assert!(rig::until(|| channel.poll(&mut done) > 0), "it ends with the read");
        assert_eq!(done[0].status(), Ok(()));
        reader.join().unwrap().unwrap();
    });
}

#[test]
fn a_read_of_the_same_page_ends_too() {
    beside_a_read(Bio::read(512, vec![0; 512]).unwrap());
}

#[test]
fn a_write_to_the_same_page_ends_too() {
    beside_a_read(Bio::write(512, vec![1; 512]).unwrap());
}

#[test]
fn a_write_of_zeroes_to_the_same_page_ends_too() {
    beside_a_read(Bio::write_zeroes(0, 4096));
}

/// Many more reads than there are frames: those that ended early hold none.
#[test]
fn frames_of_reads_that_ended_early_are_used_again() {
    let (device, reins) = cache();
    reins.let_go.store(true, Ordering::SeqCst);
    let mut buffer = [0; 16384];
    for at in 0..1000u64 {
        device.read_at(&mut buffer, at * 16384).unwrap();
    }
    let counters = device.cache_counters().unwrap();
    assert_eq!((counters.misses, counters.hits), (4000, 0));
}
