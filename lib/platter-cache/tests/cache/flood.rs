//! A writer with few dirty pages beside one with many.

use crate::rig::{self, small};
use platter_block::bio::{Bio, Context};
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

/// A disk of 64 MiB that takes 1 ms for each of up to four commands, and a cache over it with 200 to 400 dirty pages.
pub(crate) fn over_slow() -> (Arc<World>, Device) {
    let ideal = Ideal { size: 64 * MIB, latency: Span::from_millis(1), depth: 4, write_cache: false };
    let world = World::new(1);
    let (disk, _) = rig::disk(&world, ideal, None);
    let settings = Settings { background: 10, dirty: 20, window: 0, ..small(2000) };
    let device = rig::cached(rig::backend(&disk, DiskSettings::default()), &settings);
    (world, device)
}

pub(crate) fn pass(world: &World, all: &[&Channel]) {
    let next = all.iter().filter_map(|channel| channel.next_wakeup()).min();
    next.into_iter().for_each(|at| world.clock().advance_to(at));
}

pub(crate) fn write(pos: u64, by: Context) -> Bio {
    let mut bio = Bio::write(pos, vec![1u8; 4096]).unwrap();
    bio.set_context(by);
    bio
}

/// What comes of a write of one page each 20 ms beside a writer with 300 writes at a time.
pub(crate) struct Beside {
    pub(crate) longest: Span,
    pub(crate) middle: Span,
    /// Writes a second of the other writer.
    pub(crate) flooded: u64,
}

pub(crate) fn beside_flood(light: Context, heavy: Context) -> Beside {
    let (world, device) = over_slow();
    let (mut flood, mut calm) = (device.channel(300).unwrap(), device.channel(1).unwrap());
    let (mut rng, mut done, mut flooded) = (Rng::new(5), Vec::new(), 0);
    let (mut began, mut due, mut times) = (Time(0), Time(0), Vec::new());
    while times.len() < 60 {
        while flood.outstanding() < 300 {
            let bio = write(rng.below(8000) * 8192, heavy);
            assert!(flood.submit(bio).is_ok());
        }
        flood.flush();
        flooded += flood.poll(&mut done) as u64;
        let now = world.clock().now();
        if calm.outstanding() == 0 && now >= due {
            began = now;
            let bio = write(4096 + rng.below(8000) * 8192, light);
            assert!(calm.submit(bio).is_ok());
            calm.flush();
        }
        if calm.poll(&mut done) > 0 {
            times.push(world.clock().now().since(began));
            due = began + Span::from_millis(20);
        }
        assert!(done.drain(..).all(|bio| bio.status().is_ok()));
        pass(&world, &[&flood, &calm]);
        if calm.outstanding() == 0 && flood.next_wakeup().is_none_or(|at| at > due) {
            world.clock().advance_to(due.max(world.clock().now()));
        }
    }
    times.sort_unstable();
    let flooded = flooded * 1_000_000_000 / world.clock().now().0;
    Beside { longest: times[times.len() - 1], middle: times[times.len() / 2], flooded }
}

/// The longest time of 300 random reads, one at a time, beside the write-back of 4,000 pages that a program has written before.
pub(crate) fn reads_beside_write_back() -> Span {
    let ideal = Ideal { size: 64 * MIB, latency: Span::from_millis(1), depth: 8, write_cache: false };
    let world = World::new(1);
    let (disk, _) = rig::disk(&world, ideal, None);
    let settings = Settings { background: 1, dirty: 90, window: 0, write_depth: 4, ..small(10_000) };
    let device = rig::cached(rig::backend(&disk, DiskSettings::default()), &settings);
    (0..4000).for_each(|page| device.write_at(&[1; 4096], page * 12_288).unwrap());
    let (mut channel, mut rng, mut done) = (device.channel(1).unwrap(), Rng::new(3), Vec::new());
    let mut longest = Span::ZERO;
    for _ in 0..300 {
        let began = world.clock().now();
        assert!(channel.submit(Bio::read(4096 + rng.below(5000) * 12_288, vec![0u8; 4096]).unwrap()).is_ok());
        channel.flush();
        while channel.poll(&mut done) == 0 {
            pass(&world, &[&channel]);
        }
        longest = longest.max(world.clock().now().since(began));
    }
    longest
}
