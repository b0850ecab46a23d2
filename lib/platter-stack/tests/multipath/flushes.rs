//! A flush that fails has failed for the whole disk, whatever path the next one takes.

use crate::{Rig, away, item, rig, text};
use platter_block::backend::Backend;
use platter_block::bio::Bio;
use platter_block::fault::Kind;
use platter_block::status::Value;
use platter_block::time::Span;
use platter_disk::channel::Channel;
use platter_disk::device::Device;
use platter_scsi::disk::FaultPlan;
use std::sync::Arc;

pub(crate) fn layer(name: &str, params: &[(&str, i64)], below: Arc<dyn Backend>) -> Arc<dyn Backend> {
    platter_stack::by_name(name).unwrap().make(params, vec![below]).unwrap()
}

/// The device over both paths, of which one fails one flush. Its queue does not know that.
fn failing(rig: &Rig, number: usize) -> Device {
    let mut paths = rig.paths.clone();
    // `op=flush`.
    paths[number] = layer("error", &[("op", 3), ("errno", 5), ("times", 1)], Arc::clone(&rig.paths[number]));
    let params = [("check_interval", 500)];
    Device::new(platter_stack::by_name("multipath").unwrap().make(&params, paths).unwrap())
}

/// Each path has I/O, so that one that is gone is left.
pub(crate) fn look_around(device: &Device) {
    (0..4).for_each(|_| device.read_at(&mut [0; 512], 8192).unwrap());
}

pub(crate) fn flush_kind(device: &Device) -> Option<Kind> {
    device.flush().err().map(|error| error.fault.kind)
}

/// Flushes fail until the program has acknowledged that.
pub(crate) fn stays_failed(device: &Device) {
    for _ in 0..3 {
        assert_eq!(flush_kind(device), Some(Kind::FlushFailed));
    }
    device.acknowledge_flush_failure();
    assert_eq!(flush_kind(device), None);
}

#[test]
fn a_flush_that_failed_in_place_of_another_path_stays_failed_when_that_is_back() {
    let rig = rig(&[]);
    let device = failing(&rig, 1);
    device.write_at(&[1; 512], 0).unwrap();
    rig.ports[0].set_faults(away());
    look_around(&device);
    assert!(text(&device, "path a").starts_with("down"), "the write went another way");
    assert_eq!(flush_kind(&device), Some(Kind::Io));
    rig.ports[0].set_faults(FaultPlan::default());
    rig.world.clock().advance_to(rig.world.clock().now() + Span::from_secs(2));
    look_around(&device);
    assert_eq!(item(&device, "paths up"), Value::Number(2));
    stays_failed(&device);
}

#[test]
fn a_flush_that_failed_stays_failed_when_its_path_goes() {
    let rig = rig(&[]);
    let device = failing(&rig, 0);
    device.write_at(&[1; 512], 0).unwrap();
    assert_eq!(flush_kind(&device), Some(Kind::Io));
    rig.ports[0].set_faults(away());
    look_around(&device);
    assert!(text(&device, "path a").starts_with("down"));
    stays_failed(&device);
}

/// A device whose flushes take a millisecond, and whose first one fails, and a channel of it.
fn slow() -> (Rig, Device, Channel) {
    let rig = rig(&[]);
    let slow = |path: &Arc<dyn Backend>| layer("delay", &[("flush", 1000)], Arc::clone(path));
    let error = [("op", 3), ("errno", 5), ("times", 1)];
    let paths = vec![slow(&layer("error", &error, Arc::clone(&rig.paths[0]))), slow(&rig.paths[1])];
    let device = Device::new(platter_stack::by_name("multipath").unwrap().make(&[], paths).unwrap());
    device.write_at(&[1; 512], 0).unwrap();
    let channel = device.channel(8).unwrap();
    (rig, device, channel)
}

/// Submits one flush, and `more` of them while a path has that one. Returns how each ended, the first one first.
fn overlap(channel: &mut Channel, more: u64) -> Vec<Option<Kind>> {
    let mut done = Vec::new();
    for token in 0..=more {
        let mut bio = Bio::flush();
        bio.set_token(token);
        assert!(channel.submit(bio).is_ok());
        channel.poll(&mut done);
        assert!(done.is_empty());
    }
    while channel.outstanding() > 0 {
        channel.wait(&mut done, None);
    }
    done.sort_by_key(Bio::token);
    done.iter().map(|bio| bio.status().err().map(|fault| fault.kind)).collect()
}

#[test]
fn a_flush_does_not_succeed_while_another_one_fails() {
    let (_rig, device, mut channel) = slow();
    assert_eq!(overlap(&mut channel, 1), [Some(Kind::Io), Some(Kind::FlushFailed)]);
    stays_failed(&device);
}

/// Those that come while one is on its way need one more, together.
#[test]
fn flushes_that_wait_share_the_next_one() {
    let (_rig, device, mut channel) = slow();
    assert_eq!(flush_kind(&device), Some(Kind::Io));
    device.acknowledge_flush_failure();
    let before = device.counters().flushes;
    assert_eq!(overlap(&mut channel, 5), [None; 6]);
    assert_eq!(device.counters().flushes - before, 2);
}

/// The device over both paths. The first one answers flushes after a minute, and has failed the first one then.
fn silent(rig: &Rig) -> Device {
    let error = layer("error", &[("op", 3), ("errno", 5), ("times", 1)], Arc::clone(&rig.paths[0]));
    let first = layer("delay", &[("flush", 60_000_000)], error);
    let paths = vec![first, Arc::clone(&rig.paths[1])];
    let params = [("check_interval", 500)];
    let device = Device::new(platter_stack::by_name("multipath").unwrap().make(&params, paths).unwrap());
    device.write_at(&[1; 512], 0).unwrap();
    device
}

#[test]
fn a_flush_with_which_its_path_was_left_holds_no_other() {
    let rig = rig(&[]);
    let device = silent(&rig);
    let mut channel = device.channel(8).unwrap();
    let mut done = Vec::new();
    let began = rig.world.clock().now();
    for (token, deadline) in [(0, None), (1, Some(began + Span::from_secs(1)))] {
        let mut bio = Bio::flush();
        bio.set_token(token);
        bio.set_deadline(deadline);
        assert!(channel.submit(bio).is_ok());
        // The path has the first one before the second one comes.
        channel.poll(&mut done);
        assert!(done.is_empty());
    }
    let before = device.counters().flushes;
    rig.world.clock().advance_to(began + Span::from_secs(2));
    channel.poll(&mut done);
    rig.ports[0].set_faults(away());
    look_around(&device);
    assert!(text(&device, "path a").starts_with("down"), "{}", text(&device, "path a"));
    while channel.outstanding() > 0 {
        channel.wait(&mut done, None);
    }
    done.sort_by_key(Bio::token);
    let ends: Vec<_> = done.iter().map(|bio| bio.status().err().map(|fault| fault.kind)).collect();
    assert_eq!(ends, [None, Some(Kind::TimedOut)]);
    assert_eq!(device.counters().flushes - before, 1, "one was sent that nothing waited for");
    assert_eq!(flush_kind(&device), None);
    assert!(rig.world.clock().now().since(began) < Span::from_secs(10), "a flush waited for the path");
    // The first path tells now that the disk has failed its flush.
    rig.world.clock().advance_to(began + Span::from_secs(61));
    look_around(&device);
    assert!(text(&device, "path a").starts_with("down"));
    stays_failed(&device);
}
