//! Caches below other layers write back by themselves while the program makes no calls.

use crate::rig::small;
use platter_block::backend::Backend;
use platter_block::time::Span;
use platter_cache::{self as cache, Settings};
use platter_disk::device::Device;
use platter_stack::partition;
use platter_stack::raid0::{self, Sizes};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A cache over memory that writes back after 20 ms.
fn over(below: Arc<dyn Backend>) -> Arc<dyn Backend> {
    let (expire, interval) = (Span::from_millis(20), Span::from_millis(10));
    cache::new(below, &Settings { expire, interval, ..small(64) }).unwrap()
}

fn ram() -> Arc<dyn Backend> {
    Arc::clone(Device::ram(1 << 20).unwrap().backend())
}

/// Writes to a device, and then only waits until no page below is dirty.
fn comes_clean(device: &Device, what: &str) {
    device.write_at(&[1; 16384], 0).unwrap();
    let dirty = || device.facts().iter().any(|(key, value)| *key == "dirty pages" && value != "0");
    assert!(dirty(), "{what}");
    let since = Instant::now();
    while dirty() {
        assert!(since.elapsed() < Duration::from_secs(30), "{what} stays dirty");
        std::thread::yield_now();
    }
}

#[test]
fn what_is_dirty_is_written_although_nobody_calls() {
    let partition = partition::new(over(ram()), 4096, None).unwrap();
    let raid = raid0::new(vec![over(ram()), over(ram())], 4096, Sizes::default()).unwrap();
    comes_clean(&Device::new(over(ram())), "cache");
    comes_clean(&Device::new(partition), "partition(cache)");
    comes_clean(&Device::new(raid), "raid0(cache, cache)");
    comes_clean(&Device::new(over(over(ram()))), "cache(cache)");
}
