//! Many I/Os at once: none starves, and no work is done twice or without result.

use crate::flood::reads_beside_write_back;
use crate::rig::{self, small};
use platter_block::bio::Bio;
use platter_block::time::{Span, Time};
use platter_cache::Settings;
use platter_disk::channel::Channel;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_sim::World;
use platter_sim::ideal::Ideal;
use platter_sim::rng::Rng;
use std::sync::Arc;

const MIB: u64 = 1 << 20;

/// A disk of 256 MiB that takes 100 µs for each of up to `depth` commands at a time, and a cache over it.
fn over(depth: u32, settings: &Settings) -> (Arc<World>, Device) {
    let ideal = Ideal { size: 256 * MIB, latency: Span::from_micros(100), depth, write_cache: false };
    let world = World::new(1);
    let (disk, _) = rig::disk(&world, ideal, None);
    let mut disk_settings = DiskSettings::default();
    disk_settings.queue.depth = depth;
    (world, rig::cached(rig::backend(&disk, disk_settings), settings))
}

fn fact(device: &Device, name: &str) -> u64 {
    let facts = device.facts();
    facts.iter().find(|(key, _)| *key == name).map_or(0, |(_, value)| value.parse().unwrap())
}

/// Advances the clock to the time that the channels wait for.
fn pass<'a>(world: &World, channels: impl Iterator<Item = &'a Channel>) {
    let next = channels.filter_map(Channel::next_wakeup).min();
    next.into_iter().for_each(|at| world.clock().advance_to(at));
}

/// Many reads of random pages in the upper half of the disk.
struct Crowd {
    channel: Channel,
    rng: Rng,
    out: usize,
    done: Vec<Bio>,
}

impl Crowd {
    fn new(device: &Device, out: usize) -> Crowd {
        Crowd { channel: device.channel(out.max(1)).unwrap(), rng: Rng::new(7), out, done: Vec::new() }
    }

    fn poll(&mut self) {
        while self.channel.outstanding() < self.out {
            let pos = 128 * MIB + self.rng.below(32_768) * 4096;
            assert!(self.channel.submit(Bio::read(pos, vec![0u8; 4096]).unwrap()).is_ok());
        }
        self.channel.poll(&mut self.done);
        self.done.clear();
    }
}

/// However many reads are in flight, dirty pages are written on time.
#[test]
fn readers_do_not_keep_dirty_pages_from_the_disk() {
    for out in [500, 1100, 2000] {
        let (expire, interval) = (Span::from_secs(1), Span::from_millis(100));
        let settings = Settings { size: 32 * MIB, window: 0, expire, interval, gather: 0, ..small(0) };
        let (world, device) = over(32, &settings);
        (0..64u64).for_each(|page| device.write_at(&[1; 4096], page * 8192).unwrap());
        let mut crowd = Crowd::new(&device, out);
        while world.clock().now() < Time(3_000_000_000) && fact(&device, "pages written back") < 64 {
            crowd.poll();
            pass(&world, [&crowd.channel].into_iter());
        }
        assert_eq!(fact(&device, "pages written back"), 64, "{out} reads");
        assert!(world.clock().now() < Time(1_500_000_000), "{out} reads: at {:?}", world.clock().now());
    }
}

/// Reads do not block writers that wait at the limit of dirty pages either.
#[test]
fn readers_do_not_keep_writers_out() {
    let settings = Settings { size: 32 * MIB, window: 0, gather: 0, ..small(0) };
    let (world, device) = over(32, &settings);
    let mut writer = device.channel(4000).unwrap();
    for page in 0..3000u64 {
        assert!(writer.submit(Bio::write(page * 8192, vec![1u8; 4096]).unwrap()).is_ok());
    }
    let (mut crowd, mut done) = (Crowd::new(&device, 2000), Vec::new());
    while writer.outstanding() > 0 && world.clock().now() < Time(2_000_000_000) {
        crowd.poll();
        writer.poll(&mut done);
        pass(&world, [&crowd.channel, &writer].into_iter());
    }
    assert_eq!(writer.outstanding(), 0, "at {:?}", world.clock().now());
    assert!(done.iter().all(|bio| bio.status().is_ok()));
}

/// A write at the limit of dirty pages waits, and that is counted, with its time.
#[test]
fn waits_of_writers_are_counted() {
    let (world, device) = over(1, &small(100));
    let waits = || (fact(&device, "writer waits"), fact(&device, "writer wait time"));
    let write = |page: u64| device.write_at(&[1; 4096], page * 8192).unwrap();
    // 20 of 100 pages may be dirty.
    (0..20).for_each(write);
    assert_eq!(waits(), (0, 0));
    let before = world.clock().now();
    (20..100).for_each(write);
    let (count, nanos) = waits();
    // The disk has written 80 pages, one after the other. Time passes only while a write waits.
    assert!((1..=160).contains(&count), "{count} waits");
    let all = world.clock().now().since(before).as_nanos();
    assert!(all >= 7_000_000 && nanos <= all && nanos * 2 >= all, "{nanos} of {all} ns");
}

