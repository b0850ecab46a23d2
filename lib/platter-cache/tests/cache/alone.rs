//! A readahead policy that runs one call at a time on each handle.

use crate::rig::{self, small};
use platter_block::bio::Bio;
use platter_block::time::{Span, Time};
use platter_cache::Settings;
use platter_cache::readahead::by_name;
use platter_disk::channel::Channel;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_disk::sync_io::IoOptions;
use platter_sim::World;
use platter_sim::ideal::Ideal;
use std::sync::Arc;

const MS: u64 = 1_000_000;

/// A disk that takes 50 ms for each of up to eight commands at a time, and a cache over it.
fn device() -> (Arc<World>, Device) {
    let ideal = Ideal { size: 1 << 20, latency: Span::from_millis(50), depth: 8, write_cache: false };
    let world = World::new(1);
    let (disk, _) = rig::disk(&world, ideal, None);
    platter_repro::policies::register_readahead();
    let settings = Settings { readahead: by_name("2.6.6+lock").unwrap(), ..small(32) };
    (world, rig::cached(rig::backend(&disk, DiskSettings::default()), &settings))
}

/// Begins to read a page.
fn begin(device: &Device, page: u64) -> Channel {
    let mut channel = device.channel(1).unwrap();
    assert!(channel.submit(Bio::read(page * 4096, vec![1u8; 4096]).unwrap()).is_ok());
    channel.poll(&mut Vec::new());
    channel
}

#[test]
fn a_call_waits_for_the_one_before_it() {
    let (world, device) = device();
    let mut channels = [begin(&device, 0), begin(&device, 100)];
    let mut ended = [None; 2];
    while ended.contains(&None) {
        for (channel, ended) in channels.iter_mut().zip(&mut ended) {
            let mut done = Vec::new();
            channel.poll(&mut done);
            if let [bio] = &done[..] {
                assert_eq!(bio.status(), Ok(()));
                *ended = Some(world.clock().now());
            }
        }
        let next = channels.iter().filter_map(Channel::next_wakeup).min();
        next.into_iter().for_each(|at| world.clock().advance_to(at));
    }
    assert_eq!(ended, [Some(Time(50 * MS)), Some(Time(100 * MS))]);
}

#[test]
fn a_lane_that_is_not_run_does_not_stop_other_calls_of_its_handle() {
    let (world, device) = device();
    let mut neglected = begin(&device, 0);
    let mut buffer = [1; 4096];
    let options = IoOptions::timeout(Span::from_secs(5));
    assert_eq!(device.read_at_with(&mut buffer, 100 * 4096, options).map_err(|error| error.fault), Ok(()));
    // The first call could have completed at 50 ms, and kept the handle for its patience.
    assert_eq!((world.clock().now(), buffer), (Time(110 * MS), [0; 4096]));
    // It only loses its turn, and later calls get turns again.
    let mut done = Vec::new();
    neglected.poll(&mut done);
    assert_eq!(done.iter().map(Bio::status).collect::<Vec<_>>(), [Ok(())]);
    device.read_at(&mut buffer, 200 * 4096).unwrap();
    assert_eq!(world.clock().now(), Time(160 * MS));
}
