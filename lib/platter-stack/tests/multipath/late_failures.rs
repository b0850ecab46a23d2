//! Failures of flushes that become known after the flush has ended, or without one of the program.

use crate::flushes::{flush_kind, layer, look_around, stays_failed};
use crate::{disk, rig, text};
use platter_block::backend::{Backend, Identity, LaneUse};
use platter_block::bio::{Bio, Flags, Op};
use platter_block::disk::{Disk, DiskChannel};
use platter_block::driver::{Completion, Driver, Geometry, Started};
use platter_block::fault::{Error, Kind};
use platter_block::queue::Settings;
use platter_block::time::{Span, Time, VirtualClock};
use platter_disk::device::Device;
use platter_disk::disk_backend::{DiskBackend, DiskSettings};
use platter_disk::sync_io::IoOptions;
use platter_sim::fault::{BadSectors, Blow, FaultPlan, Lands, Strike};
use platter_sim::{Attached, SimDisk, World};
use std::sync::Arc;

/// A simulated disk that is the same one through each of its queues, and that makes writes durable only by flushes. `true`: its
/// errors are those of commands that took too long.
struct Plain(Attached, bool);

impl Disk for Plain {
    fn name(&self) -> Arc<str> {
        self.0.name()
    }

    fn geometry(&self) -> Geometry {
        let geometry = self.0.geometry();
        geometry.with_features(geometry.features.with_fua(false))
    }

    fn open_channel(&self, lane_use: LaneUse) -> Result<DiskChannel, Error> {
        let channel = self.0.open_channel(lane_use)?;
        if !self.1 {
            return Ok(channel);
        }
        // SAFETY: it reports a request only after the channel has.
        Ok(DiskChannel::new(Slow(unsafe { channel.into_driver() })))
    }

    fn depth(&self) -> Option<u32> {
        self.0.depth()
    }

    fn clock(&self) -> Option<Arc<VirtualClock>> {
        self.0.clock()
    }

    fn identity(&self) -> Option<Identity> {
        Some(Identity::Process(1))
    }
}

/// A driver that reports errors as those of commands that took too long.
struct Slow(Box<dyn Driver>);

impl Driver for Slow {
    fn queue(&mut self, now: Time, request: &Started<'_>) -> bool {
        self.0.queue(now, request)
    }

    fn submit(&mut self, now: Time) {
        self.0.submit(now);
    }

    fn reap(&mut self, now: Time, done: &mut Vec<Completion>) {
        let before = done.len();
        self.0.reap(now, done);
        let failed = done[before..].iter_mut().filter(|completion| completion.result < 0);
        failed.for_each(|completion| completion.result = -110);
    }

    fn next_event(&self) -> Option<Time> {
        self.0.next_event()
    }

    fn wait(&mut self, now: Time, timeout: Option<Span>) {
        self.0.wait(now, timeout);
    }
}

fn simulated() -> (Arc<World>, SimDisk) {
    let world = World::new(9);
    let sim = disk(&world);
    (world, sim)
}

/// A path to the disk: a queue of its own, with this timeout of all that it has.
fn queue(sim: &SimDisk, timeout: Option<Span>) -> Arc<dyn Backend> {
    queue_of(Plain(sim.attach("sim"), false), timeout)
}

fn queue_of(disk: Plain, timeout: Option<Span>) -> Arc<dyn Backend> {
    let settings = DiskSettings::default().with_queue(Settings {
        timeout,
        slow_timeout: timeout,
        ..Settings::default()
    });
    Arc::new(DiskBackend::new(disk, settings, None).unwrap())
}

fn over(paths: Vec<Arc<dyn Backend>>) -> Device {
    let params = [("check_interval", 10_000)];
    Device::new(platter_stack::by_name("multipath").unwrap().make(&params, paths).unwrap())
}

/// The next flush that the disk gets has this fault.
fn strike(sim: &SimDisk, blow: Blow) {
    sim.strike(Strike { op: Some(Op::Flush), blow });
}

/// The device over two paths, of which the first one is failed after two seconds without an answer. The disk fails the first
/// flush that it gets, after this time.
fn late(answer: Span) -> (Arc<World>, SimDisk, Device) {
    let (world, sim) = simulated();
    sim.set_faults(Some(FaultPlan { abort_chance: 0, flush_error_nth: Some(0), ..FaultPlan::default() }));
    strike(&sim, Blow::Stuck(answer, Lands::Late));
    let device = over(vec![queue(&sim, Some(Span::from_secs(1))), queue(&sim, None)]);
    (world, sim, device)
}

/// Time passes, and the paths are run.
fn pass(world: &World, device: &Device, span: Span) {
    world.clock().advance_to(world.clock().now() + span);
    look_around(device);
}