/// Nor does write-back that is in no hurry delay reads for long.
#[test]
fn write_back_does_not_keep_readers_waiting() {
    let longest = reads_beside_write_back();
    assert!(longest <= Span::from_millis(20), "{longest:?}");
}

/// Readahead works for a sequential reader beside other readers: on a disk with room for all of them it is as
/// fast as alone.
#[test]
fn a_crowd_does_not_turn_readahead_off() {
    let alone = sequential(0);
    for out in [100, 128, 256] {
        let beside = sequential(out);
        assert!(beside < alone * 2, "beside {out} random reads {beside} us, alone {alone}");
    }
}

/// The time, in microseconds, in which a reader reads 4 MiB beside `out` random reads.
fn sequential(out: usize) -> u64 {
    let settings = Settings { size: 64 * MIB, ..small(0) };
    let (world, device) = over(512, &settings);
    let (mut crowd, handle) = (Crowd::new(&device, out), device.handle());
    let mut reader = handle.device().channel(1).unwrap();
    let (mut pos, mut done) = (0, Vec::new());
    while pos < 4 * MIB {
        crowd.poll();
        if reader.outstanding() == 0 {
            assert!(reader.submit(Bio::read(pos, vec![0u8; 4096]).unwrap()).is_ok());
        }
        match reader.poll(&mut done) {
            0 => pass(&world, [&crowd.channel, &reader].into_iter()),
            _ => pos += 4096,
        }
        done.clear();
    }
    world.clock().now().0 / 1000
}

/// Many more readers than frames: each page is read at most once for each reader that requests it.
#[test]
fn a_page_stays_until_its_reader_has_it() {
    for (channels, depth) in [(4, 8), (4, 32), (16, 32)] {
        let (world, device) = over(64, &Settings { window: 0, ..small(64) });
        let mut all: Vec<Channel> = (0..channels).map(|_| device.channel(depth).unwrap()).collect();
        let (mut rng, mut reads, mut done) = (Rng::new(7), 0, Vec::new());
        while reads < 4000 {
            for channel in &mut all {
                while channel.outstanding() < depth {
                    let pos = rng.below(65_000) * 4096;
                    assert!(channel.submit(Bio::read(pos, vec![0u8; 4096]).unwrap()).is_ok());
                }
                reads += channel.poll(&mut done) as u64;
                assert!(done.drain(..).all(|bio| bio.status().is_ok()));
            }
            pass(&world, all.iter());
        }
        let below: u64 = device.cache_counters().unwrap().reads.iter().sum();
        // The reads in flight have been started, too.
        let asked = reads + (channels * depth) as u64;
        assert!(below <= asked, "{channels} channels of {depth}: {below} reads below for {asked}");
    }
}

/// A channel that is not polled keeps its pages for a limited time only.
#[test]
fn a_reader_that_does_not_come_keeps_nobody_out() {
    let (world, device) = over(64, &Settings { window: 0, ..small(16) });
    let mut idle = device.channel(64).unwrap();
    for page in 0..64u64 {
        assert!(idle.submit(Bio::read(page * 4096, vec![0u8; 4096]).unwrap()).is_ok());
    }
    idle.flush();
    let mut page = [0; 4096];
    for at in 100..200u64 {
        device.read_at(&mut page, at * 4096).unwrap();
    }
    assert!(world.clock().now() < Time(1_000_000_000), "{:?}", world.clock().now());
    let mut done = Vec::new();
    while idle.outstanding() > 0 {
        idle.wait(&mut done, None);
    }
    assert!(done.iter().all(|bio| bio.status().is_ok()));
}

/// Writers that wait for fewer dirty pages are woken in order, when there is room for them.
#[test]
fn writers_wait_in_line() {
    for writers in [4, 64] {
        let settings = Settings { background: 5, dirty: 10, window: 0, ..small(512) };
        let (world, device) = over(4, &settings);
        let mut all: Vec<Channel> = (0..writers).map(|_| device.channel(1).unwrap()).collect();
        let mut written = vec![0u64; writers];
        let (mut rng, mut done) = (Rng::new(3), Vec::new());
        let before = fact(&device, "cache turns without progress");
        while written.iter().sum::<u64>() < 4000 {
            for (channel, written) in all.iter_mut().zip(&mut written) {
                if channel.outstanding() == 0 {
                    let pos = rng.below(60_000) * 4096;
                    assert!(channel.submit(Bio::write(pos, vec![1u8; 4096]).unwrap()).is_ok());
                    channel.flush();
                }
                *written += channel.poll(&mut done) as u64;
                assert!(done.drain(..).all(|bio| bio.status().is_ok()));
            }
            pass(&world, all.iter());
        }
        let (least, most) = (written.iter().min().unwrap(), written.iter().max().unwrap());
        assert!(most - least <= most / 4 + 2, "{writers} writers: {written:?}");
        let vain = fact(&device, "cache turns without progress") - before;
        assert!(vain < 400, "{writers} writers: {vain} turns without progress for 4000 pages");
    }
}
