//! The driver of loads: when it polls, when time advances, when it stops.

use platter_bench::load::{Load, Pause, Stuck, Work};
use platter_block::bio::Bio;
use platter_block::time::{Span, Time};
use platter_disk::channel::Channel;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_sim::ideal::Ideal;
use platter_sim::{SimDisk, World};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const MS: u64 = 1_000_000;
const END: Time = Time(u64::MAX);

fn disk(world: &Arc<World>, latency: Span) -> SimDisk {
    let ideal = Ideal { size: 1 << 30, latency, depth: 4, write_cache: false };
    SimDisk::new(world, ideal.into(), None)
}

fn device(disk: &SimDisk) -> Device {
    Device::from_disk(disk.attach("ideal"), DiskSettings::default(), None).unwrap()
}

/// Reads one after the other on each of its channels, and writes down what happens.
struct Reads {
    channels: Vec<Channel>,
    left: u32,
    log: Vec<(u64, &'static str, u32)>,
}

impl Reads {
    fn new(devices: &[Device], left: u32) -> Reads {
        let channels = devices.iter().map(|device| device.channel(4).unwrap()).collect();
        Reads { channels, left, log: Vec::new() }
    }

    fn start(&mut self, port: u32) {
        if let Some(left) = self.left.checked_sub(1) {
            self.left = left;
            self.channels[port as usize].submit(Bio::read(0, vec![0u8; 512]).unwrap()).unwrap();
        }
    }

    fn begin(&mut self, load: &mut Load) {
        for port in 0..self.channels.len() as u32 {
            self.start(port);
            load.settle(self, port).unwrap();
        }
    }
}

impl Work for Reads {
    type Error = Stuck;

    fn channels(&mut self, port: u32) -> impl Iterator<Item = &mut Channel> {
        self.channels.get_mut(port as usize).into_iter()
    }

    fn completed(&mut self, load: &mut Load, port: u32, done: &mut Vec<Bio>) -> Result<(), Stuck> {
        for bio in done.drain(..) {
            assert!(bio.status().is_ok());
            self.log.push((load.now().0, "done", port));
            self.start(port);
        }
        Ok(())
    }

    fn expired(&mut self, load: &mut Load, timer: u32) -> Result<u32, Stuck> {
        self.log.push((load.now().0, "timer", timer));
        self.start(0);
        Ok(0)
    }

    fn is_over(&self) -> bool {
        self.left == 0 && self.channels.iter().all(|channel| channel.outstanding() == 0)
    }
}

#[test]
fn time_advances_from_event_to_event_of_all_ports() {
    let world = World::new(1);
    let devices = [device(&disk(&world, Span(2 * MS))), device(&disk(&world, Span(3 * MS)))];
    let mut reads = Reads::new(&devices, 5);
    let mut load = Load::new(devices[0].clock(), 2, 0);
    reads.begin(&mut load);
    assert_eq!(load.run(&mut reads, END), Ok(Pause::Over));
    let expected = [(2, 0), (3, 1), (4, 0), (6, 0), (6, 1)];
    assert_eq!(reads.log, expected.map(|(ms, port)| (ms * MS, "done", port)));
    assert_eq!((load.now(), world.clock().now()), (Time(6 * MS), Time(6 * MS)));
}

#[test]
fn timers_come_before_completions_of_the_same_time_and_can_be_cleared() {
    let world = World::new(1);
    let devices = [device(&disk(&world, Span(MS)))];
    let mut reads = Reads::new(&devices, 2);
    let mut load = Load::new(devices[0].clock(), 1, 3);
    load.set_timer(0, Some(Time(0)));
    load.set_timer(1, Some(Time(MS)));
    load.set_timer(2, Some(Time(MS / 2)));
    load.set_timer(2, None);
    assert_eq!(load.run(&mut reads, END), Ok(Pause::Over));
    assert_eq!(reads.log, [(0, "timer", 0), (MS, "timer", 1), (MS, "done", 0), (2 * MS, "done", 0)]);
}

#[test]
fn events_at_the_end_of_a_run_belong_to_the_next_one() {
    let world = World::new(1);
    let devices = [device(&disk(&world, Span(MS)))];
    let mut reads = Reads::new(&devices, 2);
    let mut load = Load::new(devices[0].clock(), 1, 0);
    reads.begin(&mut load);
    assert_eq!(load.run(&mut reads, Time(MS)), Ok(Pause::Until));
    assert_eq!((load.now(), reads.log.len()), (Time(MS), 0));
    assert_eq!(load.run(&mut reads, END), Ok(Pause::Over));
    assert_eq!((load.now(), reads.log.len()), (Time(2 * MS), 2));
}

/// A disk without latency is not polled a little later, but at the same time.
#[test]
fn what_completes_at_once_takes_no_time() {
    let world = World::new(1);
    let devices = [device(&disk(&world, Span::ZERO))];
    let mut reads = Reads::new(&devices, 100);
    let mut load = Load::new(devices[0].clock(), 1, 0);
    reads.begin(&mut load);
    assert_eq!(load.run(&mut reads, END), Ok(Pause::Over));
    assert_eq!((load.now(), reads.log.len()), (Time(0), 100));
}

#[test]
fn work_that_waits_for_nothing_is_stuck() {
    let world = World::new(1);
    let devices = [device(&disk(&world, Span(MS)))];
    let mut reads = Reads::new(&devices, 1);
    // Nothing has been submitted.
    let mut load = Load::new(devices[0].clock(), 1, 0);
    assert_eq!(load.run(&mut reads, END), Err(Stuck { ios: 0 }));
    assert!(Stuck { ios: 7 }.to_string().starts_with("7 I/Os are in flight"));
}

#[test]
fn a_run_can_be_cancelled_and_continued() {
    let world = World::new(1);
    let devices = [device(&disk(&world, Span(MS)))];
    let mut reads = Reads::new(&devices, 2000);
    let mut load = Load::new(devices[0].clock(), 1, 0);
    reads.begin(&mut load);
    assert_eq!(load.run_unless(&mut reads, END, &AtomicBool::new(true)), Ok(true));
    assert_eq!(load.run(&mut reads, END), Ok(Pause::Events));
    assert_eq!(load.run_unless(&mut reads, END, &AtomicBool::new(false)), Ok(false));
    assert_eq!((load.now(), reads.log.len()), (Time(2000 * MS), 2000));
}

#[test]
fn real_time_passes_by_itself() {
    let device = Device::ram(1 << 20).unwrap();
    let mut reads = Reads::new(std::slice::from_ref(&device), 5);
    let mut load = Load::new(device.clock(), 1, 1);
    load.set_timer(0, Some(load.now() + Span(MS)));
    reads.left = 2;
    reads.begin(&mut load);
    reads.left += 3;
    assert_eq!(load.run_unless(&mut reads, END, &AtomicBool::new(false)), Ok(false));
    assert_eq!(reads.log.iter().filter(|(_, what, _)| *what == "done").count(), 5);
}