/// Flushes the device, and reads until the first path is found to be failed. Returns how the flush ends.
fn flush_until_left(world: &World, device: &Device) -> Option<Kind> {
    let (mut channel, mut done) = (device.channel(1).unwrap(), Vec::new());
    channel.submit(Bio::flush()).unwrap();
    channel.poll(&mut done);
    pass(world, device, Span::from_millis(1500));
    pass(world, device, Span::from_millis(1000));
    assert!(text(device, "path a").starts_with("down (the device is gone)"), "{}", text(device, "path a"));
    while done.is_empty() {
        channel.wait(&mut done, None);
    }
    done[0].status().err().map(|fault| fault.kind)
}

/// Whether the failure is known before the program acknowledges another one, or after that.
#[test]
fn a_flush_with_which_its_path_was_left_outlives_the_acknowledgement_of_another_one() {
    for is_known in [true, false] {
        let (world, sim, device) = late(Span::from_secs(60));
        device.write_at(&[1; 512], 0).unwrap();
        assert_eq!(flush_until_left(&world, &device), None, "the second path has not flushed the disk");
        device.write_at(&[2; 512], 512).unwrap();
        strike(&sim, Blow::Error);
        assert_eq!(flush_kind(&device), Some(Kind::Io));
        if is_known {
            pass(&world, &device, Span::from_secs(61));
            device.acknowledge_flush_failure();
        } else {
            device.acknowledge_flush_failure();
            pass(&world, &device, Span::from_secs(61));
        }
        stays_failed(&device);
    }
}

/// The first path is told of the failure while the second one flushes the disk in its place.
#[test]
fn a_flush_in_place_of_another_one_does_not_hide_its_failure() {
    let (world, sim, device) = late(Span::from_secs(3));
    strike(&sim, Blow::Spike(Span::from_secs(5)));
    device.write_at(&[1; 512], 0).unwrap();
    assert_eq!(flush_until_left(&world, &device), Some(Kind::FlushFailed));
    stays_failed(&device);
}

/// The program is told only that its flush was too late.
#[test]
fn a_late_flush_that_the_disk_failed_outlives_an_acknowledgement() {
    let rig = rig(&[]);
    let error = layer("error", &[("op", 3), ("errno", 5), ("times", 1)], Arc::clone(&rig.paths[0]));
    let first = layer("delay", &[("flush", 10_000_000)], error);
    let device = over(vec![first, Arc::clone(&rig.paths[1])]);
    device.write_at(&[1; 512], 0).unwrap();
    let mut channel = device.channel(8).unwrap();
    let mut flush = Bio::flush();
    flush.set_deadline(Some(rig.world.clock().now() + Span::from_secs(1)));
    assert!(channel.submit(flush).is_ok());
    let mut done = Vec::new();
    while channel.outstanding() > 0 {
        channel.wait(&mut done, None);
    }
    assert_eq!(done[0].status().map_err(|fault| fault.kind), Err(Kind::TimedOut));
    pass(&rig.world, &device, Span::from_secs(10));
    device.acknowledge_flush_failure();
    stays_failed(&device);
}

fn write_durably(device: &Device) -> Option<Kind> {
    let written = device.write_at_with(&[1; 512], 0, IoOptions::flags(Flags::FUA));
    written.err().map(|error| error.fault.kind)
}

/// The first path fails the flush behind a durable write, which the second one carries out then. Then the first path goes.
#[test]
fn a_flush_behind_a_durable_write_that_failed_stays_failed_when_its_path_goes() {
    let (_world, sim) = simulated();
    // `op=read`, where `look_around` reads.
    let gone = [("op", 1), ("errno", 19), ("offset", 8192), ("length", 512)];
    let device = over(vec![layer("error", &gone, queue(&sim, None)), queue(&sim, None)]);
    strike(&sim, Blow::Error);
    assert_eq!(write_durably(&device), None);
    assert_eq!(sim.injected().flush_errors, 1, "the write had no flush");
    look_around(&device);
    assert!(text(&device, "path a").starts_with("down"), "{}", text(&device, "path a"));
    stays_failed(&device);
}

/// A durable write whose own data could not be written has lost nothing that was written before.
#[test]
fn a_durable_write_to_a_bad_sector_is_no_failed_flush() {
    let (_world, sim) = simulated();
    let bad = vec![BadSectors { sectors: 0..1, reads: false, writes: true }];
    sim.set_faults(Some(FaultPlan { bad, ..FaultPlan::default() }));
    let device = over(vec![queue(&sim, None), queue(&sim, None)]);
    device.write_at(&[1; 512], 512).unwrap();
    assert_eq!(write_durably(&device), Some(Kind::Io));
    assert_eq!(flush_kind(&device), None);
}

/// The queue of the path keeps that in mind, and only an acknowledgement ends it.
#[test]
fn a_flush_that_the_disk_took_too_long_for_is_acknowledged() {
    let (_world, sim) = simulated();
    let device = over(vec![queue_of(Plain(sim.attach("sim"), true), None)]);
    device.write_at(&[1; 512], 0).unwrap();
    strike(&sim, Blow::Error);
    assert!(flush_kind(&device).is_some());
    assert_eq!(flush_kind(&device), Some(Kind::FlushFailed));
    device.acknowledge_flush_failure();
    assert_eq!(flush_kind(&device), None);
}
