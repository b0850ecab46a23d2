//! Checks that soft barriers are kept across a power cut.

use crate::rig::{self, small};
use crate::stamp::{self, SECTOR};
use platter_block::bio::Flags;
use platter_block::time::Span;
use platter_cache::Settings;
use platter_disk::disk_backend::DiskSettings;
use platter_disk::sync_io::IoOptions;
use platter_sim::World;
use platter_sim::ideal::Ideal;
use platter_sim::power::Survivors;
use platter_sim::rng::Rng;

pub(crate) const SECTORS: u64 = 256;

/// The position of each version; every third is a barrier.
fn places(seed: u64) -> Vec<(u64, u64)> {
    let mut rng = Rng::new(seed);
    (0..30).map(|_| (rng.below(SECTORS - 12), 1 + rng.below(12))).collect()
}

/// The version in each sector when all versions up to `last` are there.
fn state(places: &[(u64, u64)], last: usize) -> Vec<u64> {
    let mut state = vec![0; SECTORS as usize];
    for (version, &(first, count)) in (1..).zip(&places[..last]) {
        state[first as usize..(first + count) as usize].fill(version);
    }
    state
}

/// Versions of one span: between two barriers, or a barrier alone.
fn span_of(version: u64) -> u64 {
    version / 3 * 2 + u64::from(!version.is_multiple_of(3))
}

/// Panics if data from after a soft barrier is there after a power cut without all data from before it, in a cache of this number
/// of shards.
pub(crate) fn check_barriers(shards: u32) {
    let mut seen = 0;
    for seed in 0..300 {
        let world = World::new(seed);
        let ideal =
            Ideal { size: SECTORS * 512, latency: Span::from_micros(10), depth: 8, write_cache: false };
        let (disk, supply) = rig::disk(&world, ideal, None);
        let sizes = Settings { shards, extent: 4096, ..small(20 * u64::from(shards)) };
        let settings = Settings { background: 10, dirty: 60, ..sizes };
        let device = rig::cached(rig::backend(&disk, DiskSettings::default()), &settings);
        let mut rng = Rng::new(seed);
        supply.cut_after(rng.below(50), Survivors::Seeded(seed));
        let places = places(seed);
        for (version, &(first, count)) in (1..).zip(&places) {
            let options = match version % 3 {
                0 => IoOptions::flags(Flags::SOFT_BARRIER),
                _ => IoOptions::default(),
            };
            let data = stamp::sectors(version, first, count);
            if device.write_at_with(&data, first * SECTOR as u64, options).is_err() {
                break;
            }
        }
        let _ = device.flush();
        supply.cut(world.clock().now(), Survivors::Seeded(seed));
        drop(device);
        supply.restore();
        let mut data = vec![0; (SECTORS * 512) as usize];
        rig::cached(rig::backend(&disk, DiskSettings::default()), &small(20)).read_at(&mut data, 0).unwrap();
        let found = stamp::versions(&data, 0);
        let newest = found.iter().copied().max().unwrap_or(0);
        seen += u64::from(newest > 6);
        // All versions of spans before that of the newest one are there, or newer ones.
        let before = (1..=30).filter(|&version| span_of(version) < span_of(newest)).max().unwrap_or(0);
        for (sector, (&found, &least)) in found.iter().zip(&state(&places, before as usize)).enumerate() {
            assert!(
                found >= least,
                "seed {seed}, sector {sector}: {found}, not {least}, but {newest} is there"
            );
        }
    }
    assert!(seen > 50, "only {seen} lives got that far");
}
